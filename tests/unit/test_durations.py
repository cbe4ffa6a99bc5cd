"""Filters on durations: with intervals and with each other they compare spans of time, whatever the units."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.errors import SchemaError
from exoshuffle.operators.sql.evaluation import evaluated
from exoshuffle.operators.sql.parsing import parse_expression

COUNTS = [0, 1, 2, 3, None, 2**63 - 1]
TABLE = pa.table(
    {
        "n": pa.array(COUNTS, pa.int64()),
        **{unit: pa.array(COUNTS, pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
    }
)
SECOND = 10**9
NANOSECONDS = {"s": SECOND, "ms": 10**6, "us": 10**3, "ns": 1}


def taken(condition: str) -> list[int | None]:
    """Returns the integers of the rows for which a condition is true."""
    expression = parse_expression(condition, TABLE.schema)
    [(rows, [values])] = list(evaluated([expression], TABLE))
    numbers: list[int | None] = rows.filter(values)["n"].to_pylist()
    return numbers


@pytest.mark.parametrize("unit", NANOSECONDS)
@pytest.mark.parametrize("microseconds", [-1, 0, 1, 2_000, 2_000_000, 2_500_000])
def test_intervals_are_compared_exactly(unit: str, microseconds: int) -> None:
    interval, span = f"to_microseconds({microseconds})", microseconds * 1000
    known = [(count, count * NANOSECONDS[unit]) for count in COUNTS if count is not None]
    assert taken(f"{unit} > {interval}") == [count for count, length in known if length > span]
    assert taken(f"{interval} >= {unit}") == [count for count, length in known if span >= length]
    assert taken(f"{unit} = {interval}") == [count for count, length in known if length == span]
    assert taken(f"{unit} is distinct from {interval}") == [
        count for count in COUNTS if count is None or count * NANOSECONDS[unit] != span
    ]


@pytest.mark.parametrize(
    ("condition", "numbers"),
    [
        ("s between interval 1 second and interval '2 s'", [1, 2]),
        ("s not between interval 2 second and interval 2 second", [0, 1, 3, 2**63 - 1]),
        ("s in (interval 1 second, interval 3 second)", [1, 3]),
        ("s not in (interval 1 second, interval 3 second)", [0, 2, 2**63 - 1]),
        ("n > 0 and not (s < interval 2 second or ms > interval 1 hour)", [2, 3]),
        ("case when us > interval 1 month then n > 5 else n = 1 end", [1, 2**63 - 1]),
        ("s = ms", [0]),
        ("s > ns", [1, 2, 3, 2**63 - 1]),
        ('S >= "us" and ms < s', [1, 2, 3, 2**63 - 1]),
        # As they are without intervals, durations are integers in their unit.
        ("s > 1", [2, 3, 2**63 - 1]),
        ("s = n and ms in (1, 3)", [1, 3]),
        ("s + 1 = 3", [2]),
    ],
)
def test_spans_are_compared(condition: str, numbers: list[int]) -> None:
    assert taken(condition) == numbers


@pytest.mark.parametrize("condition", ["s > date '2020-01-01'", "s + interval 1 second > 3"])
def test_other_values_do_not_fit(condition: str) -> None:
    with pytest.raises(SchemaError, match="does not fit"):
        parse_expression(condition, TABLE.schema)


@pytest.mark.usefixtures("engine")
def test_filters_take_timedeltas(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(TABLE, path, row_group_size=2)
    condition = (xs.col("s") >= dt.timedelta(seconds=2)) & (xs.col("ms") < dt.timedelta(days=1))
    for rows in (xs.from_arrow(TABLE), xs.read_parquet(path)):
        assert rows.filter(condition).to_arrow()["n"].to_pylist() == [2, 3]
        grouped = rows.filter(condition).group_by("n").agg(count=("n", "count"))
        assert grouped.sort("n").to_arrow()["n"].to_pylist() == [2, 3]
