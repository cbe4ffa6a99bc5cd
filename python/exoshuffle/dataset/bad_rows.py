"""Rows of CSV and JSON lines that cannot be read: how many are left out of files, and which.

Readers leave them out wherever they come by. The bytes of files decide, so all tasks and attempts leave out the same.
Which these are is found by tasks of their own: the result of a task counts once, however often it ran.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from exoshuffle import _native
from exoshuffle.dataset.inputs import bounded
from exoshuffle.dataset.jobs import in_advance
from exoshuffle.errors import ExoshuffleError, OptionsError, OutputError, shown
from exoshuffle.futures import Engine, get, remote

if TYPE_CHECKING:
    import pyarrow as pa

#: What a task looks through. If every row is bad, its result takes about ten times as much.
SEARCHED_BYTES = 4_000_000
SEARCH_MEMORY_BYTES = 12 * SEARCHED_BYTES
#: The first line of a file of bad rows.
HEADER = '"file","line","reason","text"\n'


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Rows that are left out of the files of a source.

    Attributes:
        source: All files, opened so that it leaves out bad rows.
        path: Where they are written, if anywhere: a CSV file with the columns file, line, reason and text.
        kept: The files that are read, by their numbers in the source; None for all.
        counts: How many were found in which files, so that one result after another searches them once. One for all
            that are made of this by ``within``.
    """

    source: _native.Source
    path: str | None = None
    kept: tuple[int, ...] | None = None
    counts: dict[tuple[_Files, ...], int] = field(default_factory=dict)

    def within(self, kept: Sequence[int]) -> LeftOut:
        """Of some files, by their numbers among those that are read."""
        numbers = kept if self.kept is None else [self.kept[number] for number in kept]
        return replace(self, kept=tuple(numbers))


#: Files of a source, all or some.
_Files: TypeAlias = tuple[_native.Source, tuple[int, ...] | None]


def count_bad_rows(found: Sequence[LeftOut], engine: Engine) -> int:
    """Rows that are left out of files; writes them where that was asked for. A file that is read twice counts once.

    Raises:
        OutputError: The file for them cannot be written.
        InputError: A file changed since it was listed.

    Cost: the first call reads the files.
    """
    paths = dict.fromkeys(each.path for each in found)
    return sum(
        _count([each for each in found if each.path == path], path, engine) for path in paths
    )


def write_bad_rows(found: Sequence[LeftOut], engine: Engine) -> None:
    """Writes what is left out of files where that was asked for; see ``count_bad_rows``."""
    count_bad_rows([each for each in found if each.path is not None], engine)


def _count(found: Sequence[LeftOut], path: str | None, engine: Engine) -> int:
    """Of all that is to be written to one file, or to none."""
    files = tuple(
        (source, _united([each.kept for each in found if each.source is source]))
        for source in dict.fromkeys(each.source for each in found)
    )
    counts = found[0].counts
    if files not in counts:
        parts = in_advance(_searched(files), engine.num_cpus)
        counts[files] = _counted(parts) if path is None else _written(parts, path)
    return counts[files]


def _united(numbers: Sequence[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    """The files that are in one of these at least; None is all."""
    known = [one for one in numbers if one is not None]
    return tuple(sorted(set().union(*known))) if len(known) == len(numbers) else None


def _searched(files: Sequence[_Files]) -> Iterator[_Found]:
    search = remote(find_bad_rows, name="bad_rows", executor="thread", memory=SEARCH_MEMORY_BYTES)
    for whole, kept in files:
        source = whole if kept is None else whole.with_files(kept)
        file, end = -1, 0
        for split in source.splits(SEARCHED_BYTES):
            # The first part of a file has what comes before its rows.
            start = end if split.file_index == file else 0
            file, end = split.file_index, split.end
            ref = search.remote(bounded(source), source.schema_ipc, split, start)
            yield _Found(split.file, start == 0, ref)


@dataclass(frozen=True)
class _Found:
    """What a task finds in a part of a file."""

    file: str
    is_first: bool
    ref: Any


def find_bad_rows(
    read_options: _native.ReadOptions, schema: bytes, split: _native.Split, start: int
) -> tuple[bytes, int]:
    """Task: the bad rows of a split as an Arrow stream, and the number of lines from ``start`` to its end."""
    return _native.bad_rows(read_options, schema, split, start)


def checked_bad_rows(bad_rows: Any) -> tuple[str, str | None]:
    """What to do about bad rows, ``raise`` or ``skip``, and where to write them.

    Raises:
        OptionsError: It is neither of these nor a path, or a path of something else.
    """
    if isinstance(bad_rows, str) and bad_rows in ("raise", "skip"):
        return bad_rows, None
    if not isinstance(bad_rows, str | os.PathLike) or not os.fspath(bad_rows):
        raise OptionsError(
            f"bad_rows is {shown(bad_rows)}; give 'raise', 'skip', or the path of a file for them"
        )
    path = Path(os.path.expanduser(os.fsdecode(bad_rows)))
    if path.exists() and not path.is_file():
        kind = "a directory" if path.is_dir() else "no regular file"
        raise OptionsError(f"bad_rows is {str(path)!r}, {kind}; give the path of a file")
    if path.exists() and not _is_ours(path):
        raise OptionsError(
            f"bad_rows is {str(path)!r}, which exists and is no file of bad rows; give another path"
        )
    if not path.parent.is_dir():
        raise OptionsError(
            f"bad_rows is {str(path)!r}, in a directory that does not exist; make it"
        )
    return "skip", str(path)


def check_place(path: str, inputs: Sequence[str]) -> None:
    """Raises ``OptionsError`` where the next reader of the inputs, names or patterns, would take the file for one."""
    # A link of this name would be replaced.
    place = Path(path).parent.resolve() / Path(path).name
    if place.name.startswith((".", "_")):  # which listings leave out
        return
    for name in inputs:
        is_below = Path(os.path.realpath(name)) in place.parents
        # A directory that a pattern finds is read as a whole.
        found = (_native.pattern_finds(name, str(each)) for each in (place, *place.parents))
        if is_below or any(found):
            raise OptionsError(
                f"bad_rows is {path!r}, which {name!r} would read as input the next time; give a path elsewhere"
            )


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            start = file.read(len(HEADER))
    except OSError as error:
        raise OptionsError(
            f"bad_rows is {str(path)!r}, which cannot be read ({error.strerror or error}); give another path"
        ) from error
    return start in (b"", HEADER.encode())


def _tables(found: Iterator[_Found]) -> Iterator[tuple[str, pa.Table]]:
    """The bad rows of each part of a file, with their lines in the file, from 1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lines = 0
    for part in found:
        lines = 0 if part.is_first else lines
        stream, more = get(part.ref)
        table = pa.ipc.open_stream(stream).read_all()
        table = table.set_column(0, "line", pc.add(table["line"], lines + 1))
        yield part.file, table.sort_by("line")
        lines += more


def _counted(found: Iterator[_Found]) -> int:
    return sum(table.num_rows for _, table in _tables(found))


def _written(found: Iterator[_Found], path: str) -> int:
    import pyarrow as pa
    import pyarrow.csv

    count = 0
    unfinished = f"{path}.unfinished-{os.getpid()}"
    try:
        with open(unfinished, "wb") as file:
            file.write(HEADER.encode())
            options = pyarrow.csv.WriteOptions(include_header=False)
            for name, table in _tables(found):
                count += table.num_rows
                files = pa.array([name] * table.num_rows, pa.string())
                if table.num_rows:
                    pyarrow.csv.write_csv(table.add_column(0, "file", files), file, options)
        os.replace(unfinished, path)
    except ExoshuffleError:  # of the search; some are errors of the system, too
        raise
    except OSError as error:
        raise OutputError(
            f"bad rows cannot be written to {path!r}: {error.strerror or error}; give another path"
        ) from error
    finally:
        Path(unfinished).unlink(missing_ok=True)
    return count
