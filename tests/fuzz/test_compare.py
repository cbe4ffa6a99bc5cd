"""The comparison of the fuzz program finds what differs, also where most columns are equal."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.fuzz.compare import difference
from tests.fuzz.operations import Operation, same

NAN = float("nan")
WANTED = pa.table({"id": [1, 2, 3], "x": [0.0, NAN, None]})
ORDERED = Operation("scan", lambda rows, _: rows, same, is_ordered=True)
UNORDERED = Operation("moved", lambda rows, _: rows, same)
EQUAL = {
    "the same": WANTED,
    "other zeros": WANTED.set_column(1, "x", [[-0.0, NAN, None]]),
    "other types": pa.table({"id": pa.array([1, 2, 3], pa.int32()), "x": [0.0, NAN, None]}),
    "columns in another order": WANTED.select(["x", "id"]),
}
WRONG = {
    "a value": WANTED.set_column(1, "x", [[0.0, NAN, 1.0]]),
    "a key": WANTED.set_column(0, "id", [[1, 2, 4]]),
    "rows exchanged in one column": WANTED.set_column(0, "id", [[2, 1, 3]]),
    "a row fewer": WANTED.slice(1),
    "a row more": pa.concat_tables([WANTED, WANTED.slice(0, 1)]),
}


@pytest.mark.parametrize("operation", [ORDERED, UNORDERED], ids=lambda each: each.name)
@pytest.mark.parametrize("name", EQUAL)
def test_equal_rows(name: str, operation: Operation) -> None:
    assert difference(EQUAL[name], WANTED, operation) is None


@pytest.mark.parametrize("operation", [ORDERED, UNORDERED], ids=lambda each: each.name)
@pytest.mark.parametrize("name", WRONG)
def test_other_rows(name: str, operation: Operation) -> None:
    assert difference(WRONG[name], WANTED, operation) is not None


def test_order_counts_only_where_there_is_one() -> None:
    turned = WANTED.take([2, 0, 1])
    assert difference(turned, WANTED, ORDERED) is not None
    assert difference(turned, WANTED, UNORDERED) is None
