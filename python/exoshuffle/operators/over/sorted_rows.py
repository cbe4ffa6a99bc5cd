"""Rows in the order of a window by Arrow: which row is where, where its key begins, and which rows are its peers.

Why not DuckDB's sort: it moves rows, and Arrow sorts numbers of rows by one column at a time. For 4 million random
integers that took 0.7 s of CPU, and DuckDB 0.75; numbers of a small range are counted, which took 0.05.

Guarantee: the order is DuckDB's, and rows of equal order values come in input order. None is made where orders could
differ, or where Arrow would sort twice: two wide columns took 1.4 s, and DuckDB 1.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, cast

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators import kernels
from exoshuffle.operators.arrow_values import array_of, int64, one_array, truth
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.exact_keys import is_exact, is_ordered
from exoshuffle.operators.kernels import call
from exoshuffle.operators.sql.relational import row_numbers

if TYPE_CHECKING:
    import pyarrow as pa

#: Keys get numbers of so many values at most, because Arrow counts these instead of comparing them.
MOST_CODES = 1 << 16
#: Keys of so many rows are numbered first: if these are many, the others are left alone.
_FEW_ROWS = 1 << 17


@dataclass(frozen=True)
class SortedRows:
    """Rows in an order; a place is a number in that order.

    Attributes:
        rows: The number of the row at each place, as int64.
        begins: Whether a key begins at a place; None if all rows have one key.
        differs: Whether key or order value are others than at the place before.
    """

    rows: pa.Array
    begins: pa.Array | None
    differs: pa.Array

    @cached_property
    def places(self) -> pa.Array:
        """All places."""
        return row_numbers(len(self.rows))

    @cached_property
    def starts(self) -> pa.Array | pa.Scalar:
        """For each place, where its key begins; one number if all rows have one key."""
        return int64(0) if self.begins is None else self.since_start(self.places)

    @cached_property
    def ends(self) -> pa.Array | pa.Scalar:
        """For each place, where its key ends; one number if all rows have one key."""
        if self.begins is None:
            return int64(len(self.rows) - 1)
        return self._until(self.begins)

    @cached_property
    def first_peers(self) -> pa.Array:
        """For each place, the first one of the same key and order value."""
        return _since(self.differs, self.places)

    @cached_property
    def last_peers(self) -> pa.Array | None:
        """For each place, the last one of the same key and order value; None if no two have the same."""
        return None if call("all", self.differs).as_py() else self._until(self.differs)

    def since_start(self, values: pa.Array) -> pa.Array:
        """Returns for each place the number that stands where its key begins."""
        import pyarrow as pa

        if self.begins is None:
            return pa.repeat(values[0], len(values))
        return _since(self.begins, values)

    def _until(self, begins: pa.Array) -> pa.Array:
        import pyarrow as pa

        is_last = pa.concat_arrays([begins.slice(1), array_of([True], pa.bool_())])
        return call("fill_null_backward", call("if_else", is_last, self.places, int64(None)))


def sorted_rows(
    table: pa.Table, keys: Sequence[str], order: Sequence[SortKey]
) -> SortedRows | None:
    """Returns the rows by keys and order; None if DuckDB has to sort them, or does so sooner.

    Cost: 40 bytes per row, and 30 more for a key.
    """
    if len(order) > 1 or not table.num_rows:
        return None
    values = [one_array(table[key.column]) for key in order]
    codes = _codes(table, keys) if keys else None
    if (keys and codes is None) or not all(map(_is_alike, values)):
        return None
    rows = row_numbers(table.num_rows)
    for array, key in zip(values, order, strict=True):
        rows = kernels.places_in_order(array, key.descending, key.nulls_first)
    begins = None
    if codes is not None:
        rows = call("take", rows, kernels.places_in_order(call("take", codes, rows)))
        begins = differs(call("take", codes, rows))
    others = [differs(call("take", array, rows)) for array in values]
    return SortedRows(rows, begins, _any([*others, begins], table.num_rows))


def _is_alike(values: pa.Array) -> bool:
    """Whether Arrow orders these values as DuckDB does."""
    import pyarrow as pa

    if is_ordered(values.type):
        return True
    is_float = pa.types.is_float32(values.type) or pa.types.is_float64(values.type)
    return is_float and call("any", call("is_nan", values)).as_py() is not True


def _codes(table: pa.Table, keys: Sequence[str]) -> pa.Array | None:
    """Returns a number for each row, which is equal for equal keys; None if keys are many, or of another type."""
    if not all(is_exact(table.schema.field(key).type) for key in keys):
        return None
    codes, count = None, 1
    for key in keys:
        column = table[key]
        few = kernels.encoded(one_array(column.slice(0, _FEW_ROWS)))
        if len(few.dictionary) * count > MOST_CODES // 2:
            return None
        made = kernels.encoded(one_array(column))
        num_values = len(made.dictionary)
        count *= num_values
        if count > MOST_CODES:
            return None
        own = call("add", made.indices, int64(0))
        codes = (
            own if codes is None else call("add", call("multiply", codes, int64(num_values)), own)
        )
    return codes


def _since(begins: pa.Array, values: pa.Array) -> pa.Array:
    return call("fill_null_forward", call("if_else", begins, values, int64(None)))


def differs(values: pa.Array) -> pa.Array:
    """Returns whether each value is another than the one before; null equals null, and the first is another."""
    import pyarrow as pa

    now, before = values.slice(1), values.slice(0, len(values) - 1)
    differs = call("not_equal", now, before)
    if values.null_count:
        unlike = call("xor", call("is_null", now), call("is_null", before))
        differs = call("or_kleene", unlike, call("coalesce", differs, truth(False)))
    return pa.concat_arrays([array_of([True], pa.bool_()), differs])


def _any(parts: Sequence[pa.Array | None], num_rows: int) -> pa.Array:

    known = [part for part in parts if part is not None]
    if not known:  # no key and no order: all rows are peers
        return call("equal", row_numbers(num_rows), int64(0))
    return cast("pa.Array", known[0] if len(known) == 1 else call("or", *known))
