"""File formats as the native module knows them: its registry is the only list of them."""

from __future__ import annotations

from exoshuffle import _native
from exoshuffle.late_dataclasses import dataclass


@dataclass(frozen=True)
class FileFormat:
    """The facts about a format that programs need.

    Attributes:
        name: Its name in programs.
        ending: The ending of written files, without the dot.
        compressions: The compressions that it can be written with.
        is_text: Files are characters, which may be compressed as a whole; a file does not tell how many rows it has.
        tells_types: Files tell the types of their columns. If they do not, types can be given, or are inferred.
        holds_tables: Tables can be written, if each of their types can; else rows are of one kind.
    """

    name: str
    ending: str
    compressions: tuple[str, ...]
    is_text: bool
    tells_types: bool
    holds_tables: bool


FORMATS = {
    name: FileFormat(name, ending, tuple(compressions), *facts)
    for name, ending, compressions, facts in _native.formats()
}
