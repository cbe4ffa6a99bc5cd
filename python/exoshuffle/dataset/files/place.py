"""Tells from the path of a result whether it is a directory, one file or standard output; and in which format.

A path is a file if it has an ending, unless a directory is there already or a ``/`` ends it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from exoshuffle import _native
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.errors import OptionsError

#: The path that is standard output.
STANDARD = "-"
Kind = Literal["directory", "file", "standard output"]
#: Endings of files that nothing here writes.
_COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".lz4", ".zip", ".sz", ".br")


def kind_of(path: str) -> Kind:
    """Returns the kind of an output with this path."""
    if path == STANDARD:
        return "standard output"
    has_ending = bool(Path(path).suffix) and not path.endswith("/")
    return "file" if has_ending and not os.path.isdir(path) else "directory"


def format_of(path: str) -> str | None:
    """Returns the format that the ending of a file names; None if it is no file, or no format has its ending."""
    return _native.format_of_name(path) if kind_of(path) == "file" else None


def check_ending(path: str, file_format: str) -> None:
    """Raises ``OptionsError`` where the ending of a file names another format, or a compression."""
    if kind_of(path) != "file":
        return
    suffix = Path(path).suffix
    said = format_of(path)
    if not (said in (None, file_format) or (_is_any_text(said) and FORMATS[file_format].is_text)):
        raise OptionsError(
            f"output {path} ends in {suffix}, which is {said}, and is to be {file_format}; name a file with another "
            f"ending, or {path}/ for a directory"
        )
    if suffix.lower() in _COMPRESSED:
        raise OptionsError(
            f"output {path} ends in {suffix}, and files are not compressed as a whole here; write "
            f"{path.removesuffix(suffix)}, and compress that, or write Parquet"
        )


def _is_any_text(file_format: str) -> bool:
    """Whether files of a format are just text. A file that is called so may hold any format of text."""
    return FORMATS[file_format].is_text and not FORMATS[file_format].holds_tables


def is_stream(path: str) -> bool:
    """Whether Arrow data is written to this path in the stream format, which can be read from its beginning on."""
    return path == STANDARD or (kind_of(path) == "file" and path.lower().endswith(".arrows"))
