"""Finds and counts the rows of CSV and JSON lines that are left out because they cannot be read.

Every reader leaves bad rows out. The bytes of files decide, so all tasks and attempts leave out the same rows. Separate
tasks find these rows, because the result of a task counts once, however often it ran. They search the files that are
read: a filter on partition columns takes the bad rows of a file with the others, whatever stands between.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle._native import StoredPath
from exoshuffle.dataset.inputs.left_out import HEADER, FilesOf, LeftOut
from exoshuffle.dataset.inputs.reading import bounded
from exoshuffle.dataset.jobs.following import in_advance
from exoshuffle.dataset.tree.facts import left_out
from exoshuffle.dataset.tree.lowering import lowered
from exoshuffle.dataset.tree.nodes import Node
from exoshuffle.errors import ExoshuffleError, OutputError
from exoshuffle.futures import Engine, Ref, get, remote
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import int64, scalar_of

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes that a task searches. If every row is bad, its result takes about ten times as much.
SEARCHED_BYTES = 4_000_000
SEARCH_MEMORY_BYTES = 12 * SEARCHED_BYTES
#: Copies of a row behind the search, which lets go of it: the row as it was decoded. With those of unknown takers, a
#: line of 100 MB was refused with 946 MB.
ROW_COPIES = 1


def count_bad_rows(node: Node, engine: Engine) -> int:
    """Counts the rows that are left out of the files of a tree, and writes them to ``path`` where there is one.

    A file that is read twice counts once.

    Raises:
        OutputError: The file for them cannot be written.
        InputError: A file changed since it was listed.

    Cost: the first call reads the files.
    """
    return _counted_all(_found_in(node), engine)


def write_bad_rows(node: Node, engine: Engine) -> None:
    """Writes the rows that are left out, where they have a path; see ``count_bad_rows``."""
    _counted_all([each for each in _found_in(node) if each.path is not None], engine)


def _found_in(node: Node) -> list[LeftOut]:
    """Returns the rows that are left out of the files that a tree reads."""
    return left_out(lowered(node)) if left_out(node) else []


def _counted_all(found: Sequence[LeftOut], engine: Engine) -> int:
    paths = dict.fromkeys(each.path for each in found)
    return sum(
        _count([each for each in found if each.path == path], path, engine) for path in paths
    )


def _count(found: Sequence[LeftOut], path: str | None, engine: Engine) -> int:
    """Counts the rows that go to one path, or to none."""
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
    """Returns the files that are in at least one of these; None stands for all files."""
    known = [one for one in numbers if one is not None]
    return tuple(sorted(set().union(*known))) if len(known) == len(numbers) else None


def _searched(files: Sequence[FilesOf]) -> Iterator[_Found]:
    search = remote(find_bad_rows, name="bad_rows", executor="thread", memory=SEARCH_MEMORY_BYTES)
    for whole, kept in files:
        source = whole if kept is None else whole.with_files(kept)
        file, end = -1, 0
        for split in source.splits(SEARCHED_BYTES):
            # The first part of a file includes the bytes before its rows.
            start = end if split.file_index == file else 0
            file, end = split.file_index, split.end
            ref = search.remote(bounded(source, ROW_COPIES), source.schema_ipc, split, start)
            yield _Found(split.file, start == 0, ref)


@dataclass(frozen=True)
class _Found:
    """The bad rows that a task finds in a part of a file."""

    file: str
    is_first: bool
    ref: Ref


def find_bad_rows(
    read_options: _native.ReadOptions, schema: bytes, split: _native.Split, start: int
) -> tuple[bytes, int]:
    """Task: returns the bad rows of a split as an Arrow stream, and the number of lines from ``start`` to its end."""
    return _native.bad_rows(read_options, schema, split, start)


def _tables(found: Iterator[_Found]) -> Iterator[tuple[str, pa.Table]]:
    """Yields the bad rows of each part of a file, with their lines in the file, from 1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lines = 0
    for part in found:
        lines = 0 if part.is_first else lines
        stream, more = get(part.ref)
        table = pa.ipc.open_stream(stream).read_all()
        table = table.set_column(0, "line", pc.add(table["line"], int64(lines + 1)))
        yield part.file, table.sort_by("line")
        lines += more


def _counted(found: Iterator[_Found]) -> int:
    return sum(table.num_rows for _, table in _tables(found))


def _written(found: Iterator[_Found], path: str) -> int:
    import pyarrow as pa
    import pyarrow.csv

    count = 0
    unfinished = StoredPath(f"{path}.unfinished-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        file = unfinished.create()
        file.write(HEADER.encode())
        options = pyarrow.csv.WriteOptions(include_header=False)
        for name, table in _tables(found):
            count += table.num_rows
            files = pa.repeat(scalar_of(name, pa.string()), table.num_rows)
            if table.num_rows:
                rows = pa.BufferOutputStream()
                pyarrow.csv.write_csv(table.add_column(0, "file", files), rows, options)
                file.write(rows.getvalue().to_pybytes())
        file.finish()
        unfinished.rename(StoredPath(path))
    except ExoshuffleError:  # from the search; some of these are also OSErrors
        raise
    except OSError as error:
        raise OutputError(
            f"bad rows cannot be written to {path!r}: {error.strerror or error}; give another path"
        ) from error
    finally:
        with contextlib.suppress(OSError):  # it has its place
            unfinished.remove()
    return count
