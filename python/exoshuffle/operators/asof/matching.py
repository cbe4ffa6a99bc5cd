"""Matches the rows of two sorted pieces by a merge of their keys: row numbers only.

How: right rows come before left rows of equal keys in the merge (``backward``, ``nearest``), or behind them
(``forward``). Then the candidate of a left row is the right row before it, or behind it. A candidate counts if its
``by`` columns are equal, and if it is within the tolerance.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exoshuffle.operators.join.pairs import Pairs
from exoshuffle.operators.sql.relational import row_numbers

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Matcher:
    """How rows are matched.

    Attributes:
        direction: Where the candidates of a left row are; see ``AsofOptions``.
        tolerance: How far apart the last key columns may be, in the unit of their type; None for any distance.
    """

    direction: str
    tolerance: int | float | decimal.Decimal | None = None

    def pairs(self, left: pa.Table, right: pa.Table, edge: int | None, keeps_beyond: bool) -> Pairs:
        """The right row of each left row that is matched here; null where none counts.

        Args:
            left: Keys of the left piece, in order.
            right: Keys of the right piece, in order, with the edge at the end that it belongs to.
            edge: Number of the right row that is the edge: left rows beyond it are matched elsewhere.
            keeps_beyond: Whether left rows beyond the other end are matched here.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        rows, before, behind = _merged(left, right, rights_first=self.direction != "forward")
        nearest = behind if self.direction == "forward" else before
        is_here = pc.is_valid(nearest) if not keeps_beyond else pa.repeat(True, len(rows))
        if edge is not None:
            is_here = pc.and_(is_here, pc.fill_null(pc.not_equal(nearest, edge), True))
        rows, before, behind = (array.filter(is_here) for array in (rows, before, behind))
        left = left.take(rows)
        if self.direction == "backward":
            return Pairs(rows, self._counted(left, right, before)[0])
        if self.direction == "forward":
            return Pairs(rows, self._counted(left, right, behind)[0])
        before, distance = self._counted(left, right, before)
        # Of rows that are equally near the last one counts.
        behind, other = self._counted(left, right, _run_ends(right).take(behind))
        is_nearer = pc.fill_null(pc.less_equal(other, distance), False)
        takes_behind = pc.and_(pc.is_valid(behind), pc.or_(pc.is_null(before), is_nearer))
        return Pairs(rows, pc.if_else(takes_behind, behind, before))

    def _counted(
        self, left: pa.Table, right: pa.Table, candidates: pa.Array
    ) -> tuple[pa.Array, pa.Array | None]:
        """The candidates that count, null for others; and how far they are, where somebody asks for that."""
        import pyarrow.compute as pc

        found = right.take(candidates)
        *by, on = right.column_names
        counts = pc.and_(pc.is_valid(left[on]), pc.is_valid(found[on]))
        for name in by:
            counts = pc.and_(counts, pc.fill_null(_equal(left[name], found[name]), False))
        distance = None
        if self.tolerance is not None or self.direction == "nearest":
            distance = _distance(left[on], found[on])
        if self.tolerance is not None and distance is not None:
            limit = _scalar(self.tolerance, distance.type)
            counts = pc.and_(counts, pc.fill_null(pc.less_equal(distance, limit), False))
        return pc.if_else(_whole(counts), candidates, None), distance


def adjacent(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Each value but the last one, and the one behind it."""
    length = max(0, len(column) - 1)
    return column.slice(0, length), column.slice(1, length)


def same_as_next(keys: pa.Table) -> pa.Array:
    """For each row but the last one whether the next one has the same keys; nulls are the same."""
    import pyarrow as pa
    import pyarrow.compute as pc

    same = pa.repeat(True, max(0, keys.num_rows - 1))
    for column in keys.columns:
        before, after = adjacent(column)
        are_null = pc.and_(pc.is_null(before), pc.is_null(after))
        same = pc.and_(same, pc.or_(pc.fill_null(_equal(before, after), False), are_null))
    return _whole(same)


def _merged(
    left: pa.Table, right: pa.Table, *, rights_first: bool
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The left rows in order, and for each the right rows before and behind it in the merge."""
    import pyarrow as pa
    import pyarrow.compute as pc

    num_left, num_right = left.num_rows, right.num_rows
    lefts, rights = row_numbers(num_left), row_numbers(num_right)
    sides = [(pa.nulls(num_right, pa.int64()), rights), (lefts, pa.nulls(num_left, pa.int64()))]
    tables = [right, left]
    if not rights_first:
        sides, tables = sides[::-1], tables[::-1]
    keys = pa.concat_tables(tables).combine_chunks()
    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    lefts, rights = (pa.concat_arrays([side[i] for side in sides]).take(order) for i in range(2))
    is_left = pc.is_valid(lefts)
    before, behind = pc.fill_null_forward(rights), pc.fill_null_backward(rights)
    return lefts.filter(is_left), before.filter(is_left), behind.filter(is_left)


def _run_ends(keys: pa.Table) -> pa.Array:
    """For each row the number of the last one of the rows with the same keys, which lie side by side."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not keys.num_rows:
        return row_numbers(0)
    is_end = pa.concat_arrays([pc.invert(same_as_next(keys)), pa.array([True])])
    return pc.fill_null_backward(pc.if_else(is_end, row_numbers(keys.num_rows), None))


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether values are equal; NaN is one value, and null where one of them is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    equal = pc.equal(left, right)
    if not pa.types.is_floating(left.type):
        return equal
    return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _distance(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """How far apart numbers or times are; exact, and without overflow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = left.type
    if pa.types.is_decimal(kind):
        wide = pa.decimal256(kind.precision, kind.scale)
        return pc.abs(pc.subtract(left.cast(wide), right.cast(wide)))
    if pa.types.is_floating(kind):
        return pc.abs(pc.subtract(left, right))
    if kind == pa.uint64():
        return pc.subtract(pc.max_element_wise(left, right), pc.min_element_wise(left, right))
    left, right = _integers(left), _integers(right)
    most, least = (
        pc.max_element_wise(left, right, skip_nulls=False),
        pc.min_element_wise(left, right, skip_nulls=False),
    )
    # Wraps around to the right number of 64 bits without sign.
    return pa.chunked_array([_whole(pc.subtract(most, least)).view(pa.uint64())])


def _integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    if pa.types.is_temporal(column.type) and column.type.bit_width == 32:
        column = column.cast(pa.int32())
    return column.cast(pa.int64())


def _scalar(tolerance: float | decimal.Decimal, kind: pa.DataType) -> pa.Scalar:
    import pyarrow as pa

    if kind == pa.uint64():
        return pa.scalar(min(int(tolerance), 2**64 - 1), kind)
    if pa.types.is_decimal(kind):
        return pa.scalar(decimal.Decimal(tolerance))
    return pa.scalar(float(tolerance), pa.float64())


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    import pyarrow as pa

    if isinstance(column, pa.Array):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
