"""Rows of CSV and JSON lines that cannot be read: how many are left out of files, and which.

Readers leave them out wherever they come by. The bytes of files decide, so all tasks and attempts leave out the same.
Which these are is found by tasks of their own: the result of a task counts once, however often it ran.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exoshuffle import _native
from exoshuffle.dataset.inputs import bounded
from exoshuffle.dataset.jobs import in_advance
from exoshuffle.errors import OptionsError, OutputError, shown
from exoshuffle.futures import Engine, get, remote

if TYPE_CHECKING:
    import pyarrow as pa

#: What a task looks through. If every row is bad, its result takes about ten times as much.
SEARCHED_BYTES = 4_000_000
SEARCH_MEMORY_BYTES = 12 * SEARCHED_BYTES
#: The first line of a file of bad rows.
HEADER = '"file","line","reason","text"\n'


@dataclass
class LeftOut:
    """Rows that are left out of the files of a source.

    Attributes:
        source: ``_native.Source``, opened so that it leaves out bad rows.
        path: Where they are written, if anywhere: a CSV file with the columns file, line, reason and text.
    """

    source: Any
    path: str | None = None
    _count: int | None = dataclasses.field(default=None, init=False)

    def count(self, engine: Engine) -> int:
        """How many there are; the first call reads the files, and writes ``path``.

        Raises:
            OutputError: ``path`` cannot be written.
            InputError: A file changed since it was listed.
        """
        if self._count is None:
            found = in_advance(self._found(), engine.num_cpus)
            self._count = _counted(found) if self.path is None else _written(found, self.path)
        return self._count

    def _found(self) -> Iterator[_Found]:
        search = remote(
            find_bad_rows, name="bad_rows", executor="thread", memory=SEARCH_MEMORY_BYTES
        )
        file, end = "", 0
        for split in self.source.splits(SEARCHED_BYTES):
            place = json.loads(split)
            # The first part of a file has what comes before its rows.
            start = end if place["path"] == file else 0
            file, end = place["path"], place["end"]
            ref = search.remote(bounded(self.source), self.source.schema_ipc, split, start)
            yield _Found(_native.shown_path(file), start == 0, ref)


@dataclass(frozen=True)
class _Found:
    """What a task finds in a part of a file."""

    file: str
    is_first: bool
    ref: Any


def find_bad_rows(read_options: str, schema: bytes, split: str, start: int) -> tuple[bytes, int]:
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
    if path.is_dir():
        raise OptionsError(f"bad_rows is {str(path)!r}, a directory; give the path of a file")
    if path.exists() and not _is_ours(path):
        raise OptionsError(
            f"bad_rows is {str(path)!r}, which exists and is no file of bad rows; give another path"
        )
    if not path.parent.is_dir():
        raise OptionsError(
            f"bad_rows is {str(path)!r}, in a directory that does not exist; make it"
        )
    return "skip", str(path)


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(len(HEADER))
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
    except OSError as error:
        raise OutputError(
            f"bad rows cannot be written to {path!r}: {error.strerror or error}; give another path"
        ) from error
    finally:
        Path(unfinished).unlink(missing_ok=True)
    return count
