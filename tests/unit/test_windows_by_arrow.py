"""Arrow finds what DuckDB finds for window functions along sorted rows, and leaves the others to it."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.over import by_arrow
from exoshuffle.operators.over.calls import WindowCall
from exoshuffle.operators.over.functions import FUNCTIONS, ROWS, WindowFunction
from exoshuffle.operators.over.sorted_rows import MOST_CODES
from exoshuffle.operators.over.windows import Windows
from exoshuffle.operators.sql.groups import Operands
from exoshuffle.operators.sql.relational import in_row_order

UP_TO_ROW = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
#: Columns with ties, nulls, both zeros, infinities, times with a zone, and text.
VALUES = {
    "id": (None, pa.int64()),
    "k": ([None, 1, 2, 3], pa.int32()),
    "s": ([None, "", "a", "b" * 20], pa.string()),
    "n": ([None, -3, 0, 5, 7], pa.int16()),
    "y": ([None, 1, 2, 2**40], pa.int64()),
    "f": ([None, 0.0, -0.0, 1.5, float("-inf"), 2.25], pa.float64()),
    "g": ([0.5, -0.0, 3.0], pa.float32()),
    "nan": ([None, float("nan"), 1.0], pa.float64()),
    "t": ([None, 0, 10**15, 10**15 + 1], pa.timestamp("us", "Europe/Berlin")),
    "d": ([None, -1, 0, 20_000], pa.date32()),
    "u": ([None, 0, 2**63 + 5, 2**64 - 1], pa.uint64()),
    "none": ([None], pa.int64()),
}
#: Functions with the columns and parameters that they are tried with.
CALLS = {
    "row_number": [()],
    "rank": [()],
    "dense_rank": [()],
    "lag": [
        ("s", "1::BIGINT"),
        ("f", "-2::BIGINT"),
        ("y", "7::BIGINT", "id"),
        ("n", f"{2**62}::BIGINT"),
    ],
    "lead": [("s", "2::BIGINT"), ("t", "0::BIGINT"), ("y", "1::BIGINT", "id")],
    "first_value": [("s",), ("f",)],
    "last_value": [("s",), ("nan",)],
    "min": [("n",), ("f",), ("g",), ("t",), ("d",), ("u",), ("none",)],
    "max": [("n",), ("f",), ("y",), ("t",), ("d",), ("u",)],
    "count": [("s",), ("none",)],
    "sum": [("n",), ("f",), ("g",), ("y",), ("none",), ("nan",)],
    "mean": [("n",), ("f",), ("nan",)],
}
ORDERS = [
    SortKey("n"),
    SortKey("f", descending=True),
    SortKey("t", nulls_first=True),
    SortKey("y", descending=True, nulls_first=True),
    SortKey("id"),
]


def drawn(num_rows: int, seed: int) -> pa.Table:
    draw = random.Random(seed)
    columns = {
        name: range(num_rows) if values is None else [draw.choice(values) for _ in range(num_rows)]
        for name, (values, _) in VALUES.items()
    }
    arrays = [pa.array(columns[name], kind) for name, (_, kind) in VALUES.items()]
    table = pa.table(arrays, names=list(VALUES))
    return pa.concat_tables([table.slice(0, num_rows // 3), table.slice(num_rows // 3)])


def made(
    function: WindowFunction, given: tuple[str, ...], order: tuple[SortKey, ...], frame: str = ""
) -> WindowCall:
    column, parameter, default = (*given, *[None] * 3)[:3]
    frame = frame if function.order == "frame" else ""
    return WindowCall("r", "r", function, column, parameter or "", default, order, frame)


def by_duckdb(table: pa.Table, keys: tuple[str, ...], call: WindowCall) -> pa.ChunkedArray:
    operands = Operands(table, keys)
    return in_row_order(operands.computed(Windows(keys, (call,)).query(operands)), "number")["r0"]


def assert_same(table: pa.Table, keys: tuple[str, ...], call: WindowCall) -> bool:
    """Compares values, and says whether Arrow found them."""
    found = by_arrow.found(table, keys, [call])
    if found is None:
        return False
    actual = call.result(table, found["r0"]).to_pylist()
    wanted = call.result(table, by_duckdb(table, keys, call)).to_pylist()
    if call.function.type in ("sum", "double"):
        assert actual == pytest.approx(wanted, nan_ok=True)
    else:
        assert list(map(repr, actual)) == list(map(repr, wanted))
    return True


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("frame", ["", UP_TO_ROW])
@pytest.mark.parametrize("keys", [(), ("k",), ("s", "k")])
def test_the_same_as_duckdb(name: str, frame: str, keys: tuple[str, ...]) -> None:
    num_by_arrow = 0
    for seed, num_rows in enumerate((1, 2, 50, 2000)):
        table = drawn(num_rows, seed)
        for given in CALLS[name]:
            call = made(FUNCTIONS[name], given, (ORDERS[seed],), frame)
            num_by_arrow += assert_same(table, keys, call)
    assert num_by_arrow or (keys and name in ("min", "max"))


@pytest.mark.parametrize("order", ORDERS)
def test_every_order(order: SortKey) -> None:
    for name in ("row_number", "rank", "lag"):
        call = made(FUNCTIONS[name], CALLS[name][0], (order,))
        assert assert_same(drawn(3000, 7), (), call)
        assert assert_same(drawn(3000, 7), ("k",), call)


def test_rows_without_an_order_are_in_theirs() -> None:
    table = drawn(100, 5)
    assert assert_same(table, (), made(FUNCTIONS["row_number"], (), ()))
    assert assert_same(table, ("k",), made(FUNCTIONS["sum"], ("n",), (), UP_TO_ROW))
    assert assert_same(table, (), made(FUNCTIONS["rank"], (), ()))
    assert assert_same(table, (), made(ROWS, (), (), UP_TO_ROW))


def test_calls_of_several_orders() -> None:
    table = drawn(200, 6)
    calls = [made(FUNCTIONS["rank"], (), (order,)) for order in ORDERS[:3]]
    found = by_arrow.found(table, ("k",), calls)
    assert found is not None
    for index, call in enumerate(calls):
        assert found[f"r{index}"].to_pylist() == by_duckdb(table, ("k",), call).to_pylist()


class TestLeftToDuckDB:
    """Arrow would find these otherwise, or not sooner."""

    def is_left(self, table: pa.Table, keys: tuple[str, ...], *calls: WindowCall) -> bool:
        return by_arrow.found(table, keys, calls) is None

    def test_values_of_floats(self) -> None:
        table = drawn(50, 1)
        assert self.is_left(table, (), made(FUNCTIONS["rank"], (), (SortKey("nan"),)))
        assert self.is_left(table, (), made(FUNCTIONS["max"], ("nan",), (SortKey("n"),)))
        assert self.is_left(table, ("k",), made(FUNCTIONS["sum"], ("f",), (SortKey("n"),)))
        assert self.is_left(table, ("f",), made(FUNCTIONS["rank"], (), (SortKey("n"),)))

    def test_sums_beyond_64_bits(self) -> None:
        table = pa.table({"id": [0, 1, 2], "v": [2**62, 2**62, -(2**62)]})
        assert self.is_left(table, (), made(FUNCTIONS["sum"], ("v",), (SortKey("id"),)))
        assert self.is_left(table, (), made(FUNCTIONS["mean"], ("v",), (SortKey("id"),)))

    def test_frames_keys_and_texts(self) -> None:
        table = drawn(50, 2)
        total = FUNCTIONS["sum"]
        other = "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
        assert self.is_left(table, (), made(total, ("n",), (SortKey("id"),), other))
        assert self.is_left(table, (), made(total, ("n",), ()))
        assert self.is_left(table, (), made(FUNCTIONS["rank"], (), (SortKey("s"),)))
        assert self.is_left(table, (), made(FUNCTIONS["rank"], (), (SortKey("n"), SortKey("id"))))
        many = pa.table({"k": range(MOST_CODES + 1)})
        assert self.is_left(many, ("k",), made(FUNCTIONS["row_number"], (), ()))
        assert self.is_left(table.slice(0, 0), (), made(FUNCTIONS["row_number"], (), ()))
