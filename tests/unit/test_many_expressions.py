"""Many expressions are read, typed and computed together, and are what each of them is alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError, SchemaError
from exoshuffle.operators.sql import databases, evaluation, parsing, syntax, types
from exoshuffle.operators.sql.evaluation import evaluated
from exoshuffle.operators.sql.parsing import parse_expression, parse_expressions

MOMENT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
TABLE = pa.table(
    {
        "x": [3, 1, None],
        "Y": [1.5, -0.0, 2.0],
        "s": ["a,b", "", None],
        "l": [[1, 2], [], None],
        "took": pa.array([1, 2, 3], pa.duration("s")),
        "ms": pa.array([1, 2, 3], pa.duration("ms")),
        "t": pa.array([1000, 2000, None], pa.time64("ns")),
        "there": pa.array([MOMENT] * 3, pa.timestamp("us", "America/New_York")),
        "here": pa.array([MOMENT] * 3, pa.timestamp("us", "UTC")),
        "d": pa.array(["u", "v", "u"]).dictionary_encode(),
    }
)
TEXTS = [
    *("x + 1", "x", "x > 2", "y * 2", '"Y" * 2', "x + 1", "upper(s)", "split_part(s, ',', 2)"),
    *(
        "repeat(s, 3)",
        "list_transform(l, lambda v: v + x)",
        "took < ms",
        "took > interval 1 second",
    ),
    *(
        "hour(there)",
        "hour(here)",
        "t < time '00:00:01'",
        "d || s",
        "1",
        "null",
        "case when x > 1 then s end",
    ),
    *("x -- a comment", "(x)", "here = there"),
]


def setup_function() -> None:
    """Forgets what tests before have read."""
    parsing._known._kept.clear()
    parsing._typed.clear()
    syntax._trees.clear()


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[object]:
    """Returns a list to which each call of a function adds."""
    calls: list[object] = []
    inner: Callable[..., Any] = getattr(module, name)

    def counting(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return inner(*args, **kwargs)

    monkeypatch.setattr(module, name, counting)
    return calls


def test_they_are_what_each_is_alone() -> None:
    together = parse_expressions(TEXTS, TABLE.schema)
    values = [column for _, columns in evaluated(together, TABLE) for column in columns]
    setup_function()
    for text, found, value in zip(TEXTS, together, values, strict=True):
        alone = parse_expression(text, TABLE.schema)
        assert found == alone, text
        [(_, [computed])] = list(evaluated([alone], TABLE))
        assert computed.equals(value) or str(computed) == str(value), text


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ("sum(x)", SchemaError, "sees other rows"),
        ("nowhere + 1", SchemaError, "no column 'nowhere'"),
        ("x +", SchemaError, "cannot read expression"),
        ("x + date '2020-01-01' + s", SchemaError, "does not fit"),
        ("1; drop table t", SchemaError, "it must be one expression"),
        ("  ", SchemaError, "it is empty"),
        (7, OptionsError, "an expression is 7"),
    ],
)
def test_one_that_does_not_fit_is_named(wrong: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        parse_expressions(["x + 1", wrong, "x + 2"], TABLE.schema)
    assert [each.type for each in parse_expressions(["x + 1", "x + 2"], TABLE.schema)] == [
        pa.int64()
    ] * 2


def test_columns_whose_names_differ_in_case_alone() -> None:
    """No query of DuckDB knows them apart; each of these expressions reads one of them."""
    table = pa.table([[1, 2], ["u", "v"], [5, 6]], names=["a", "A", "b"])
    made = parse_expressions(["a + 1", 'upper("A")', "b * 2", '"A" || b'], table.schema)
    values = [column.to_pylist() for _, columns in evaluated(made, table) for column in columns]
    assert values == [[2, 3], ["U", "V"], [10, 12], ["u5", "v6"]]


def test_few_queries_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query for each took 12 ms of 3,000 columns."""
    typed, read = counted(monkeypatch, types, "types_of"), counted(monkeypatch, syntax, "_answers")
    schema = pa.schema([(f"c{n}", pa.int64()) for n in range(1000)])
    texts = [f"c{n} * 2 + {n}" for n in range(1000)]
    assert [each.columns for each in parse_expressions(texts, schema)] == [
        (f"c{n}",) for n in range(1000)
    ]
    assert len(typed) == len(read) == 4
    parse_expressions(texts, schema)
    assert len(typed) == len(read) == 4


def test_an_expression_is_typed_once_whether_or_not_columns_have_nulls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files say that a column has none, and the rows of a query do not."""
    typed = counted(monkeypatch, parsing, "typed")
    for nullable in (True, False):
        schema = pa.schema([pa.field("x", pa.int64(), nullable, {"PARQUET:field_id": "1"})])
        assert parse_expression("x + 1", schema).type == pa.int64()
    assert len(typed) == 1


@pytest.mark.usefixtures("engine")
def test_many_are_computed_for_many_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB found no memory for 3,000 in one query, and rows were computed one by one."""
    alone = counted(monkeypatch, evaluation, "_of_one_row")
    numbers = list(range(1000))
    columns = {f"c{n}": numbers for n in range(3000)}
    made = xs.from_arrow(pa.table(columns)).with_columns(
        **{name: f"{name} * 2 + 1" for name in columns}
    )
    table = made.to_arrow()
    assert all(column.to_pylist() == list(range(1, 2001, 2)) for column in table.columns[::500])
    assert not alone


def test_many_are_read_within_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB's words about its memory reached users of 500 such expressions within 300 MB."""
    monkeypatch.setattr(databases, "expression_bytes", lambda: databases.MIN_EXPRESSION_BYTES)
    texts = [f"nullif(split_part(s, '|', {number}), '')::integer" for number in range(1, 1200)]
    syntax.read_ahead(texts)
    answers = counted(monkeypatch, syntax, "_answered")
    assert [syntax.text_of(syntax.parse(text)) for text in texts[::400]] == [
        f"CAST(\"nullif\"(split_part(s, '|', {number}), '') AS INTEGER)" for number in (1, 401, 801)
    ]
    assert len(answers) == 3


def test_many_are_typed_within_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "expression_bytes", lambda: databases.MIN_EXPRESSION_BYTES)
    texts = [f"nullif(split_part(s, '|', {number}), '')::integer" for number in range(1, 500)]
    queries = counted(monkeypatch, types, "types_of")
    made = parse_expressions(texts, TABLE.schema)
    assert {each.type for each in made} == {pa.int32()}
    assert 1 < len(queries) < 20


def test_their_types_are_found_without_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query was optimized and run for them: of 500 such expressions that took 1.4 s of CPU time."""
    planned = counted(monkeypatch, types, "select")
    made = parse_expressions(["x + 1", "'a'", "null", "s::decimal(9, 2)", "{'a': x}"], TABLE.schema)
    nested = pa.struct([("a", pa.int64())])
    assert [each.type for each in made] == [
        *(pa.int64(), pa.string(), pa.null(), pa.decimal128(9, 2), nested)
    ]
    assert not planned


def test_numbers_are_made_of_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten numbers of each row take ten times as much as the rows; one takes no more, so it is made of all at once."""
    monkeypatch.setattr(evaluation, "expression_bytes", lambda: 400_000)
    table = pa.table({"x": range(50_000)})
    made = parse_expressions([f"x + {number}" for number in range(10)], table.schema)
    parts = list(evaluated(made, table))
    assert [rows.num_rows for rows, _ in parts] == [5_000] * 10
    for number in range(10):
        found = [value for _, values in parts for value in values[number].to_pylist()]
        assert found == list(range(number, 50_000 + number))
    assert [rows.num_rows for rows, _ in evaluated(made[:1], table)] == [50_000]


def test_one_is_typed_once_for_all_schemas_with_its_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps pass columns on under their names, so each expression of a tree meets many schemas."""
    typings = counted(monkeypatch, parsing, "typed")
    found = parse_expression("X * 2 + length(s)", TABLE.schema)
    for names in (["x", "s"], ["x", "Y", "s"], ["x", "s", "d"]):
        assert parse_expression("X * 2 + length(s)", TABLE.select(names).schema) == found
    assert len(typings) == 1


def test_one_is_typed_again_for_columns_of_other_types_and_orders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typings = counted(monkeypatch, parsing, "typed")
    a, b = pa.field("a", pa.int8()), pa.field("b", pa.int8())
    others = [pa.schema(fields) for fields in ([a, b], [b, a], [a, b.with_type(pa.float64())])]
    found = [parse_expression("a + b", schema) for schema in others]
    assert [one.columns for one in found] == [("a", "b"), ("b", "a"), ("a", "b")]
    assert [one.type for one in found] == [pa.int8(), pa.int8(), pa.float64()]
    assert len(typings) == 3


def test_those_that_were_typed_together_are_not_typed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parse_expressions(["x + 1", "x + 2"], TABLE.schema)
    typings = counted(monkeypatch, parsing, "typed")
    assert parse_expression("x + 1", TABLE.select(["x", "s"]).schema).columns == ("x",)
    assert not typings


def test_a_name_that_another_schema_makes_unclear_is_refused_there() -> None:
    parse_expression("A + 1", pa.schema([("a", pa.int64())]))
    two = pa.schema([("a", pa.int64()), ("aA", pa.int64()), ("Aa", pa.int64())])
    assert parse_expression("A + 1", two).columns == ("a",)
    with pytest.raises(SchemaError, match="no column 'AA'"):
        parse_expression("AA + 1", two)
    with pytest.raises(SchemaError, match="no column 'A'"):
        parse_expression("A + 1", pa.schema([("b", pa.int64())]))
