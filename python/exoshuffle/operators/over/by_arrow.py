"""Window functions by Arrow, along sorted rows: places, neighbours, and what has come together up to a row.

Why a second way: DuckDB looks at a frame for each row. A running sum of 4 million rows by a random order took it 1.6 s
of CPU. It takes 0.9 so, most of it for the sort.

Guarantee: results are DuckDB's, but for the last digits of sums of floats: these are added in the order of the rows.
Nothing is computed where results could differ. Other frames, values with NaN that are compared, sums that could leave
64 bits, and float sums of several keys are left to DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from exoshuffle.operators import kernels
from exoshuffle.operators.arrow_values import int64, one_array
from exoshuffle.operators.exact_keys import is_ordered
from exoshuffle.operators.kernels import call
from exoshuffle.operators.over.functions import FUNCTIONS, ROWS
from exoshuffle.operators.over.sorted_rows import SortedRows, differs, sorted_rows
from exoshuffle.operators.sql.groups import sums_fit
from exoshuffle.operators.sql.relational import in_row_order

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.operators.over.calls import WindowCall

#: Integers beyond this are not exact in a double.
_EXACT = 2**53
#: The frame of all rows up to this one.
_UP_TO_ROW = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def found(
    table: pa.Table, keys: Sequence[str], calls: Sequence[WindowCall]
) -> dict[str, pa.ChunkedArray] | None:
    """Returns what the SQL of calls finds, as ``r0``, ``r1`` … in the order of the rows; None if DuckDB has to.

    Cost: 70 bytes per row, and 40 for each call, one of which is its result.
    """
    import pyarrow as pa

    if not all(_is_along_rows(one, table, bool(keys)) for one in calls):
        return None
    made: dict[str, pa.ChunkedArray] = {}
    for order in dict.fromkeys(one.order for one in calls):
        line = sorted_rows(table, keys, order)
        if line is None:
            return None
        own = {f"r{index}": one for index, one in enumerate(calls) if one.order == order}
        columns = {name: _KERNELS[one.function.sql](one, table, line) for name, one in own.items()}
        results = in_row_order(pa.table({"number": line.rows, **columns}), "number")
        made |= {name: results[name] for name in own}
    return made


def _is_along_rows(one: WindowCall, table: pa.Table, has_keys: bool) -> bool:
    """Whether a kernel gives DuckDB's result for this call and these values."""
    function = one.function
    if function.sql not in _KERNELS or one.ignores_nulls:
        return False
    if function.order == "frame" and one.frame != _UP_TO_ROW and (one.frame or not one.order):
        return False
    if function == FUNCTIONS["sum"]:
        return _adds_up(table[one.column], has_keys, 2**63)
    if function == FUNCTIONS["mean"]:
        return _adds_up(table[one.column], has_keys, _EXACT)
    return not function.compares or (not has_keys and _compares_alike(table[one.column]))


def _adds_up(values: pa.ChunkedArray, has_keys: bool, limit: int) -> bool:
    return sums_fit(values, limit) or (_is_float(values.type) and not has_keys)


def _compares_alike(values: pa.ChunkedArray) -> bool:
    """Whether Arrow finds the greatest of these values where DuckDB does."""
    if _is_float(values.type):
        return call("any", call("is_nan", values)).as_py() is not True
    return is_ordered(values.type)


def _is_float(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _row_number(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    del one, table
    return _distance(line.places, line)


def _rank(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    del one, table
    return _distance(line.first_peers, line)


def _distance(places: pa.Array, line: SortedRows) -> pa.Array:
    return call("add", call("subtract", places, line.starts), int64(1))


def _dense_rank(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    del one, table
    return _added(kernels.cast(line.differs, line.rows.type), line)


def _lag(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    return _beside(one, table, line, -1)


def _lead(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    return _beside(one, table, line, 1)


def _beside(one: WindowCall, table: pa.Table, line: SortedRows, direction: int) -> pa.Array:
    num_rows = table.num_rows
    distance = int(one.parameter.partition("::")[0]) * direction
    distance = max(-num_rows, min(distance, num_rows))  # further is outside, too
    places = call("add", line.places, int64(distance))
    is_inside = call(
        "and",
        call("greater_equal", places, line.starts),
        call("less_equal", places, line.ends),
    )
    beside = call("take", line.rows, call("if_else", is_inside, places, int64(None)))
    if one.default is None:
        return beside
    return call("if_else", is_inside, beside, call("add", line.rows, int64(num_rows)))


def _first(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    del one, table
    return line.since_start(line.rows)


def _last(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    del table
    return _at_end(one, line, line.rows)


def _least(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    return _extreme("min", one, table, line)


def _greatest(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    return _extreme("max", one, table, line)


def _extreme(
    name: Literal["min", "max"], one: WindowCall, table: pa.Table, line: SortedRows
) -> pa.Array:
    import pyarrow as pa

    values = _values(one, table, line)
    if pa.types.is_date32(values.type):
        values = kernels.cast(values, pa.int32())  # Arrow makes no wider number of a day
    # Days and moments are compared as numbers. No signed number holds all of uint64.
    if not _is_float(values.type) and not pa.types.is_uint64(values.type):
        values = kernels.cast(values, line.rows.type)
    so_far = call("fill_null_forward", kernels.running(name, values))
    is_new = differs(so_far)
    rows = call("fill_null_forward", call("if_else", is_new, line.rows, int64(None)))
    return _at_end(one, line, rows)


def _count_rows(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    return _at_end(one, line, _row_number(one, table, line))


def _count(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    # Texts and lists are not moved: only their nulls count.
    valid = call("take", call("is_valid", one_array(table[one.column])), line.rows)
    return _at_end(one, line, _added(kernels.cast(valid, line.rows.type), line))


def _sum(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    return _at_end(one, line, _sum_at_rows(_values(one, table, line), line))


def _mean(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    import pyarrow as pa

    values = _values(one, table, line)
    sums = kernels.cast(_sum_at_rows(values, line), pa.float64())
    counts = kernels.cast(_num_values(values, line), pa.float64())
    return _at_end(one, line, call("divide", sums, counts))


def _sum_at_rows(values: pa.Array, line: SortedRows) -> pa.Array:
    """Returns the sum of a key up to each place; null where no value has come yet."""
    import pyarrow as pa

    wide = kernels.cast(values, pa.float64() if _is_float(values.type) else pa.int64())
    if not values.null_count:
        return _added(wide, line)
    sums = _added(call("coalesce", wide, kernels.cast(int64(0), wide.type)), line)
    has_value = call("greater", _num_values(values, line), int64(0))
    return call("if_else", has_value, sums, kernels.cast(int64(None), wide.type))


def _num_values(values: pa.Array, line: SortedRows) -> pa.Array:
    """Returns how many values, nulls apart, a key has up to each place."""
    if not values.null_count:
        return _distance(line.places, line)
    return _added(kernels.cast(call("is_valid", values), line.rows.type), line)


def _added(values: pa.Array, line: SortedRows) -> pa.Array:
    """Returns the sum of a key up to each place, of values of which none is null."""
    sums = kernels.running("sum", values)
    if line.begins is None:
        return sums
    return call("subtract", sums, line.since_start(call("subtract", sums, values)))


def _values(one: WindowCall, table: pa.Table, line: SortedRows) -> pa.Array:
    return call("take", one_array(table[one.column]), line.rows)


def _at_end(one: WindowCall, line: SortedRows, values: pa.Array) -> pa.Array:
    """Returns what a frame ends with, for each place: the value there, or that of its last peer."""
    if one.frame or line.last_peers is None:
        return values
    return call("take", values, line.last_peers)


_Kernel: TypeAlias = Callable[["WindowCall", "pa.Table", SortedRows], "pa.Array"]

#: The kernels, by the SQL of functions.
_KERNELS: dict[str, _Kernel] = {ROWS.sql: _count_rows} | {
    FUNCTIONS[name].sql: kernel
    for name, kernel in (
        ("row_number", _row_number),
        ("rank", _rank),
        ("dense_rank", _dense_rank),
        ("lag", _lag),
        ("lead", _lead),
        ("first_value", _first),
        ("last_value", _last),
        ("min", _least),
        ("max", _greatest),
        ("count", _count),
        ("sum", _sum),
        ("mean", _mean),
    )
}
