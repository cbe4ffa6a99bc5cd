"""Differences of timestamps are durations, as in Polars; columns of durations work where intervals of DuckDB do."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.errors import SchemaError

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]

NEW_YORK = "America/New_York"
#: Two of the pairs lie on both sides of a change of the clocks of New York, in UTC.
EARLIER = ["2024-03-10 05:00", "2024-11-03 04:00", None, "2030-01-01 00:00"]
LATER = ["2024-03-11 04:00", "2024-11-04 05:00", "1999-01-01 00:00", "1969-01-01 00:00"]
PAIRS = pl.DataFrame({"a": EARLIER, "b": LATER, "k": [1, 1, 2, 2]}).with_columns(
    pl.col("a", "b").str.to_datetime("%Y-%m-%d %H:%M", time_unit="us")
)
HOUR = dt.timedelta(hours=1)


def moments(earlier: str, later: str, zone: str | None) -> pl.DataFrame:
    odd = pl.duration(microseconds=pl.col("k") * 1001)
    made = PAIRS.with_columns(pl.col("b") + odd).with_columns(
        pl.col("a").cast(pl.Datetime(earlier)),  # type: ignore[arg-type]
        pl.col("b").cast(pl.Datetime(later)),  # type: ignore[arg-type]
    )
    if zone is None:
        return made
    return made.with_columns(
        pl.col("a", "b").dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    )


@pytest.mark.parametrize("zone", [None, "UTC", NEW_YORK])
@pytest.mark.parametrize("units", [("us", "us"), ("ms", "ms"), ("ns", "ns"), ("ms", "us"), ("us", "ns")])  # fmt: skip
def test_differences_are_those_of_polars(units: tuple[str, str], zone: str | None) -> None:
    frame = moments(*units, zone)
    rows = xs.from_polars(frame)
    unit = "ns" if "ns" in units and zone is None else "us"
    # In Polars the coarser unit counts, which loses a microsecond here.
    finest = frame.with_columns(pl.col("a", "b").dt.cast_time_unit(unit))
    wanted = finest.select(x=pl.col("b") - pl.col("a"))
    for made in (rows.select(x="b - a"), rows.select(x=xs.col("b") - xs.col("a"))):
        assert made.schema.field("x").type == pa.duration(unit)
        assert made.to_polars().equals(wanted)
    many = rows.select(x="b - a", y="b > a", z="k + 1").to_polars()
    assert many.select("x").equals(wanted)


def test_a_difference_has_the_hours_that_passed() -> None:
    rows = xs.from_polars(
        PAIRS.with_columns(
            pl.col("a", "b").dt.replace_time_zone("UTC").dt.convert_time_zone(NEW_YORK)
        )
    )
    assert rows.select(x="b - a").to_pydict()["x"][:2] == [23 * HOUR, 25 * HOUR]
    for condition in ("b - a > interval 1 day", "b - a not between to_days(-99999) and to_days(1)"):
        assert rows.filter(condition).to_pydict()["b"] == [rows.to_pydict()["b"][1]]
    assert rows.filter("b - a = interval 1 day").count() == 0
    assert rows.filter("date_part('day', b - a) = 1 and b - a < interval 1 day").count() == 1


def test_differences_are_sorted_grouped_joined_and_written(tmp_path: Path) -> None:
    frame = moments("us", "us", None)
    rows, x = xs.from_polars(frame), pl.col("b") - pl.col("a")
    assert rows.sort("b - a").to_polars().equals(frame.sort(x, nulls_last=True))
    groups = rows.group_by("k").agg(most="max(b - a)", all="sum(b - a)", wide="max(b) - min(b)")
    assert groups.sort("k").to_polars().equals(
        frame.group_by("k").agg(
            most=x.max(), all=x.sum(), wide=pl.col("b").max() - pl.col("b").min()
        ).sort("k")
    )  # fmt: skip
    assert rows.group_by(x="b - a").agg(n="count").count() == 4
    with pytest.raises(
        SchemaError, match=r"duration\[us\], .*; write mean\(epoch\(\.\.\.\)\) for seconds"
    ):
        rows.agg(m="mean(b - a)")
    before = rows.with_columns(x="b - lag(b) over (partition by k order by b)").sort("k", "b")
    ordered = frame.sort("k", "b")
    assert before.to_polars().equals(
        ordered.with_columns(x=(pl.col("b") - pl.col("b").shift()).over("k"))
    )
    made = rows.with_columns(x="b - a")
    made.write_parquet(tmp_path / "out")
    assert xs.read_parquet(tmp_path / "out").to_polars().equals(frame.with_columns(x=x))
    assert made.join(made, on="x", how="semi").count() == 3


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_work_where_intervals_do(unit: str) -> None:
    spans = [27 * HOUR, -27 * HOUR, None]
    moment = dt.datetime(2024, 3, 10, 5)  # noqa: DTZ001  without a zone
    rows = xs.from_arrow(
        pa.table(
            {
                "x": pa.array(spans, pa.duration(unit)),
                "t": pa.array([moment] * 3, pa.timestamp("us")),
                "z": pa.array([moment] * 3, pa.timestamp("us", NEW_YORK)),
            }
        )
    )
    made = rows.select(
        later="t + x", before="t - x", seconds="epoch(x)", days="date_part('day', x)",
        hours="date_part('hour', x)", zoned="(z + x) - z", is_more="(t + x) - t > x - x",
        number="x + x",
    ).to_pydict()  # fmt: skip
    assert made["later"] == [moment + 27 * HOUR, moment - 27 * HOUR, None]
    assert made["before"] == [moment - 27 * HOUR, moment + 27 * HOUR, None]
    assert made["seconds"] == [27 * 3600, -27 * 3600, None]
    assert made["days"] == [1, -1, None]
    assert made["hours"] == [3, -3, None]
    assert made["zoned"] == spans
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    assert made["number"] == [54 * 3600 * per_second, -54 * 3600 * per_second, None]


def test_intervals_and_dates_stay_what_they_are() -> None:
    rows = xs.from_pydict({"d": [dt.date(2024, 1, 3)], "e": [dt.date(2024, 1, 1)], "n": [2]})
    kinds = rows.select(days="d - e", months="to_months(n)", hours="to_days(n) - to_hours(n)")
    assert [str(kind) for kind in kinds.schema.types] == ["int64", *["month_day_nano_interval"] * 2]
    assert rows.select(days="d - e").to_pydict() == {"days": [2]}
    with pytest.raises(SchemaError, match="a difference of dates is a number of days"):
        rows.filter(xs.col("d") - xs.col("e") > dt.timedelta(days=1))
    with pytest.raises(AttributeError, match=r'write xs\.sql\("epoch\(t2 - t1\)"\) for seconds'):
        (xs.col("d") - xs.col("e")).dt.total_seconds()
