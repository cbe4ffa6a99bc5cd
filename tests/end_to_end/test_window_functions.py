"""Window functions give what DuckDB gives, for random tables with nulls, NaN and ties, however they are written."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

import exoshuffle as xs
from tests.support.generated import assert_same_rows, query

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]

NAN = float("nan")
#: Functions whose results do not depend on the order of ties, and which need none that is unique.
OF_PEERS = ["rank()", "dense_rank()", "percent_rank()", "cume_dist()", "count(*)", "count(y)"]
#: Functions whose results do.
OF_ROWS = [
    "row_number()",
    "ntile(3)",
    "lag(y)",
    "lag(s, 2)",
    "lead(s, 1, 'none')",
    "lag(y, 1, id)",
    "lead(y, -1)",
    "lag(s IGNORE NULLS)",
]
#: Functions of a frame.
FRAMED = [
    "sum(n)",
    "avg(n)",
    "min(x)",
    "max(s)",
    "count(DISTINCT n)",
    "median(n)",
    "quantile_cont(n, 0.25)",
    "bool_or(b)",
    "bool_and(b)",
    "first_value(s)",
    "last_value(x)",
    "nth_value(y, 2)",
    "first_value(s IGNORE NULLS)",
    "sum(n) FILTER (WHERE b)",
    "min(n + id)",
]
ROW_FRAMES = [
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW",
]


def drawn(draw: random.Random, num_rows: int) -> pa.Table:
    """A table with few keys, ties, nulls and NaN; ``id`` numbers the rows."""

    def column(values: list[object], kind: pa.DataType) -> pa.Array:
        return pa.array([draw.choice(values) for _ in range(num_rows)], kind)

    return pa.table(
        {
            "id": pa.array(range(num_rows), pa.int64()),
            "k": column([None, 1, 2, 3], pa.int32()),
            "x": column([None, NAN, 0.0, -0.0, 1.5, float("inf")], pa.float64()),
            "y": column([None, 1, 2, 2**40], pa.int64()),
            "n": column([None, -3, 0, 5, 7], pa.int16()),
            "s": column([None, "", "a", "b" * 20], pa.string()),
            "b": column([None, True, False], pa.bool_()),
        }
    )


def check(table: pa.Table, function: str, over: str) -> None:
    """Compares a function with DuckDB's; its sums are wider."""
    expression = f"{function} OVER ({over})"
    actual = xs.from_arrow(table).with_columns(r=expression).select("id", "r").to_arrow()
    kind = actual.schema.field("r").type
    cast = "::bigint" if pa.types.is_int64(kind) else ""
    wanted = query(f"select id, ({expression}){cast} as r from t", t=table)  # noqa: S608  texts of this test
    assert_same_rows(actual, wanted)


class TestRandomTables:
    """Each function over some tables."""

    @pytest.mark.parametrize("function", OF_PEERS)
    def test_of_peers(self, function: str) -> None:
        draw = random.Random(function)
        for order in ("x", "s DESC NULLS FIRST, n", "y NULLS FIRST"):
            check(drawn(draw, 60), function, f"PARTITION BY k ORDER BY {order}")

    @pytest.mark.parametrize("function", OF_ROWS)
    def test_of_rows(self, function: str) -> None:
        draw = random.Random(function)
        for keys in ("PARTITION BY k", "PARTITION BY b, x", ""):
            check(drawn(draw, 60), function, f"{keys} ORDER BY n DESC, id")

    @pytest.mark.parametrize("function", FRAMED)
    def test_of_a_frame(self, function: str) -> None:
        draw = random.Random(function)
        for frame in ("", *ROW_FRAMES):
            check(drawn(draw, 60), function, f"PARTITION BY k ORDER BY y, id {frame}")

    @pytest.mark.parametrize("function", ["sum(n)", "count(s)", "max(y)", "median(n)"])
    @pytest.mark.parametrize(
        "frame",
        [
            "",
            "RANGE BETWEEN 2 PRECEDING AND 4 FOLLOWING",
            "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
        ],
    )
    def test_of_a_frame_of_values(self, function: str, frame: str) -> None:
        table = drawn(random.Random(frame), 60)
        check(table, function, f"PARTITION BY k ORDER BY n {frame}")
        check(table, function, "PARTITION BY k")

    @pytest.mark.parametrize("keys", ["", "x", "s", "b, x, s"])
    def test_of_whole_keys(self, keys: str) -> None:
        """Null is a key, NaN equals NaN, and −0.0 equals 0.0, as well where values of keys are joined to rows."""
        table = drawn(random.Random(keys), 200)
        over = f"PARTITION BY {keys}" if keys else ""
        for function in ("sum(n)", "count(*)", "min(id)", "count(DISTINCT n)", "bool_or(b)"):
            check(table, function, over)
        check(table, f"sum(n) OVER ({over}) + row_number()", f"{over} ORDER BY id")

    def test_ties_come_in_input_order(self) -> None:
        """DuckDB promises no order of them, so they are told apart there."""
        table = drawn(random.Random(1), 200)
        actual = xs.from_arrow(table).window(
            partition_by="k",
            order_by="n",
            number="row_number()",
            before="lag(id)",
            first="first_value(id)",
            last="last_value(id)",
            running="sum(id)",
            few="sum(id)",
        )
        wanted = query(
            """select *, row_number() over u as number, lag(id) over u as before,
                first_value(id) over u as first,
                max(id) over (partition by k, n) as last,
                (sum(id) over (partition by k order by n))::bigint as running,
                (sum(id) over (partition by k order by n))::bigint as few
            from t window u as (partition by k order by n, id)""",
            t=table,
        )
        assert_same_rows(actual.to_arrow(), wanted)

    @pytest.mark.parametrize("function", ["var", "std"])
    def test_of_a_sample(self, function: str) -> None:
        values = pa.table({"id": range(6), "x": [1.0, 4.0, None, 10.0, float("inf"), NAN]})
        made = xs.from_arrow(values).window(order_by="id", r=f"{function}(x)", frame=(-1, 0))
        variances = [None, 4.5, None, None, NAN, NAN]
        wanted = [v if v is None or function == "var" else v**0.5 for v in variances]
        assert str(made.sort("id").to_pydict()["r"]) == str(wanted)


class TestObjects:
    """Objects, text in ``window`` and text in ``with_columns`` say the same."""

    TABLE = drawn(random.Random(7), 80)

    @pytest.mark.parametrize(
        ("made", "sql"),
        [
            (lambda: xs.col("n").sum().over("k"), "(sum(n) over (partition by k))::bigint"),
            (lambda: xs.col("n").max().over(), "max(n) over ()"),
            (lambda: xs.len().over("k", "b"), "count(*) over (partition by k, b)"),
            (
                lambda: xs.row_number().over(["k"], order_by=["n", "id"], descending=[True, False]),
                "row_number() over (partition by k order by n desc, id)",
            ),
            (
                lambda: xs.rank().over(xs.col("k"), order_by="n", nulls="first"),
                "rank() over (partition by k order by n nulls first)",
            ),
            (
                lambda: xs.dense_rank().over(xs.col("id") % 3, order_by="s"),
                "dense_rank() over (partition by id % 3 order by s)",
            ),
            (lambda: xs.ntile(4).over(order_by="id"), "ntile(4) over (order by id)"),
            (
                lambda: xs.percent_rank().over("b", order_by="y"),
                "percent_rank() over (partition by b order by y)",
            ),
            (
                lambda: xs.cume_dist().over("b", order_by="y"),
                "cume_dist() over (partition by b order by y)",
            ),
            (
                lambda: xs.col("id") - xs.col("id").shift(1).over("k", order_by="id"),
                "id - lag(id) over (partition by k order by id)",
            ),
            (
                lambda: xs.col("s").lead(2, "-").over("k", order_by="id"),
                "lead(s, 2, '-') over (partition by k order by id)",
            ),
            (
                lambda: xs.col("n").mean().over("k", order_by="id", frame=(-2, 0)),
                "avg(n) over (partition by k order by id rows between 2 preceding and current row)",
            ),
            (
                lambda: xs.col("n").count().over("k", order_by="n", range_frame=(-3, None)),
                "count(n) over (partition by k order by n range between 3 preceding and unbounded following)",
            ),
            (
                lambda: xs.col("s").first().over("k", order_by="id", frame=(None, None)),
                "first_value(s ignore nulls) over (partition by k order by id "
                "rows between unbounded preceding and unbounded following)",
            ),
        ],
    )
    def test_an_object(self, made: Callable[[], xs.dataset.Expr], sql: str) -> None:
        actual = xs.from_arrow(self.TABLE).with_columns(made().alias("r")).select("id", "r")
        assert_same_rows(actual.to_arrow(), query(f"select id, {sql} as r from t", t=self.TABLE))  # noqa: S608  this test's

    def test_arithmetic_selects_and_filters(self) -> None:
        rows = xs.from_arrow(self.TABLE)
        share = rows.select("id", share="n * 1.0 / sum(id + 1) over (partition by k)")
        wanted = "select id, n * 1.0 / sum(id + 1) over (partition by k) as share from t"
        assert_same_rows(share.to_arrow(), query(wanted, t=self.TABLE))
        last = rows.filter("row_number() over (partition by k order by id desc) = 1", "id > 3")
        wanted = "select * from t qualify row_number() over (partition by k order by id desc) = 1 and id > 3"
        assert_same_rows(last.to_arrow(), query(wanted, t=self.TABLE))

    def test_columns_that_are_replaced_are_read_before(self) -> None:
        rows = xs.from_arrow(self.TABLE)
        made = rows.with_columns(n="sum(n) over (partition by k)", m="max(n) over (partition by b)")
        wanted = """select * replace ((sum(n) over (partition by k))::bigint as n),
            max(n) over (partition by b) as m from t"""
        assert_same_rows(made.to_arrow(), query(wanted, t=self.TABLE))

    def test_names_that_would_collide(self) -> None:
        table = pa.table({"Window 1": [1, 2], "input 1": [3, 3], "input 2": [5, 6]})
        made = xs.from_arrow(table).with_columns(
            r='sum("input 2" + 1) over (partition by "input 1")'
        )
        assert made.columns == ["Window 1", "input 1", "input 2", "r"]
        assert made.to_pydict()["r"] == [13, 13]


#: A column of each type that DuckDB lacks, or that pyarrow cannot pick from.
CARRIED = {
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "view": pa.array(["a", None, "b" * 30, "a"], pa.string_view()),
    "duration": pa.array([1, None, 3, 4], pa.duration("ms")),
    "half": pa.array([1.5, None, 2.5, 3.5], pa.float64()).cast(pa.float16()),
    "zone": pa.array([1000, None, 3000, 4000], pa.timestamp("ns", "Europe/Berlin")),
    "list": pa.array([[1], None, [], [2, 3]]),
    "struct": pa.array([{"a": 1}, None, {"a": 2}, {"a": None}]),
    "large": pa.array(["a", None, "b", "c"], pa.large_string()),
    "decimal": pa.array([1, None, 3, 4], pa.decimal256(30, 2)),
    "null": pa.nulls(4),
}


class TestTypes:
    """Values that are chosen come back as they were."""

    @pytest.mark.parametrize("name", CARRIED)
    def test_a_chosen_value(self, name: str) -> None:
        table = pa.table({"id": range(4), "v": CARRIED[name]})
        made = xs.from_arrow(table).window(
            order_by="id", a="lag(v)", b="last_value(v)", c="lead(v, 1, v)"
        )
        result = made.to_arrow()
        values = CARRIED[name].to_pylist()
        assert result.schema.field("a").type == table.schema.field("v").type
        assert result["a"].to_pylist() == [None, *values[:3]]
        assert result["b"].to_pylist() == values
        assert result["c"].to_pylist() == [*values[1:], values[3]]

    def test_sums_of_durations(self) -> None:
        table = pa.table({"id": range(4), "v": CARRIED["duration"]})
        made = xs.from_arrow(table).window(order_by="id", r="sum(v)").to_arrow()["r"]
        assert made.to_pylist() == [dt.timedelta(milliseconds=n) for n in (1, 1, 4, 8)]

    def test_distances_of_times(self) -> None:
        days = pa.array([dt.date(2024, 1, day) for day in (1, 2, 4, 9)])
        table = pa.table({"t": days, "x": [1, 2, 3, 4]})
        for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32()):
            rows = xs.from_arrow(table.set_column(0, "t", table["t"].cast(kind)))
            made = rows.window(
                order_by="t", r="sum(x)", range_frame=(dt.timedelta(days=-2), dt.timedelta())
            )
            assert made.to_pydict()["r"] == [1, 3, 5, 4]

    def test_no_rows_and_one(self) -> None:
        rows = xs.from_arrow(drawn(random.Random(2), 1))
        made = rows.window(partition_by="k", order_by="id", a="lag(s)", b="sum(n)", c="ntile(2)")
        assert made.limit(0).to_arrow().num_rows == made.filter("id < 0").to_arrow().num_rows == 0
        assert made.to_pydict()["c"] == [1]
        empty = rows.filter("id < 0").window(a="row_number()", b="max(x)")
        assert empty.to_arrow().num_rows == empty.count() == 0
