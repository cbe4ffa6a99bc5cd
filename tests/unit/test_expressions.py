"""SQL expressions: what they read, what type they have, and what is refused."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest

from exoshuffle.errors import InputError, SchemaError
from exoshuffle.operators.sql import parsing
from exoshuffle.operators.sql.evaluation import evaluated
from exoshuffle.operators.sql.parsing import column, parse_expression
from exoshuffle.operators.sql.relational import query

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("Name", pa.large_string()),
        ("d", pa.dictionary(pa.int32(), pa.string())),
        ("s", pa.struct([("x", pa.int32())])),
        ("items", pa.list_(pa.int64())),
        ("took", pa.duration("s")),
        ("q", pa.int8()),
        ("Q", pa.int8()),
        ("wide", pa.decimal256(60, 2)),
        ("json", pa.string()),
        ("exoshuffle rows", pa.int8()),
    ]
)


@pytest.mark.parametrize(
    ("text", "columns", "kind"),
    [
        ("a % 7", ["a"], pa.int64()),
        ("A + q", ["a", "q"], pa.int64()),
        ("lower(name)", ["Name"], pa.string()),
        ("d || 'x'", ["d"], pa.string()),
        ("s.x", ["s"], pa.int32()),
        ("took + 1", ["took"], pa.int64()),
        ('"exoshuffle rows" = 1', ["exoshuffle rows"], pa.bool_()),
        ("[x + a for x in items]", ["a", "items"], None),
        ("json -> '$.a'", ["json"], pa.string()),
        ("case when a < 0 then error('negative') else a end", ["a"], pa.int64()),
        ("1", [], pa.int32()),
        ("a -- the key", ["a"], pa.int64()),
    ],
)
def test_columns_and_types(text: str, columns: list[str], kind: pa.DataType | None) -> None:
    expression = parse_expression(text, SCHEMA)
    assert list(expression.columns) == columns
    assert kind in (None, expression.type)


@pytest.mark.parametrize("text", ["d", "Name", '"wide"', "NAME", "wide /* all of it */"])
def test_a_column_is_passed_through(text: str) -> None:
    expression = parse_expression(text, SCHEMA)
    assert expression.is_column
    assert expression.type == SCHEMA.field(expression.columns[0]).type


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b + 1", "there is no column 'b'; the columns are 'a', 'Name'"),
        ("t.a", "there is no column 't'"),
        ("rowid", "there is no column 'rowid'"),
        ("current_date", "there is no column 'current_date'"),
        ("q + Q", "differ only in case; rename one"),
        ("a +", "cannot read expression"),
        ("", "cannot read expression"),
        ("a, q", "must be one expression"),
        ("a as b", "must be one expression"),
        ("a from other --", "must be one expression"),
        ("a where a > 3", "must be one expression"),
        ("a limit 1", "must be one expression"),
        ("a union select 1", "must be one expression"),
        ("distinct a", "must be one expression"),
        ("a; select 1", "must be one expression"),
        ("a; drop table t", "must be one expression"),
        ("a; pragma version", "must be one expression"),
        ("a) from t; select (1", "cannot read expression"),
        ("*", "several columns"),
        ("columns('a')", "several columns"),
        ("#1", "has no number"),
        ("$1", "no values for parameters"),
        ("sum(a)", r"sum\(\) sees other rows; use group_by"),
        ("count(*)", "sees other rows"),
        ("a - max(a) filter (a > 1)", "sees other rows"),
        ("row_number() over ()", "sees other rows"),
        ("(select 1)", "subquery"),
        ("a in (select a from exoshuffle_rows)", "subquery"),
        ("unnest(items)", "number of rows; use map_batches"),
        ("random() < 0.1", "another value each time"),
        ("now()", "another value each time"),
        ("age(timestamp '2020-01-01')", "counts to today; give it both moments"),
        ("nosuch(a)", "Catalog Error: Scalar Function with name nosuch does not exist"),
        ("a + name", "Binder Error: No function matches"),
        ("s.y", "does not fit: Binder Error"),
        ("wide + 1", "column 'wide' is decimal256"),
        ("union_value(k := a)", "union.*files cannot hold; cast it"),
        ("[1::bignum]", "files cannot hold; cast it"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        parse_expression(text, SCHEMA)
    assert "\n" not in str(caught.value)


def test_values() -> None:
    table = pa.table(
        {
            "a": [1, None, 3],
            "d": pa.array(["x", "y", None]).dictionary_encode(),
            "wide": pa.array([decimal.Decimal(1)] * 3, pa.decimal256(60, 2)),
        }
    )
    texts = ["a * 2", "d", "upper(d)", "7", "wide"]
    expressions = [parse_expression(text, table.schema) for text in texts]
    [(_, values)] = evaluated(expressions, table)
    assert [column.type for column in values] == [expression.type for expression in expressions]
    assert [column.to_pylist() for column in values] == [
        [2, None, 6],
        ["x", "y", None],
        ["X", "Y", None],
        [7, 7, 7],
        [decimal.Decimal(1)] * 3,
    ]
    assert values[1].equals(table.column("d"))


def test_many_rows_keep_their_order() -> None:
    table = pa.table({"a": range(300_000)})
    [(_, [values])] = evaluated([parse_expression("a + 0", table.schema)], table)
    assert values.equals(table.column("a"))


def test_a_value_that_cannot_be_computed_with() -> None:
    table = pa.table({"s": ["1", "x"]})
    expression = parse_expression("s::int", table.schema)
    with pytest.raises(
        InputError, match=r"cannot compute 's::int' where s is 'x': .*try_cast\(\)"
    ) as caught:
        list(evaluated([expression], table))
    assert "\n" not in str(caught.value)


def test_a_column_is_found_without_the_list_of_all_names() -> None:
    """Names of 3,000 columns, listed for each of them, took half of the time of a group-by of all."""
    schema = pa.schema([("x", pa.int64()), ("y", pa.string())])

    class WithoutNames:
        get_field_index = schema.get_field_index
        field = schema.field

    found = column("y", WithoutNames())
    assert (found.text, found.columns, found.type) == ("y", ("y",), pa.string())
    with pytest.raises(SchemaError, match="there is no column 'z'; the columns are 'x', 'y'"):
        column("z", schema)


def test_hundreds_of_expressions_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps ask for all of theirs in turn, so that a cache with room for fewer keeps none of them."""
    texts = [f"a + {number}" for number in range(300)]
    expressions = [parse_expression(text, SCHEMA) for text in texts]
    monkeypatch.delattr(parsing.syntax, "parse")
    assert [parse_expression(text, SCHEMA) for text in texts] == expressions


def test_plain_functions_are_those_of_one_row() -> None:
    """Nobody asks DuckDB about them; this does."""
    known = parsing._known_functions()
    assert not parsing.PLAIN_FUNCTIONS & (known.of_rows | known.unstable)
    assert not parsing.PLAIN_FUNCTIONS & {"age", "unnest", *parsing._WINDOW_FUNCTIONS}
    rows = query("SELECT DISTINCT function_name FROM duckdb_functions()").read_all()
    assert {*rows.column(0).to_pylist()} >= parsing.PLAIN_FUNCTIONS


def test_plain_functions_need_no_look_at_all_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(parsing, "_known_functions")
    schema = pa.schema([("moment", pa.timestamp("us")), ("word", pa.string())])
    text = "extract(year from moment) + length(substring(word, 1, 2)) + 77"
    assert parse_expression(text, schema).columns == ("moment", "word")
