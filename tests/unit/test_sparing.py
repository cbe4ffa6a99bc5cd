"""Groups that are finished one aggregate at a time are those that are finished at once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from exoshuffle.operators.group_by.parsing import parse_aggregates
from exoshuffle.operators.group_by.sparing import Sparing

NAN = float("nan")
ROWS = pa.table(
    {
        "k": [2, 1, 2, None, 1, 2, 2, None],
        "s": ["b", "a", None, "é", "a", "b", "", "é"],
        "v": [1.5, NAN, -0.0, None, NAN, 0.0, 1.5, None],
        "l": [[1], [], [1], None, [], [2, None], [2, None], [3]],
    }
)
AGGREGATES = {
    "different": ("v", "count_distinct"),
    "texts": ("s", "count_distinct"),
    "lists": ("l", "count_distinct"),
    "middle": ("v", "median"),
    "high": ("v", "quantile", 0.9),
    "all": ("s", "list"),
    "least": ("s", "min"),
    "rows": "count",
}


def sparing(keys: list[str]) -> Sparing:
    return Sparing(parse_aggregates(ROWS.schema, keys, AGGREGATES))


@pytest.mark.parametrize("keys", [["k"], ["k", "s"], []])
@pytest.mark.parametrize("num_rows", [0, 1, 8])
def test_results_are_those_of_all_aggregates_at_once(keys: list[str], num_rows: int) -> None:
    made = sparing(keys)
    rows = ROWS.slice(0, num_rows).select(list(made.grouping.columns))
    at_once = made.grouping.final(rows)
    one_by_one = made.final(rows)
    assert one_by_one.schema == at_once.schema == made.grouping.output_schema
    assert repr(one_by_one.to_pylist()) == repr(at_once.to_pylist())  # since NaN is not itself


def test_it_takes_less_memory_for_several_aggregates() -> None:
    grouping = parse_aggregates(
        ROWS.schema, ["k"], {name: AGGREGATES[name] for name in ("different", "middle", "high")}
    )
    (percent, row_bytes), (all_percent, all_bytes) = Sparing(grouping).cost, grouping.group_cost
    assert (percent, row_bytes) == (50, 40)
    assert (all_percent, all_bytes) == (50, 150)
