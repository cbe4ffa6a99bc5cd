"""Rows of CSV and JSON lines that cannot be read: checks the option for them, and describes the ones of a source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field, replace
from typing import TypeAlias

from exoshuffle import _native
from exoshuffle._native import StoredPath
from exoshuffle.errors import OptionsError, shown
from exoshuffle.late_dataclasses import dataclass

#: The first line of a file of bad rows.
HEADER = '"file","line","reason","text"\n'
#: Files of a source, all or some.
FilesOf: TypeAlias = "tuple[_native.Source, tuple[int, ...] | None]"


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Rows that are left out of the files of a source.

    Attributes:
        source: All files, opened so that the source leaves out bad rows.
        path: The file that they are written to, if any: CSV with the columns file, line, reason and text.
        kept: The files that are read, by their numbers in the source; None for all.
        counts: Numbers of rows that were found in files, so that several results search the files once. All objects
            that ``within`` makes of this one share it.
    """

    source: _native.Source
    path: str | None = None
    kept: tuple[int, ...] | None = None
    counts: dict[tuple[FilesOf, ...], int] = field(default_factory=dict)

    def within(self, kept: Sequence[int]) -> LeftOut:
        """Returns the rows that are left out of some files, given by their numbers among the files that are read."""
        numbers = kept if self.kept is None else [self.kept[number] for number in kept]
        return replace(self, kept=tuple(numbers))


def checked_bad_rows(bad_rows: object) -> tuple[str, str | None]:
    """Returns what to do about bad rows, ``raise`` or ``skip``, and where to write them.

    Raises:
        OptionsError: The option is neither of these words nor a path, or the path has something else than bad rows.
    """
    if isinstance(bad_rows, str) and bad_rows in ("raise", "skip"):
        return bad_rows, None
    if not isinstance(bad_rows, str | os.PathLike) or not os.fspath(bad_rows):
        raise OptionsError(
            f"bad_rows is {shown(bad_rows)}; give 'raise', 'skip', or the path of a file for them"
        )
    path = StoredPath(os.path.expanduser(os.fsdecode(bad_rows)))
    found = path.kind()
    if found not in (None, "file"):
        kind = "a directory" if found == "directory" else "no regular file"
        raise OptionsError(f"bad_rows is {str(path)!r}, {kind}; give the path of a file")
    if found is not None and not _is_ours(path):
        raise OptionsError(
            f"bad_rows is {str(path)!r}, which exists and is no file of bad rows; give another path"
        )
    if path.parents[0].resolved().kind() != "directory":
        raise OptionsError(
            f"bad_rows is {str(path)!r}, in a directory that does not exist; make it"
        )
    return "skip", str(path)


def check_place(path: str, inputs: Sequence[str]) -> None:
    """Raises ``OptionsError`` if the next reader of the inputs, names or patterns, would read the file as an input."""
    # Does not follow a link of this name, because writing replaces the link.
    own = StoredPath(path)
    place = own.parents[0].resolved() / own.name
    if place.name.startswith((".", "_")):  # listings leave such files out
        return
    for name in inputs:
        is_below = StoredPath(name).resolved() in place.parents
        # A directory that a pattern finds is read as a whole.
        found = (_native.pattern_finds(name, str(each)) for each in (place, *place.parents))
        if is_below or any(found):
            raise OptionsError(
                f"bad_rows is {path!r}, which {name!r} would read as input the next time; give a path elsewhere"
            )


def _is_ours(path: StoredPath) -> bool:
    try:
        start = path.start(len(HEADER))
    except OSError as error:
        raise OptionsError(
            f"bad_rows is {str(path)!r}, which cannot be read ({error.strerror or error}); give another path"
        ) from error
    return start in (b"", HEADER.encode())
