"""Aggregates of expressions, and expressions as keys of groups and sorts: DuckDB is the oracle."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.errors import ExoshuffleError
from tests.support.duck import duck

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]

NAN = float("nan")
SALES = pa.table(
    {
        "k": ["b", "a", None, "a", "b", "a", None, "A"],
        "price": pa.array([3.5, None, 1.0, 2.25, NAN, -0.0, 8.0, 0.5]),
        "qty": pa.array([2, 5, 1, None, 7, 3, 4, 1], pa.int32()),
        "ok": [True, False, None, True, True, False, False, None],
        "ts": [dt.datetime(2020 + i % 3, 1 + i, 1) for i in range(8)],  # noqa: DTZ001  without a zone
        "word": pa.array(["x", "Y", "x", "", None, "z", "y", "x"]).dictionary_encode(),
    }
)
x, qty, price = xs.col, xs.col("qty"), xs.col("price")

#: Aggregates as they are written here, and the same for DuckDB.
AGGREGATES: dict[str, tuple[Any, str]] = {
    "of a product": ("sum(price * qty)", "sum(price * qty)"),
    "of a product, as objects": ((price * qty).sum(), "sum(price * qty)"),
    "of a function": ("max(length(word))", "max(length(word))"),
    "of a condition": ("sum(qty > 2)", "sum((qty > 2)::INT)"),
    "of a condition, as objects": ((qty > 2).sum(), "sum((qty > 2)::INT)"),
    "of a choice": (
        "sum(case when ok then qty else 0 end)",
        "sum(case when ok then qty else 0 end)",
    ),
    "ratio": ("sum(qty) / count(*)", "sum(qty) / count(*)"),
    "ratio, as objects": (qty.sum() / xs.len(), "sum(qty) / count(*)"),
    "share": (
        "100 * sum(qty) FILTER (WHERE ok) / sum(qty)",
        "100 * sum(qty) FILTER (WHERE ok) / sum(qty)",
    ),
    "filtered rows": ("count(*) FILTER (WHERE qty > 2)", "count(*) FILTER (WHERE qty > 2)"),
    "distinct": ("count(DISTINCT word)", "count(DISTINCT word)"),
    "distinct of an expression": (
        "COUNT(DISTINCT lower(word)) + 1",
        "count(DISTINCT lower(word)) + 1",
    ),
    "other names": ("avg(qty)", "avg(qty)"),
    "rows": ("count(*)", "count(*)"),
    "one, counted": ("count(1)", "count(1)"),
    "with the key": ("concat(k, ':', count(*))", "concat(k, ':', count(*))"),
    "cast": (qty.mean().cast("int64"), "avg(qty)::BIGINT"),
    "rounded": (qty.mean().round(1), "round(avg(qty), 1)"),
    "the same twice": ("sum(qty) * 2 + sum(qty)", "sum(qty) * 2 + sum(qty)"),
    "a quantile": ("quantile(qty * 2, 0.5)", "quantile_cont(qty * 2, 0.5)"),
    "least and greatest": ("max(qty) - min(qty)", "max(qty) - min(qty)"),
    "of moments": ("epoch(max(ts) - min(ts))", "epoch(max(ts) - min(ts))"),
    "any": ((qty > 4).any(), "bool_or(qty > 4)"),
    "all": ((qty > 1).all(), "bool_and(qty > 1)"),
    "a window of sums": ("sum(qty) / sum(sum(qty)) over ()", "sum(qty) / sum(sum(qty)) over ()"),
    "columns in other cases": ("SUM(QTY)", "sum(qty)"),
}


def plain(value: object) -> object:
    """Numbers as doubles: DuckDB has sums of its own types."""
    is_number = isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)
    return float(value) + 0.0 if is_number else value  # type: ignore[arg-type]


def rows_of(columns: dict[str, list[Any]]) -> list[str]:
    return sorted(repr(list(map(plain, row))) for row in zip(*columns.values(), strict=True))


def same(made: xs.Dataset, sql: str) -> None:
    with duck(t=SALES) as database:
        wanted = database.sql(sql).to_arrow_table()
    assert made.columns == [name.replace('"', "") for name in wanted.column_names]
    assert rows_of(made.to_pydict()) == rows_of(wanted.to_pydict())


@pytest.mark.parametrize("rows", [SALES, SALES.slice(0, 0)], ids=["rows", "no rows"])
@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_of_groups(name: str, rows: pa.Table) -> None:
    given, sql = AGGREGATES[name]
    made = xs.from_arrow(rows).group_by("k").agg(v=given, n="count")
    with duck(t=rows) as database:
        query = f"SELECT k, ({sql}) AS v, count(*) AS n FROM t GROUP BY k"  # noqa: S608  above
        wanted = database.sql(query).to_arrow_table()
    assert rows_of(made.to_pydict()) == rows_of(wanted.to_pydict())


@pytest.mark.parametrize("how", ["whole", "simple", "push", "pre_shuffle_merge", "streaming"])
def test_every_strategy_has_them(how: str) -> None:
    made = (
        xs.from_arrow(SALES).group_by("lower(k)", strategy=how).agg(v="sum(price * qty) / count(*)")
    )
    same(made, "SELECT lower(k), sum(price * qty) / count(*) AS v FROM t GROUP BY ALL")


def test_all_rows_are_one_group() -> None:
    sales = xs.from_arrow(SALES)
    made = sales.agg("n=count(*), total=sum(qty * 2)", (price > 1).sum().alias("dear"))
    same(made, "SELECT count(*) AS n, sum(qty * 2) AS total, sum((price > 1)::INT) AS dear FROM t")
    assert sales.aggregate(m="max(qty)").to_pydict() == {"m": [7]}
    assert sales.agg({"qty": "sum", "ok": ["count", "any"]}).to_pydict() == {
        "qty": [23],
        "ok_count": [6],
        "ok_any": [True],
    }
    assert sales.agg([qty.sum(), qty.max().alias("most")]).to_pydict() == {"qty": [23], "most": [7]}


def test_names_of_text() -> None:
    made = xs.from_arrow(SALES).agg('sum(qty * 2), max(qty) AS most, "the n" = count()')
    assert made.columns == ["sum(qty * 2)", "most", "the n"]
    odd = xs.from_pydict({"a*b": [1, 2], "a": [5, 5], "b": [7, 7]})
    assert odd.agg(v="sum(a*b)").to_pydict() == {"v": [3]}  # the column of this name
    assert odd.agg(v="sum(a * b)").to_pydict() == {"v": [70]}


KEYS: dict[str, tuple[Callable[[xs.Dataset], Any], str]] = {
    "text": (lambda d: d.group_by("year(ts)"), "year(ts)"),
    "an object": (lambda d: d.group_by(x("ts").dt.year().alias("y")), "year(ts) AS y"),
    "an object, by the name of its column": (lambda d: d.group_by(qty % 2), "qty % 2 AS qty"),
    "by name": (
        lambda d: d.group_by(y="year(ts)", low=x("k").str.lower()),
        "year(ts) AS y, lower(k) AS low",
    ),
    "beside columns": (lambda d: d.group_by("k", ["ok"], m="month(ts)"), "k, ok, month(ts) AS m"),
    "a column in quotes": (lambda d: d.group_by('"k"'), "k"),
    "a constant": (lambda d: d.group_by(one="1"), "1 AS one"),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_groups(name: str) -> None:
    grouped, sql = KEYS[name]
    made = grouped(xs.from_arrow(SALES)).agg(n="count", total=("qty", "sum"), twice="sum(qty * 2)")
    same(made, f"SELECT {sql}, count(*) AS n, sum(t.qty) AS total, sum(t.qty * 2) AS twice FROM t"  # noqa: S608
         f" GROUP BY {', '.join(part.split(' AS ')[0] for part in sql.split(', '))}")  # fmt: skip


def test_functions_of_groups_by_expressions() -> None:
    sales = xs.from_arrow(SALES).select("qty", "ts")
    made = sales.group_by(y="year(ts)").map_groups(lambda t: t.slice(0, 1))
    assert sorted(made.to_pydict()["y"]) == [2020, 2021, 2022]
    with pytest.raises(ExoshuffleError, match="the key 'ts' would hide a column from the function"):
        sales.group_by(x("ts").dt.year()).map_groups(lambda t: t)


ORDERS: dict[str, tuple[Callable[[xs.Dataset], xs.Dataset], str]] = {
    "text": (lambda d: d.sort("lower(k)"), "lower(k) NULLS LAST"),
    "an object": (lambda d: d.sort(-qty), "-qty NULLS LAST"),
    "several": (
        lambda d: d.sort("lower(k)", qty % 3, "ts", descending=[True, False, True]),
        "lower(k) DESC NULLS LAST, qty % 3 NULLS LAST, ts DESC",
    ),
    "a list and more": (lambda d: d.sort(["k", "ok"], "qty"), "k NULLS LAST, ok NULLS LAST, qty"),
    "places of nulls": (
        lambda d: d.sort(["k", "qty + 1"], nulls_last=[False, True]),
        "k NULLS FIRST, qty + 1 NULLS LAST",
    ),
    "directions as in Ray Data": (lambda d: d.sort("qty + 1", True), "qty DESC NULLS LAST"),
    "twice": (lambda d: d.sort("qty + 1", "qty + 1", "k"), "qty + 1 NULLS LAST, k NULLS LAST"),
    "the first": (lambda d: d.top_k(3, "qty * 2"), "qty DESC NULLS LAST LIMIT 3"),
    "the first of a sort": (lambda d: d.sort(qty * 2).limit(3), "qty NULLS LAST LIMIT 3"),
    "in commas": (lambda d: d.sort("round(qty, 2)"), "qty NULLS LAST"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders(name: str) -> None:
    call, order = ORDERS[name]
    numbered = SALES.append_column("row", pa.array(range(8)))
    with duck(t=numbered) as database:
        sql, limit, rows = f"SELECT * FROM t ORDER BY {order}".partition(" LIMIT")  # noqa: S608
        wanted = database.sql(f"{sql}, row{limit}{rows}").to_arrow_table()
    made = call(xs.from_arrow(numbered))
    assert made.columns == wanted.column_names
    assert made.to_pydict()["row"] == wanted["row"].to_pylist()


def test_the_first_rows_of_a_sort_by_an_expression_travel_alone() -> None:
    made = xs.from_arrow(SALES).sort("lower(k)").limit(2)
    assert made.explain().operator == "top_k"


REFUSED: dict[str, tuple[Callable[[xs.Dataset], object], str]] = {
    "no aggregate": (lambda d: d.agg(v="lower(k)"), "asks for 'lower', which is none of all, any"),
    "no aggregate in more": (
        lambda d: d.agg(v="lower(k) || 'x'"),
        "aggregate 'v' is .*, which aggregates nothing; write one of all, any",
    ),
    "a column beside": (
        lambda d: d.group_by("k").agg(v="sum(qty) / price"),
        r"'price' is neither a key nor within an aggregate; write first\(price\)",
    ),
    "an aggregate in another": (
        lambda d: d.agg(v="sum(max(qty))"),
        "an aggregate is in another; group by the result of the inner one",
    ),
    "another function of rows": (
        lambda d: d.agg(v="string_agg(k, ',')"),
        "there is no aggregate 'string_agg' among",
    ),
    "an unknown column": (lambda d: d.agg(v="sum(prize * 2)"), "there is no column 'prize'"),
    "an unknown column alone": (lambda d: d.agg(v="sum(prize)"), "there is no column 'prize'"),
    "distinct of sums": (lambda d: d.agg(v="sum(DISTINCT qty)"), r"sum has no DISTINCT; call"),
    "an order": (lambda d: d.agg(v="list(k ORDER BY ts)"), "ORDER BY stands within list; sort the"),
    "a filter of lists": (
        lambda d: d.agg(v="list(k) FILTER (WHERE ok)"),
        "list keeps nulls, so it",
    ),
    "no argument": (lambda d: d.agg(v="sum()"), "sum needs a column"),
    "a parameter of words": (
        lambda d: d.agg(v="quantile(qty, half)"),
        "parameter 'half' in 'quantile.*is not a number",
    ),
    "two statements": (lambda d: d.agg(v="sum(qty); SELECT 1"), "it must be one expression"),
    "a function's name alone": (
        lambda d: d.agg(qty="sum"),
        r"aggregate 'qty' is 'sum'; write \(column, 'sum'\), or \{column: 'sum'\}",
    ),
    "no name": (lambda d: d.agg(xs.lit(1).sum()), "without a name; add .alias"),
    "an aggregate as key": (lambda d: d.group_by(qty.sum()), "group_by got the aggregate sum"),
    "an aggregate as order": (lambda d: d.sort(qty.sum()), "by got the aggregate sum"),
    "two keys of one name": (
        lambda d: d.group_by(x("ts").dt.year(), x("ts").dt.month()),
        "group_by would give two keys the name 'ts'; add .alias",
    ),
    "a key that sees other rows": (lambda d: d.group_by("sum(qty)"), r"sum\(\) sees other rows"),
    "an order that is none": (lambda d: d.sort("lower(k"), "cannot read expression 'lower.k'"),
    "an order of unknown columns": (lambda d: d.sort("lower(kk)"), "there is no column 'kk'"),
    "estimates of a ratio": (
        lambda d: d.agg(v="sum(qty) / count(*)").stream(),
        "stream estimates aggregates, and no expressions of several; give each aggregate a column",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(ExoshuffleError, match=words) as caught:
        call(xs.from_arrow(SALES))
    assert "\n" not in str(caught.value)


def test_estimates_of_aggregates_of_expressions() -> None:
    grouped = xs.from_arrow(SALES).group_by(y="year(ts)").agg(v="sum(qty * 2)")
    *_, last = grouped.stream(seed=1)
    assert sorted(last.table["v"].to_pylist()) == sorted(grouped.to_pydict()["v"])
