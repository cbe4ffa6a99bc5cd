"""Values of whole keys are joined to rows where that takes less memory than window functions."""

from __future__ import annotations

import pyarrow as pa
import pytest

from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.over.calls import WindowCall
from exoshuffle.operators.over.functions import FUNCTIONS
from exoshuffle.operators.over.windows import Windows
from exoshuffle.operators.sql.groups import MOST_KEYS, Operands

SUM = WindowCall("a", "sum(v)", FUNCTIONS["sum"], "v")
RUNNING = WindowCall("b", "sum(v)", FUNCTIONS["sum"], "v", order=(SortKey("v"),))
FIRST = WindowCall("c", "first_value(v)", FUNCTIONS["first_value"], "v")


def sql(keys: dict[str, list[int]], *calls: WindowCall) -> str:
    num_rows = max(map(len, keys.values()), default=3)
    table = pa.table({**keys, "v": range(num_rows)})
    return Windows(tuple(keys), calls).query(Operands(table, tuple(keys)))


@pytest.mark.parametrize("keys", [{}, {"k": [1, 1, 2, 1, 2, 2]}])
def test_values_of_keys_that_repeat_are_joined(keys: dict[str, list[int]]) -> None:
    assert "OVER" not in sql(keys, SUM)
    mixed = sql(keys, SUM, RUNNING)
    assert "JOIN" in mixed
    assert mixed.count("OVER") == 1


@pytest.mark.parametrize("call", [RUNNING, FIRST])
def test_calls_that_need_an_order_are_not(call: WindowCall) -> None:
    assert "JOIN" not in sql({"k": [1, 1, 2, 1, 2, 2]}, call)


def test_values_of_single_keys_are_not() -> None:
    assert "JOIN" not in sql({"k": [1, 2, 3, 4, 5, 6]}, SUM)


def test_values_of_very_many_keys_are_not() -> None:
    """A sum by 2,000 keys found no memory within 1 GB when it was joined."""
    keys = {f"k{index}": [1, 1, 1, 1] for index in range(MOST_KEYS + 1)}
    assert "JOIN" not in sql(keys, SUM)
