"""Functions of timestamps with a zone work in it: as DuckDB's with that zone set, and as Polars'."""
# ruff: noqa: DTZ001  moments in UTC are given a zone as Arrow data

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from exoshuffle.errors import InputError, SchemaError
from exoshuffle.operators.sql.evaluation import evaluated
from exoshuffle.operators.sql.parsing import parse_expression
from exoshuffle.operators.sql.zones import has_nanoseconds

HOUR = 3_600_000_000
#: Around midnights, and the hours that New York and Berlin skipped and had twice in 2024; nulls; long ago.
MOMENTS = [
    dt.datetime(2024, 1, 1, 2, 30, 15, 123_456),
    dt.datetime(2024, 3, 10, 6, 59, 59),
    dt.datetime(2024, 3, 10, 7, 0),
    dt.datetime(2024, 3, 31, 0, 59),
    dt.datetime(2024, 3, 31, 1, 0),
    dt.datetime(2024, 10, 27, 0, 30),
    dt.datetime(2024, 10, 27, 1, 30),
    dt.datetime(2024, 11, 3, 5, 30),
    dt.datetime(2024, 11, 3, 6, 30),
    None,
    dt.datetime(1969, 12, 31, 23, 0),
]
ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Pacific/Apia"]


# Polars starts its threads when it is first asked for something, and they stay.
pl.Series([MOMENTS[0]]).dt.cast_time_unit("us").dt.truncate("1d").dt.hour()


def moments(zone: str | None, unit: str = "us") -> pa.Array:
    """The moments in a zone."""
    return (
        pa.array(MOMENTS, pa.timestamp("us"))
        .cast(pa.timestamp("us", "UTC"))
        .cast(pa.timestamp(unit, zone), safe=False)
    )


def computed(text: str, table: pa.Table) -> pa.ChunkedArray:
    expression = parse_expression(text, table.schema)
    [(_, [values])] = evaluated([expression], table)
    assert values.type == expression.type
    return values


TEXTS = [
    "date_trunc('day', ts)",
    "date_trunc('hour', ts)",
    "date_trunc('month', ts)",
    "time_bucket(interval 1 day, ts)",
    "hour(ts)",
    "extract(dow from ts)",
    "date_part('day', ts)",
    "ts::date",
    "ts::varchar",
    "strftime(ts, '%Y-%m-%d %H')",
    "ts > '2024-03-10'",
    "ts between '2024-01-01' and '2024-10-27 02:30:00'",
    "ts + interval 1 day",
    "date_diff('day', ts, timestamptz '2024-12-31 00:00:00')",
    "{'day': date_trunc('day', ts), 'all': [ts]}",
    "case when hour(ts) < 3 then ts end",
]


@pytest.mark.parametrize("zone", ZONES)
def test_as_duckdb_with_its_zone_set(zone: str) -> None:
    table = pa.table({"ts": moments(zone)})
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{zone}'")
        connection.register("t", table)
        for text in TEXTS:
            wanted = connection.sql(f"SELECT {text} AS x FROM t").to_arrow_table()["x"]  # noqa: S608  of this test
            assert computed(text, table).to_pylist() == wanted.to_pylist(), text


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("zone", ZONES)
def test_as_polars(zone: str, unit: str) -> None:
    table = pa.table({"ts": moments(zone, unit)})
    ts = pl.from_arrow(table)["ts"].dt.cast_time_unit("us")
    found = {
        "date_trunc('day', ts)": ts.dt.truncate("1d"),
        "date_trunc('hour', ts)": ts.dt.truncate("1h"),
        "hour(ts)": ts.dt.hour(),
        "ts::date": ts.dt.date(),
        "isodow(ts)": ts.dt.weekday(),
    }
    for text, wanted in found.items():
        values = computed(text, table)
        assert values.to_pylist() == wanted.to_list(), text
        if pa.types.is_timestamp(values.type):
            assert values.type.tz == zone


def test_the_zone_stays_as_it_is_spelled() -> None:
    for zone in ("utc", "america/new_york", "US/Eastern", "+00:00", "-05:00"):
        table = pa.table({"ts": pa.array([0], pa.timestamp("us", zone))})
        assert computed("date_trunc('day', ts)", table).type == pa.timestamp("us", zone)


@pytest.mark.parametrize(
    ("zone", "hours", "minutes"),
    [("+02:00", 2, 0), ("-08:00", 16, 0), ("+05:30", 5, 30), ("+00:00", 0, 0), ("Etc/GMT-2", 2, 0)],
)
def test_fixed_offsets(zone: str, hours: int, minutes: int) -> None:
    if minutes and not has_nanoseconds():
        pytest.skip("DuckDB 1.5 has offsets of whole hours only")
    table = pa.table({"ts": pa.array([0], pa.timestamp("us", zone))})
    assert computed("hour(ts) * 100 + minute(ts)", table).to_pylist() == [100 * hours + minutes]


@pytest.mark.parametrize("zone", ["Nowhere/City", "UTC+05:30", "'; drop table t; --"])
def test_an_unknown_zone(zone: str) -> None:
    schema = pa.schema([("a", pa.int64()), ("ts", pa.timestamp("us", zone))])
    with pytest.raises(
        SchemaError, match=r"column 'ts' is .* does not know the time zone"
    ) as caught:
        parse_expression("hour(ts)", schema)
    assert "\n" not in str(caught.value)
    assert parse_expression("a + 1", schema).columns == ("a",)
    assert parse_expression("ts", schema).is_column


#: Columns ``ny`` and ``berlin`` have one moment in two zones, ``plain`` has no zone.
SEVERAL: dict[str, list[Any]] = {
    "hour(ny) = hour(berlin)": [False, None],
    "hour(berlin) - hour(ny)": [-18, None],
    "ny = berlin": [True, None],
    "date_trunc('day', ny) < date_trunc('day', berlin)": [True, None],
    "ny is null or berlin < '2024-01-01'": [False, True],
    "ny > '2023-12-31' and berlin > '2024-01-01'": [True, None],
    "case when hour(ny) > 12 then day(berlin) else day(ny) end": [1, None],
    "year(ny) || '-' || year(berlin)": ["2023-2024", None],
    "ny in (berlin)": [True, None],
    "plain > '2024-01-01' and hour(ny) = 21 and hour(berlin) = 3": [True, None],
    "struct_extract(struct_pack(x := hour(ny), y := hour(berlin)), 'y')": [3, None],
}


def several_zones() -> pa.Table:
    moment = pa.array([dt.datetime(2024, 1, 1, 2), None], pa.timestamp("us"))
    utc = moment.cast(pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "ny": utc.cast(pa.timestamp("us", "America/New_York")),
            "berlin": utc.cast(pa.timestamp("us", "Europe/Berlin")),
            "plain": moment,
        }
    )


@pytest.mark.parametrize("text", SEVERAL)
def test_several_zones(text: str) -> None:
    assert computed(text, several_zones()).to_pylist() == SEVERAL[text]


def test_several_expressions_of_several_zones() -> None:
    table = several_zones()
    expressions = [parse_expression(text, table.schema) for text in SEVERAL]
    [(_, values)] = evaluated(expressions, table)
    assert [one.to_pylist() for one in values] == [*SEVERAL.values()]


@pytest.mark.parametrize(
    "text", ["age(ny, berlin)", "coalesce(ny, berlin)", "ny - berlin", "[ny, berlin]"]
)
def test_what_would_work_in_two_zones(text: str) -> None:
    schema = pa.schema(
        [
            ("ny", pa.timestamp("us", "America/New_York")),
            ("berlin", pa.timestamp("us", "Europe/Berlin")),
        ]
    )
    message = r"'ny' in America/New_York, 'berlin' in Europe/Berlin.* works in one"
    with pytest.raises(SchemaError, match=message):
        parse_expression(text, schema)


def has_functions_of_zoned_nanoseconds() -> bool:
    """DuckDB has them from 2.0.1 on."""
    sql = "select 1 from duckdb_functions() where function_name = 'hour' and parameter_types::text like '%TZ_NS%'"
    return bool(duckdb.sql(sql).fetchall())


def test_nanoseconds() -> None:
    zone = "America/New_York"
    whole = pa.table({"ts": moments(zone, "ns")})
    for text in ("date_trunc('day', ts)", "hour(ts)", "ts > '2024-03-10'", "ts::date"):
        micro = whole.set_column(0, "ts", pc.cast(whole["ts"], pa.timestamp("us", zone)))
        assert computed(text, whole).to_pylist() == computed(text, micro).to_pylist()
    finer = pa.table({"ts": pa.array([1], pa.timestamp("ns", zone))})
    if has_functions_of_zoned_nanoseconds():
        assert computed("hour(ts)", finer).to_pylist() == [19]
    else:
        with pytest.raises(InputError, match=r"column 'ts' is .*ns.* works with microseconds"):
            computed("hour(ts)", finer)
    if has_nanoseconds():
        # Seven in the evening there.
        assert computed("ts > '1969-12-31 19:00:00'", finer).to_pylist() == [True]


#: Polars writes times in nanoseconds, and Python's have microseconds.
TIMES = [
    "t < TIME '00:00:02'",
    "t BETWEEN '00:00:01' AND TIME '00:00:03'",
    "coalesce(t, TIME '00:00:09')",
    "hour(t) + minute(t)",
]


@pytest.mark.parametrize("text", TIMES)
def test_times_of_nanoseconds_beside_times(text: str) -> None:
    micros = pa.array([1_000_000, None, 2_000_000, 7_200_000_001], pa.time64("us"))
    whole = pa.table({"t": micros.cast(pa.time64("ns"))})
    found = computed(text, whole)
    assert found.to_pylist() == computed(text, pa.table({"t": micros})).to_pylist()


def test_times_of_nanoseconds_that_microseconds_would_cut() -> None:
    finer = pa.table({"t": pa.array([1, 1000], pa.time64("ns"))})
    assert computed("t < '00:00:00.000001'", finer).to_pylist() == [True, False]
    with pytest.raises(InputError, match=r"column 't' is time64\[ns\].* works with microseconds"):
        computed("t < TIME '00:00:01'", finer)
