"""File formats as the native module knows them: its registry is the only list of them."""

from __future__ import annotations

from dataclasses import dataclass

from exoshuffle import _native


@dataclass(frozen=True)
class FileFormat:
    """What programs need to know of a format.

    Attributes:
        name: What programs call it.
        ending: How files end that are written, without the dot.
        compressions: What files can be compressed with.
        is_text: Files are characters, which may be compressed as a whole; a file does not tell how many rows it has.
        tells_types: Files tell the types of their columns. Where not, types can be given, and are inferred otherwise.
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
