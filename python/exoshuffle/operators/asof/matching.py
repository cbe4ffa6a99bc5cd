"""Matches the rows of two sorted pieces by a merge of their keys: row numbers only.

How: right rows come before left rows of equal keys in the merge (``backward``, ``nearest``), or behind them
(``forward``). The rank of a left row is the number of right rows before it. So the candidates of a left row are the
right rows on both sides of its rank. A candidate counts if its ``by`` columns are equal, and if it is near enough.
"""

from __future__ import annotations

import bisect
import decimal
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import array_of, int64, scalar_of, truth
from exoshuffle.operators.join.pairs import Pairs
from exoshuffle.operators.sql.relational import row_numbers

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Matcher:
    """The rule by which rows are matched.

    Attributes:
        direction: Where the candidates of a left row are; see ``AsofOptions``.
        tolerance: How far apart the last key columns may be, in the unit of their type; None for any distance.
    """

    direction: str
    tolerance: int | float | decimal.Decimal | None = None

    def pairs(
        self, left: pa.Table, right: pa.Table, *, has_edge: bool, keeps_beyond: bool
    ) -> Pairs:
        """Returns the right row of each left row that is matched here; null where none counts.

        Args:
            left: Keys of the left piece, in order.
            right: Keys of the right piece, in order, with the edge, if any, at the end that it belongs to.
            has_edge: Whether there is an edge; if so, left rows beyond it are matched elsewhere.
            keeps_beyond: Whether left rows beyond the other end are matched here.
        """
        import pyarrow.compute as pc

        places = ranks(left, right, counts_ties=self.direction != "forward")
        ends = (has_edge, not keeps_beyond)
        is_cut_below, is_cut_above = ends if self.direction == "forward" else ends[::-1]
        begin = _first_from(places, 1) if is_cut_below else 0
        end = _first_from(places, right.num_rows) if is_cut_above else left.num_rows
        length = max(0, end - begin)
        rows, places = row_numbers(left.num_rows).slice(begin, length), places.slice(begin, length)
        left = left.slice(begin, length)
        if self.direction == "forward":
            return Pairs(rows, self._counted(left, right, _below(places, right.num_rows))[0])
        before = pc.subtract(_from(places, 1), int64(1))
        before, distance = self._counted(left, right, before)
        if self.direction == "backward":
            return Pairs(rows, before)
        # If rows are equally near, the last one counts.
        behind = _run_ends(right).take(_below(places, right.num_rows))
        behind, other = self._counted(left, right, behind)
        is_nearer = pc.fill_null(pc.less_equal(other, distance), truth(False))
        takes_behind = pc.and_(pc.is_valid(behind), pc.or_(pc.is_null(before), is_nearer))
        return Pairs(rows, pc.if_else(_whole(takes_behind), behind, before))

    def _counted(
        self, left: pa.Table, right: pa.Table, candidates: pa.Array
    ) -> tuple[pa.Array, pa.Array | None]:
        """Returns the candidates that count, null for others; and their distances, if they are needed."""
        import pyarrow.compute as pc

        *by, on = right.column_names
        needs_distance = self.tolerance is not None or self.direction == "nearest"
        conditions = [
            pc.fill_null(_equal(left[name], right[name].take(candidates)), truth(False))
            for name in by
        ]
        distance = None
        if needs_distance or left[on].null_count or right[on].null_count:
            found = right[on].take(candidates)
            conditions.append(pc.and_(pc.is_valid(left[on]), pc.is_valid(found)))
            distance = _distance(left[on], found) if needs_distance else None
        if self.tolerance is not None and distance is not None:
            near = pc.less_equal(distance, _scalar(self.tolerance, distance.type))
            conditions.append(pc.fill_null(near, truth(False)))
        for condition in conditions:
            candidates = pc.if_else(_whole(condition), candidates, int64(None))
        return candidates, distance


def adjacent(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Returns the values but the last one, and the values but the first one."""
    length = max(0, len(column) - 1)
    return column.slice(0, length), column.slice(1, length)


def same_as_next(keys: pa.Table) -> pa.Array:
    """Returns for each row but the last one whether the next one has the same keys; nulls are the same."""
    import pyarrow as pa
    import pyarrow.compute as pc

    same = pa.repeat(truth(True), max(0, keys.num_rows - 1))
    for column in keys.columns:
        before, after = adjacent(column)
        are_null = pc.and_(pc.is_null(before), pc.is_null(after))
        same = pc.and_(same, pc.or_(pc.fill_null(_equal(before, after), truth(False)), are_null))
    return _whole(same)


def ranks(left: pa.Table, right: pa.Table, *, counts_ties: bool) -> pa.Array:
    """Returns for each left row how many right rows come before it; of equal keys all, or none. Both are in order.

    Cost: a merge.
    """
    import pyarrow as pa

    buffer = pa.allocate_buffer(8 * left.num_rows)
    _native.merge_ranks(left, right, counts_ties, memoryview(buffer).cast("B"))
    return pa.Array.from_buffers(pa.int64(), left.num_rows, [None, buffer])


def _first_from(ranks: pa.Array, least: int) -> int:
    """Returns the index of the first rank that is at least ``least``; ranks ascend."""
    words = memoryview(ranks.buffers()[1]).cast("q")[ranks.offset : ranks.offset + len(ranks)]
    return bisect.bisect_left(words, least)


def _from(ranks: pa.Array, least: int) -> pa.Array:
    """Returns the ranks with null for those smaller than ``least``, which come first."""
    import pyarrow as pa

    few = _first_from(ranks, least)
    return pa.concat_arrays([pa.nulls(few, pa.int64()), ranks.slice(few)]) if few else ranks


def _below(ranks: pa.Array, bound: int) -> pa.Array:
    """Returns the ranks with null for those from ``bound`` on, which come last."""
    import pyarrow as pa

    many = _first_from(ranks, bound)
    rest = len(ranks) - many
    return pa.concat_arrays([ranks.slice(0, many), pa.nulls(rest, pa.int64())]) if rest else ranks


def _run_ends(keys: pa.Table) -> pa.Array:
    """Returns for each row the number of the last one with the same keys; these rows lie side by side."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not keys.num_rows:
        return row_numbers(0)
    is_end = pa.concat_arrays([pc.invert(same_as_next(keys)), array_of([True], pa.bool_())])
    return pc.fill_null_backward(pc.if_else(is_end, row_numbers(keys.num_rows), int64(None)))


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns whether values are equal, null if one of them is null; NaN equals NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    equal = pc.equal(left, right)
    if not pa.types.is_floating(left.type):
        return equal
    return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _distance(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns how far apart numbers or times are, exactly and without overflow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = left.type
    if pa.types.is_decimal(kind):
        wide = pa.decimal256(kind.precision, kind.scale)
        return pc.abs(pc.subtract(left.cast(wide), right.cast(wide)))
    if pa.types.is_floating(kind):
        return pc.abs(pc.subtract(left, right))
    if kind != pa.uint64():
        left, right = _integers(left), _integers(right)
    most = pc.max_element_wise(left, right, skip_nulls=False)
    least = pc.min_element_wise(left, right, skip_nulls=False)
    # This wraps around to the right unsigned number of 64 bits.
    return pa.chunked_array([_whole(pc.subtract(most, least)).view(pa.uint64())])


def _integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    if pa.types.is_temporal(column.type) and column.type.bit_width == 32:
        column = column.cast(pa.int32())
    return column.cast(pa.int64())


def _scalar(tolerance: float | decimal.Decimal, kind: pa.DataType) -> pa.Scalar:
    import pyarrow as pa

    if kind == pa.uint64():
        return scalar_of(min(int(tolerance), 2**64 - 1), kind)
    if pa.types.is_decimal(kind):
        exact = decimal.Decimal(tolerance)
        _, digits, exponent = exact.as_tuple()
        assert isinstance(exponent, int)  # finite
        scale = max(0, -exponent)
        precision = max(len(digits) + max(0, exponent), scale)
        return scalar_of(f"{exact:f}", pa.string()).cast(pa.decimal256(precision, scale))
    return scalar_of(float(tolerance), pa.float64())


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    import pyarrow as pa

    if isinstance(column, pa.Array):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
