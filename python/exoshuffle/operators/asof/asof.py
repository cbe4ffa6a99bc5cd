"""As-of joins: each left row meets the nearest right row, by time or any other column that has an order.

Guarantee: every left row comes once, in the order of ``by`` and then ``on``; rows with equal keys keep their input
order. Null meets nothing, and NaN is greater than all numbers. If right rows are equally near, the last one in this
order counts (``backward``, ``nearest``), or the first one (``forward``), as in Polars.

How: both sides are sorted by the same columns. So the matches of a left piece lie in the right pieces that its keys
reach over. Each left row needs one of these (``pieces``). Within two pieces, a merge matches the rows (``matching``).
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import array_of, no_rows
from exoshuffle.operators.asof.matching import Matcher, adjacent
from exoshuffle.operators.asof.pieces import meetings, run_end
from exoshuffle.operators.asof.tolerance import parse_tolerance
from exoshuffle.operators.batches import movable_type
from exoshuffle.operators.core.merge_join import Meeting, Piece
from exoshuffle.operators.join.keys import JoinKey, cast_key, parse_key
from exoshuffle.operators.join.outputs import (
    Output,
    batches_of_pairs,
    columns_of,
    refuse_duplicates,
)
from exoshuffle.operators.join.pairs import in_batches
from exoshuffle.operators.join.payload import batch_rows, make_payload

if TYPE_CHECKING:
    import pyarrow as pa

DIRECTIONS = ("backward", "forward", "nearest")
#: Memory for matching a row, beside the pieces: a million rows of each side took 25 to 82 MB.
ROW_BYTES = 50

Tolerance = int | float | str | decimal.Decimal | dt.timedelta


@dataclass(frozen=True)
class AsofOptions:
    """The options of a join by nearness.

    Attributes:
        on: The column of both sides that has to be near; it appears once in the result, as on the left side.
        left_on: Instead of ``on``: the column of the left side; it appears in the result.
        right_on: Likewise for the right side.
        by: Columns of both sides that have to be equal.
        direction: ``backward``: the last right row that is not greater. ``forward``: the first that is not smaller.
            ``nearest``: whichever of both is nearer.
        tolerance: The largest distance at which rows match.
        suffix: Added to columns of the right side whose names the left side has too.
    """

    on: str | None = None
    left_on: str | None = None
    right_on: str | None = None
    by: Sequence[str] = ()
    direction: str = "backward"
    tolerance: Tolerance | None = None
    suffix: str = "_right"


@dataclass(frozen=True)
class AsofJoin:
    """An as-of join of two schemas, a ``MergeJoin``; made by ``parse_asof``.

    Attributes:
        right: Schema of the right side.
        by: The columns that must be equal.
        on: The columns that must be near.
        matcher: How rows are matched.
        outputs: The columns of the result.
    """

    right: pa.Schema
    by: tuple[JoinKey, ...]
    on: JoinKey
    matcher: Matcher
    outputs: tuple[Output, ...]

    name = "join_asof"
    row_bytes = ROW_BYTES

    @property
    def keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """See ``MergeJoin``."""
        keys = (*self.by, self.on)
        return tuple(key.left for key in keys), tuple(key.right for key in keys)

    @property
    def output_schema(self) -> pa.Schema:
        """See ``MergeJoin``."""
        import pyarrow as pa

        return pa.schema([output.field for output in self.outputs])

    @property
    def left_columns(self) -> dict[str, str]:
        """See ``MergeJoin``."""
        return {
            output.field.name: output.left for output in self.outputs if output.left is not None
        }

    def look(self, side: int, table: pa.Table) -> Piece:
        """See ``MergeJoin``. Cost: two comparisons per row and key."""
        import pyarrow as pa

        keys = self._keys(side, table)
        ends = keys.take(array_of([0, keys.num_rows - 1], pa.int64()))
        return Piece(ends, _is_sorted(keys))

    def follow(self, pieces: Sequence[Piece]) -> bool:
        """See ``MergeJoin``."""
        import pyarrow as pa

        return _is_sorted(pa.concat_tables([piece.ends for piece in pieces]))

    def edge_of(self, table: pa.Table) -> pa.Table:
        """See ``MergeJoin``."""
        if self.matcher.direction == "nearest":
            return table.slice(run_end(self._keys(1, table)), 1)
        return table.slice(table.num_rows - 1 if self.matcher.direction == "forward" else 0, 1)

    def meetings(self, lefts: Sequence[Piece], rights: Sequence[Piece]) -> list[Meeting]:
        """See ``MergeJoin``."""
        return meetings(
            [piece.ends for piece in lefts],
            [piece.ends for piece in rights],
            self.matcher.direction,
        )

    def run(
        self, left: pa.Table, right: pa.Table | None, edge: pa.Table | None, *, keeps_beyond: bool
    ) -> Iterator[pa.RecordBatch]:
        """See ``MergeJoin``. Cost: a merge of the keys of both pieces, and a copy of the right rows of the result."""
        import pyarrow as pa

        if right is None:
            right = no_rows(self.right)
        parts = [right] if edge is None else [right, edge]
        rows = pa.concat_tables(parts[::-1] if self.matcher.direction == "forward" else parts)
        pairs = self.matcher.pairs(
            self._keys(0, left),
            self._keys(1, rows),
            has_edge=edge is not None,
            keeps_beyond=keeps_beyond,
        )
        sides = (
            make_payload(left, columns_of("left", self.outputs)),
            make_payload(rows, columns_of("right", self.outputs)),
        )
        for some in in_batches(pairs, batch_rows(sides)):
            yield from batches_of_pairs(self.outputs, sides, some)

    def _keys(self, side: int, table: pa.Table) -> pa.Table:
        """Returns the key columns of one side in their common types."""
        import pyarrow as pa

        keys = (*self.by, self.on)
        names = [key.right if side else key.left for key in keys]
        # Rows of views cannot be picked or sorted.
        columns = [
            cast_key(table.column(name), key.type).cast(movable_type(key.type))
            for name, key in zip(names, keys, strict=True)
        ]
        return pa.table(columns, names=[f"key_{number}" for number in range(len(keys))])


def parse_asof(left: pa.Schema, right: pa.Schema, options: AsofOptions) -> AsofJoin:
    """Returns the as-of join of two schemas.

    Raises:
        OptionsError: An unknown direction, keys that are missing or contradict each other, or two columns of one name.
            Or a tolerance that does not fit the type of ``on``.
        SchemaError: An unknown column, or key columns whose types cannot be compared.
    """
    if options.direction not in DIRECTIONS:
        raise OptionsError(
            f"direction is {options.direction!r}; it must be one of {', '.join(DIRECTIONS)}"
        )
    if not isinstance(options.suffix, str):
        raise OptionsError(f"suffix is {options.suffix!r}; it must be text, such as '_right'")
    left_on, right_on = _on(options)
    on = parse_key(left_on, right_on, left, right)
    by = tuple(parse_key(name, name, left, right) for name in options.by)
    if on.left in options.by or on.right in options.by:
        raise OptionsError(f"join_asof has {on.left!r} in by= and in on=; name it in one of them")
    tolerance = parse_tolerance(options.tolerance, on, options.direction)
    shared = {key.right for key in by} | ({on.right} if options.on is not None else set())
    outputs = [Output(field, field.name) for field in left]
    lefts = frozenset(left.names)
    outputs += [
        _right_output(field, lefts, options.suffix) for field in right if field.name not in shared
    ]
    refuse_duplicates("join_asof", [output.field.name for output in outputs], options.suffix)
    return AsofJoin(right, by, on, Matcher(options.direction, tolerance), tuple(outputs))


def _on(options: AsofOptions) -> tuple[str, str]:
    if options.on is not None and (options.left_on is not None or options.right_on is not None):
        raise OptionsError("join_asof has on= and left_on= or right_on=; give one or the other")
    left_on = options.left_on if options.on is None else options.on
    right_on = options.right_on if options.on is None else options.on
    if left_on is None or right_on is None:
        raise OptionsError(
            "join_asof needs the column that has to be near: on=, or both left_on= and right_on="
        )
    for name in (left_on, right_on):
        if not isinstance(name, str):
            raise OptionsError(f"join_asof is on one column, and got {name!r}; more go into by=")
    return left_on, right_on


def _right_output(field: pa.Field, left: frozenset[str], suffix: str) -> Output:
    name = field.name + suffix if field.name in left else field.name
    return Output(field.with_name(name).with_nullable(True), right=field.name)


def _is_sorted(keys: pa.Table) -> bool:
    """Returns whether rows are in order; False if nulls or NaN are among their keys."""
    import pyarrow.compute as pc

    if any(column.null_count for column in keys.columns):
        return False
    *firsts, last = [adjacent(column) for column in keys.columns]
    follows = pc.less_equal(*last)
    for before, after in reversed(firsts):
        follows = pc.or_(pc.less(before, after), pc.and_(pc.equal(before, after), follows))
    return pc.all(follows).as_py() is not False
