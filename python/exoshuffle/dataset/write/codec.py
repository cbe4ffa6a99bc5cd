"""The compression of files where none is named: that of the input in the same format, or the usual one of the format.

Files that grow when they are only sorted surprise, and so do files that were small as CSV in a program before.
"""

from __future__ import annotations

from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.tree.nodes import Node, sources
from exoshuffle.errors import InputError

#: The name of no compression.
NONE = "none"


def default_compression(node: Node, file_format: str) -> str:
    """Returns the compression for files of a tree's result.

    Cost: reads the footer of the first file of the format, if its usual compression is not none.
    """
    usual = FORMATS[file_format].usual_compression
    read = [source for source in sources(node) if source.format == file_format and source.files]
    if usual == NONE or not read:
        return usual
    try:
        found = read[0].compression()
    except InputError:
        # The task that reads the rows says what is wrong with the file.
        return usual
    return usual if found == NONE else found
