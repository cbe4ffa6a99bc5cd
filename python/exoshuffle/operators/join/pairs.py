"""Finds which rows of two tables match: row numbers only, from keys only.

Guarantee: pairs come in the order of the left rows, and for each of them in the order of the right rows. They come in
windows: only the row numbers of one window are held, however many pairs there are.

How: right rows are sorted by key once, so that a group of equal keys is a stretch of them. For each left row, DuckDB
returns where its group starts and how long it is. Pairs are then numbered through: pair p belongs to the first left row
whose pairs end after p. Why not DuckDB's own pairs: they come in no order, and sorting them takes all of them in
memory. A million rows on each side cost 0.35 s if they make 2 million pairs (sorting those: 0.43 s). If each left row
matches at most one, DuckDB's pairs are all, and take the place of their left row.

Where right rows are few and have one key, Arrow matches likewise (``exact_keys``). A program that joins 10,000 rows
with 200 took 0.36 s of CPU by DuckDB, and takes 0.25. One of 16 million rows took 4.7 s with 1,000, and takes 3.8. With
100,000 it took 7.1 s, and takes 5.9; with as many texts 6.8 and 6.6.

Memory: 170 bytes per left row while matching, DuckDB's hash table and sort included, and then 48. Measured with 4
million rows on each side, and one integer key.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import array_of, int64, one_array
from exoshuffle.operators.exact_keys import are_for_arrow, is_exact
from exoshuffle.operators.kernels import call, cast, grouped, places_of
from exoshuffle.operators.sql.groups import first_rows
from exoshuffle.operators.sql.relational import (
    by_number,
    computed,
    in_row_order,
    quoted,
    row_numbers,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: Right rows are filtered by the keys of the left side before they are grouped, if there are so many more of them.
#: 43,000 left rows and 958,000 right ones took 0.35 s of CPU, and take 0.04. With as many on both sides nothing is won.
FEW_LEFT = 4
#: If keys repeat among so many of the right rows, they are grouped.
_FEW_ROWS = 1 << 16
#: Name of the column of row numbers; keys are named otherwise.
_ROW = "row"


@dataclass(frozen=True)
class Matches:
    """The places of each left row's matches among the right rows.

    Attributes:
        starts: The index of the first match in ``right_rows``, for each left row; null if there is none.
        sizes: The number of matches; null if there is none.
        right_rows: Row numbers of the right side, equal keys side by side.
    """

    starts: pa.Array
    sizes: pa.Array
    right_rows: pa.Array


@dataclass(frozen=True)
class Pairs:
    """Some pairs of row numbers, in order.

    Attributes:
        left: Row numbers of the left side.
        right: Row numbers of the right side; null for a left row that matches nothing.
    """

    left: pa.Array
    right: pa.Array


def match(left: pa.Table, right: pa.Table) -> Matches:
    """Finds the matches of each left row; the tables have the keys, under the same names.

    Cost: grouping the right keys, looking up each row, sorting the results. That takes about 0.2 µs per row of both
    sides, and 0.1 if no left row has two matches.
    """
    if _are_for_arrow(left, right):
        return _match_by_arrow(left, right)
    keys = ", ".join(map(quoted, right.column_names))
    left, right = _numbered(left), _numbered(right)
    if right.num_rows > FEW_LEFT * left.num_rows:
        right = computed(f"SELECT r.* FROM r SEMI JOIN l USING ({keys})", r=right, l=left)  # noqa: S608  quoted names
    return _single_matches(left, right, keys) or _grouped_matches(left, right, keys)


def _single_matches(left: pa.Table, right: pa.Table, keys: str) -> Matches | None:
    """Returns the matches if each left row has at most one; None once there are more.

    The right keys need not be grouped then. A join of 2 million rows with as many took 1.0 s of CPU, and takes 0.7.
    """
    few = right.slice(0, _FEW_ROWS)
    if len(first_rows(few, [name for name in few.column_names if name != _ROW])) < few.num_rows:
        return None
    # Each left row has a line. A line more is one too many, so that hot keys are given up at once.
    found = computed(
        f"SELECT l.row, r.row AS start FROM l LEFT JOIN r USING ({keys}) LIMIT {left.num_rows + 1}",  # noqa: S608  quoted names
        l=left,
        r=right,
    )
    if found.num_rows > left.num_rows:
        return None
    rows = one_array(in_row_order(found, _ROW).column("start"))
    is_matched = call("is_valid", rows)
    starts = call("if_else", is_matched, row_numbers(len(rows)), int64(None))
    return Matches(starts, call("if_else", is_matched, int64(1), int64(None)), rows)


def _grouped_matches(left: pa.Table, right: pa.Table, keys: str) -> Matches:
    known = " AND ".join(
        f"{quoted(name)} IS NOT NULL" for name in right.column_names if name != _ROW
    )
    groups = computed(
        f"SELECT {keys}, count(*) AS size, min(row) AS row FROM r WHERE {known} GROUP BY {keys}",  # noqa: S608  quoted names
        r=right,
    )
    groups = groups.append_column("start", _exclusive_sums(groups.column("size")))
    found = computed(
        f"SELECT l.row, g.start, g.size FROM l LEFT JOIN g USING ({keys})",  # noqa: S608  quoted names
        l=left,
        g=groups,
    )
    found = in_row_order(found, _ROW)
    members = groups
    if call("max", groups.column("size")).as_py() not in (None, 1):
        members = computed(
            f"SELECT r.row, g.start FROM r JOIN g USING ({keys})",  # noqa: S608  quoted names
            r=right,
            g=groups,
        )
        members = by_number(by_number(members, _ROW), "start")
    return Matches(
        one_array(found.column("start")),
        one_array(found.column("size")),
        one_array(members.column(_ROW)),
    )


def _are_for_arrow(left: pa.Table, right: pa.Table) -> bool:
    """Whether Arrow matches rows: only the right ones become a hash table, so there may be any number of left ones."""
    return left.num_columns == 1 and is_exact(left.schema.types[0]) and are_for_arrow(right)


def _match_by_arrow(left: pa.Table, right: pa.Table) -> Matches:
    import pyarrow as pa

    (key,) = right.column_names
    known_rows = call("drop_null", _numbered(right))
    groups = grouped(known_rows, [key], [(_ROW, "count"), (_ROW, "min")])
    sizes, members = groups.column(f"{_ROW}_count"), one_array(groups.column(f"{_ROW}_min"))
    starts, known = _exclusive_sums(sizes), groups.column(key)
    if call("max", sizes).as_py() not in (None, 1):
        # Nulls come last, and are no members. The sort keeps the order of equal ones.
        of_rows = call("take", starts, places_of(right.column(key), known))
        members = call("sort_indices", of_rows).slice(0, len(of_rows) - of_rows.null_count)
    places = places_of(left.column(key), known)
    found = [one_array(call("take", column, places)) for column in (starts, sizes)]
    return Matches(found[0], found[1], cast(members, pa.int64()))


def match_all(num_left: int, num_right: int) -> Matches:
    """Matches every row of the left side with every row of the right side."""
    import pyarrow as pa

    starts = pa.repeat(int64(0), num_left)
    sizes = pa.repeat(int64(num_right), num_left)
    return Matches(starts, sizes, row_numbers(num_right))


def matched(rows: pa.Table, others: pa.Table) -> pa.Array:
    """Returns the numbers of the rows whose key occurs in ``others``, in order. Cost: as one half of ``match``."""
    return _rows_joined("SEMI", rows, others)


def unmatched(rows: pa.Table, others: pa.Table) -> pa.Array:
    """Returns the numbers of the other rows, also of those with a null in their key."""
    return _rows_joined("ANTI", rows, others)


def _rows_joined(kind: str, rows: pa.Table, others: pa.Table) -> pa.Array:
    import pyarrow as pa

    if _are_for_arrow(rows, others):
        is_there = call("is_valid", places_of(rows.column(0), others.column(0)))
        wanted = is_there if kind == "SEMI" else call("invert", is_there)
        return cast(call("indices_nonzero", wanted), pa.int64())
    keys = ", ".join(map(quoted, rows.column_names))
    sql = f"SELECT x.row FROM x {kind} JOIN y USING ({keys})"  # noqa: S608  quoted names
    found = computed(sql, x=_numbered(rows), y=others)
    return one_array(by_number(found, _ROW).column(_ROW))


def in_windows(rows: pa.Array, num_rows: int) -> Iterator[pa.Array]:
    """Yields row numbers, so many at a time."""
    return (rows.slice(first, num_rows) for first in range(0, len(rows), num_rows))


def in_batches(pairs: Pairs, num_pairs: int) -> Iterator[Pairs]:
    """Yields pairs, so many at a time."""
    for first in range(0, len(pairs.left), num_pairs):
        yield Pairs(pairs.left.slice(first, num_pairs), pairs.right.slice(first, num_pairs))


def pair_windows(matches: Matches, least: int, num_pairs: int) -> Iterator[Pairs]:
    """Yields the pairs, so many at a time.

    Args:
        matches: The matches.
        least: 1 if a left row without matches makes a pair with nothing, 0 if it makes none.
        num_pairs: The most pairs of a window.
    """
    if call("max", matches.sizes).as_py() in (None, 1):
        yield from in_batches(_single_pairs(matches, least), num_pairs)
        return
    sizes = call("max_element_wise", matches.sizes, int64(least))
    ends = call("cumulative_sum", sizes)
    # Pair p of a row is number p + shift among the right rows.
    shifts = call("subtract", matches.starts, call("subtract", ends, sizes))
    positions = memoryview(ends.buffers()[1]).cast("q")[: len(ends)] if len(ends) else []
    total = positions[-1] if len(ends) else 0
    numbers = row_numbers(min(num_pairs, total))
    for first in range(0, total, num_pairs):
        last = min(first + num_pairs, total)
        begin = bisect.bisect_right(positions, first)
        end = bisect.bisect_left(positions, last) + 1
        rows = _rows_of_pairs(ends.slice(begin, end - begin), first, last)
        shift = call("take", shifts.slice(begin, end - begin), rows)
        chosen = call("add", shift, call("add", numbers.slice(0, last - first), int64(first)))
        yield Pairs(call("add", rows, int64(begin)), call("take", matches.right_rows, chosen))


def _single_pairs(matches: Matches, least: int) -> Pairs:
    """Returns all pairs, if no left row has several matches; they need not be numbered through.

    A join of 8 million rows with 1,000 took 1.6 s of CPU, and takes 1.35.
    """
    import pyarrow as pa

    starts, rows = matches.starts, row_numbers(len(matches.starts))
    if starts.null_count and not least:
        rows = cast(call("indices_nonzero", call("is_valid", starts)), pa.int64())
        starts = call("drop_null", starts)
    return Pairs(rows, call("take", matches.right_rows, starts))


def _rows_of_pairs(ends: pa.Array, first: int, last: int) -> pa.Array:
    """Returns, for each pair from ``first`` to ``last``, which row it belongs to; the rows' pairs end at ``ends``."""
    import pyarrow as pa

    inside = cast(
        call("subtract", call("min_element_wise", ends, int64(last)), int64(first)), pa.int32()
    )
    offsets = pa.concat_arrays([array_of([0], pa.int32()), inside])
    return call("list_parent_indices", pa.ListArray.from_arrays(offsets, pa.nulls(last - first)))


def _exclusive_sums(sizes: pa.ChunkedArray) -> pa.ChunkedArray:
    return call("subtract", call("cumulative_sum", sizes), sizes)


def _numbered(keys: pa.Table) -> pa.Table:
    return keys.append_column(_ROW, row_numbers(keys.num_rows))
