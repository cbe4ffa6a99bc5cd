"""Narrows files to the rows that filters may keep, by what files say about the values of columns.

Guarantee: a row that is left out is one that a filter would drop, so the result has the same rows. Row groups go first,
by the statistics in footers. Bloom filters are asked for the row groups that stay, where a column must equal literals.
Then pages go, where files have an index of pages. Sizes of the narrowed source are those of the rows that stay, so
plans, splits and bills go by them.

Filters behind steps that pass a column on count like filters of the files. A condition may raise an error for a row,
such as a number from other text. It does not come for rows that are left out.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from exoshuffle import _native
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.inputs.hive import partitions_of
from exoshuffle.dataset.inputs.reading import schema_of
from exoshuffle.errors import InputError
from exoshuffle.operators.kernels import call
from exoshuffle.operators.sql.equal_values import equal_values
from exoshuffle.operators.sql.spreads import (
    ROWS,
    AllOf,
    AnyOf,
    OfColumn,
    OnSpreads,
    columns_in,
    leaves,
    on_spreads,
    possible,
)
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

#: Files up to this size are read whole, once, so looking into them costs as much as it saves.
SMALL_FILE_BYTES = 128_000
#: Nor are rows looked for in less than this, decoded: it is read in the time that a condition is translated in, 20 ms.
SMALL_BYTES = 4_000_000
#: Files are not looked into for filters on more columns, each of which takes two queries of 2 ms. ``drop_nulls`` of
#: 3,000 took 33 s of CPU.
MOST_COLUMNS = 64
#: The columns of a spread that tell which rows a line is of, and not what is known of them.
_PLACES = ["file", "start", "end", "filters"]
#: The end of a file's last row, whatever their number.
_END = 2**63 - 1

#: Rows of a file: the first of each range, and the one behind its last.
_Ranges: TypeAlias = list[tuple[int, int]]
#: The rows of each file that may be wanted, by the number of the file; all of others.
_Kept: TypeAlias = dict[int, _Ranges]


def narrowed(source: _native.Source, steps: Sequence[Step]) -> _native.Source:
    """Returns the files with only those rows that the filters among the steps may keep.

    Cost: reads footers again, and the page indexes of the filters' columns. Where a filter asks for equal values and a
    row group has a Bloom filter, it takes two queries for the values. It reads 4 kB of each of these filters for each
    value.
    """
    if not _is_worth(source):
        return source
    wanted = _on_files(source, steps)
    if wanted is None or len(columns_in(wanted)) > MOST_COLUMNS:
        return source
    # Files without an index of pages tell the same twice: Q6 of TPC-H asked 6 queries of 2 ms instead of 3.
    told = functools.cache(_told)
    return looked_into(source, steps, lambda files, detail: _without(files, wanted, detail, told))


def looked_into(
    source: _native.Source,
    steps: Sequence[Step],
    without: Callable[[_native.Source, str], _native.Source],
) -> _native.Source:
    """Returns the files without row groups, and then without pages, that ``without`` finds to have no wanted row.

    Args:
        source: The files.
        steps: Applied to the rows as they are read.
        without: Leaves rows out; gets the files, and ``"groups"`` or ``"pages"``.
    """
    if not _is_worth(source):
        return source
    is_numbered = any(step.numbers is not None for step in steps)
    # Rows that are numbered as they are read must follow each other in a split.
    details = ("groups",) if is_numbered else ("groups", "pages")
    try:
        for detail in details:
            source = without(source, detail)
    except InputError:  # reading raises it, if these files are read at all
        pass
    return source


def _is_worth(source: _native.Source) -> bool:
    return FORMATS[source.format].skips_rows and source.memory_bytes >= SMALL_BYTES


def column_in_files(source: _native.Source, name: str, steps: Sequence[Step]) -> str | None:
    """Returns the column of files that has this name behind steps; None if a step makes it, or folders do."""
    names = {name: name}
    for before in reversed(steps):
        names = before.names_before(names)
    own = names.get(name)
    schema, of_folders = schema_of(source), partitions_of(source).schema
    return own if own in schema.names and own not in of_folders.names else None


def without_lines(
    source: _native.Source,
    column: str,
    detail: str,
    is_wanted: Callable[[pa.Table], list[bool]],
) -> _native.Source:
    """Returns the files without the rows of those lines of a column's spread that are not wanted."""
    [table] = source.spreads_ipc([column], detail, SMALL_FILE_BYTES)
    spread = _spread(table)
    return _with_rows(source, spread, _of_lines(spread, is_wanted(spread)))


def _on_files(source: _native.Source, steps: Sequence[Step]) -> OnSpreads | None:
    """Returns what the filters among steps ask of the columns of files."""
    schema = schema_of(source)
    of_folders = set(partitions_of(source).schema.names)
    parts: list[OnSpreads] = []
    for index, step in enumerate(steps):
        if step.condition_sql is not None:
            names = {name: name for name in schema.names}
            for before in reversed(steps[:index]):
                names = before.names_before(names)
            own = {name: file for name, file in names.items() if file not in of_folders}
            found = on_spreads(step.condition_sql, schema)
            renamed = None if found is None else _renamed(found, own)
            if renamed is not None:
                parts.append(renamed)
        schema = step.output_schema(schema)
    return AllOf(tuple(parts)) if parts else None


def _renamed(condition: OnSpreads, names: Mapping[str, str]) -> OnSpreads | None:
    """Returns the condition with the names of columns in files; without what these tell nothing about."""
    if isinstance(condition, OfColumn):
        own = names.get(condition.column)
        return None if own is None else dataclasses.replace(condition, column=own)
    renamed = [_renamed(part, names) for part in condition.parts]
    known = tuple(part for part in renamed if part is not None)
    if isinstance(condition, AllOf):
        return AllOf(known) if known else None
    return AnyOf(known) if len(known) == len(renamed) else None


def _told(conditions: tuple[OfColumn, ...], table: bytes) -> list[list[bool]]:
    """Says for each condition on a column, and each line of its spread, whether it may be true."""
    return possible(conditions, _spread(table).drop_columns(_PLACES))


def _without(
    source: _native.Source,
    wanted: OnSpreads,
    detail: str,
    told: Callable[[tuple[OfColumn, ...], bytes], list[list[bool]]],
) -> _native.Source:
    """Returns the source without the row groups, or pages, that can have no wanted row, as ``_told`` says."""
    columns = sorted(columns_in(wanted))
    found = source.spreads_ipc(columns, detail, SMALL_FILE_BYTES)
    tables = dict(zip(columns, found, strict=True))
    spreads = {column: _spread(table) for column, table in tables.items()}

    are_possible: dict[OfColumn, list[bool]] = {}
    for column, table in tables.items():
        asked = tuple({leaf: None for leaf in leaves(wanted) if leaf.column == column})
        are_possible.update(zip(asked, told(asked, table), strict=True))

    kept = _kept(wanted, lambda leaf: _of_lines(spreads[leaf.column], are_possible[leaf]))
    source = _with_rows(source, next(iter(spreads.values())), kept)
    return _sieved(source, wanted, spreads, kept)


def _sieved(
    source: _native.Source, wanted: OnSpreads, spreads: Mapping[str, pa.Table], kept: _Kept
) -> _native.Source:
    """Returns the source without row groups that have no wanted row, as their Bloom filters say.

    Args:
        source: The files, without the row groups that statistics rule out.
        wanted: The rows that filters ask for.
        spreads: The spread of each column of theirs, with the lines of all row groups.
        kept: The rows that are left in the source.
    """
    asked = {
        leaf: values
        for leaf in leaves(wanted)
        if leaf.equals and _has_filters(spreads[leaf.column], kept)
        for values in (equal_values(leaf, spreads[leaf.column]),)
        if values is not None
    }
    if not asked:
        return source
    [lines] = source.spreads_ipc([next(iter(asked)).column], "groups", SMALL_FILE_BYTES)
    spread = _spread(lines)

    def held(leaf: OfColumn) -> _Kept:
        if leaf not in asked:
            return _of_lines(spread, [True] * spread.num_rows)
        return _of_lines(
            spread, source.may_hold(leaf.column, _stream_of(asked[leaf]), SMALL_FILE_BYTES)
        )

    return _with_rows(source, spread, _kept(wanted, held))


def _has_filters(spread: pa.Table, kept: _Kept) -> bool:
    """Whether a row group that is left has a Bloom filter for the column of a spread."""
    of_lines = _of_lines(spread, spread.column("filters").to_pylist())
    return any(_intersected(ranges, kept[file]) for file, ranges in of_lines.items())


def _stream_of(values: pa.Array) -> bytes:
    """Returns values as an Arrow IPC stream of one batch."""
    import pyarrow as pa

    batch, sink = pa.record_batch([values], names=["value"]), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    stream_bytes: bytes = sink.getvalue().to_pybytes()
    return stream_bytes


def _with_rows(source: _native.Source, spread: pa.Table, kept: _Kept) -> _native.Source:
    """Returns the source with these rows of the files in a spread, and all rows of others."""
    if kept == _of_lines(spread, [True] * spread.num_rows):
        return source
    num_files = len(source.places)
    return source.with_rows([kept.get(number, [(0, _END)]) for number in range(num_files)])


def _spread(table: bytes) -> pa.Table:
    """Returns the spread of a column, with the number of rows of each line."""
    import pyarrow as pa

    read = pa.ipc.open_stream(table).read_all()
    return read.append_column(ROWS, call("subtract", read.column("end"), read.column("start")))


def _kept(condition: OnSpreads, of_leaf: Callable[[OfColumn], _Kept]) -> _Kept:
    """Returns the rows that a condition may want, from those that each of its parts may want."""
    if isinstance(condition, OfColumn):
        return of_leaf(condition)
    found = (_kept(part, of_leaf) for part in condition.parts)
    return functools.reduce(_both if isinstance(condition, AllOf) else _either, found)


def _of_lines(spread: pa.Table, is_kept: Sequence[bool]) -> _Kept:
    """Returns the rows of the kept lines; every file of the spread is in the result."""
    files, starts, ends = (spread.column(name).to_pylist() for name in ("file", "start", "end"))
    kept: _Kept = {}
    for file, start, end, is_wanted in zip(files, starts, ends, is_kept, strict=True):
        ranges = kept.setdefault(file, [])
        if is_wanted and ranges and ranges[-1][1] == start:
            ranges[-1] = (ranges[-1][0], end)
        elif is_wanted:
            ranges.append((start, end))
    return kept


def _both(one: _Kept, other: _Kept) -> _Kept:
    return {file: _intersected(ranges, other[file]) for file, ranges in one.items()}


def _either(one: _Kept, other: _Kept) -> _Kept:
    return {file: _united(ranges, other[file]) for file, ranges in one.items()}


def _intersected(one: _Ranges, other: _Ranges) -> _Ranges:
    found: _Ranges = []
    at = 0
    for start, end in one:
        while at < len(other) and other[at][1] <= start:
            at += 1
        for first, last in itertools.islice(other, at, None):
            if first >= end:
                break
            found.append((max(start, first), min(end, last)))
    return found


def _united(one: _Ranges, other: _Ranges) -> _Ranges:
    found: _Ranges = []
    for start, end in sorted([*one, *other]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
