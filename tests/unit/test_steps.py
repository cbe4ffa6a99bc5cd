"""Narrow steps: rows that stream through select, filter and their siblings."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exoshuffle.errors import InputError, SchemaError
from exoshuffle.operators import batches
from exoshuffle.operators.steps.columns import Drop, Filter, Nullable, Rename, Select, WithColumns
from exoshuffle.operators.steps.functions import MapBatches, conformed
from exoshuffle.operators.steps.step import Step, apply_steps, required_columns, steps_schema

TABLE = pa.table(
    {
        "a": pa.array([1, 2, None, 4, 5], pa.int16()),
        "view": pa.array(["x", "y", None, "z" * 20, ""], pa.string_view()),
        "items": [[1], None, [], [2, 3], [4]],
        "d": pa.array(["p", "q", "p", None, "q"]).dictionary_encode(),
        "bytes": pa.array([b"x", b"y", None, b"z", b""], pa.binary_view()),
    }
).replace_schema_metadata({"origin": "here"})


def run(*steps: Step, table: pa.Table = TABLE, batch_rows: int = 2) -> pa.Table:
    """The rows after the steps; checks that the schema is the one that was promised."""
    steps = pickle.loads(pickle.dumps(steps))  # noqa: S301  ours
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(batch_rows))
    made = apply_steps(steps, reader)
    assert made.schema.equals(steps_schema(steps, table.schema), check_metadata=True)
    made_batches = list(made)
    assert all(batch.num_rows for batch in made_batches)
    result = pa.Table.from_batches(made_batches, made.schema)
    result.validate(full=True)
    return result


def test_select() -> None:
    result = run(Select(("d", "a"), (("twice", "a * 2"), ("copy", "items"))))
    assert result.select(["d", "a", "copy"]).to_pydict() == {
        "d": TABLE.column("d").to_pylist(),
        "a": TABLE.column("a").to_pylist(),
        "copy": TABLE.column("items").to_pylist(),
    }
    assert result.column("twice").to_pylist() == [2, 4, None, 8, 10]
    assert result.schema.field("copy").type == TABLE.schema.field("items").type
    assert result.schema.metadata == {b"origin": b"here"}


def test_with_columns_sees_the_columns_as_they_were() -> None:
    result = run(WithColumns((("a", "a + 1"), ("old", "a"), ("one", "1"))))
    assert result.column_names == [*TABLE.column_names, "old", "one"]
    assert result.column("a").to_pylist() == [2, 3, None, 5, 6]
    assert result.column("old").to_pylist() == [1, 2, None, 4, 5]
    assert result.column("one").to_pylist() == [1] * 5
    assert result.schema.field("d") == TABLE.schema.field("d")


def test_columns_that_are_passed_through_are_not_copied() -> None:
    table = TABLE.select(["items"]).combine_chunks()
    result = run(WithColumns((("n", "len(items)"),)), Rename((("items", "list"),)), table=table)
    address = table.column("items").chunk(0).values.buffers()[1].address
    assert result.column("list").chunk(0).values.buffers()[1].address == address


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a > 1", [1, 3, 4]),
        ("a is null or d = 'p'", [0, 2]),
        ("a > 100", []),
        ("true", [0, 1, 2, 3, 4]),
        ("view like 'x%' or a = 5", [0, 4]),
    ],
)
def test_filter(condition: str, expected: list[int]) -> None:
    result = run(Filter(condition))
    for name in TABLE.column_names:
        values = TABLE.column(name).to_pylist()
        assert result.column(name).to_pylist() == [values[i] for i in expected]


def test_drop_and_rename() -> None:
    result = run(Drop(("items", "view")), Rename((("a", "d"), ("d", "a"))))
    assert result.column_names == ["d", "a", "bytes"]
    assert result.column("d").to_pylist() == TABLE.column("a").to_pylist()


def test_nullable() -> None:
    fields = [field.with_nullable(False) for field in TABLE.schema]
    strict = TABLE.slice(0, 1).cast(pa.schema(fields, TABLE.schema.metadata))
    result = run(Nullable(("a", "d")), table=strict)
    assert result.to_pydict() == strict.to_pydict()
    assert [field.name for field in result.schema if field.nullable] == ["a", "d"]
    assert required_columns([Nullable(("a",))], strict.schema, ["d"]) == ("d",)


def test_no_rows() -> None:
    steps = (Filter("a > 1"), WithColumns((("n", "a + 1"),)), Select(("n",)), MapBatches(identity))
    assert run(*steps, table=TABLE.slice(0, 0)).num_rows == 0
    assert run(Filter("a > 100"), *steps[1:]).num_rows == 0


@pytest.mark.keeps(
    "anon_inode:[event", "Polars starts threads for input and output, once in a process"
)
@settings(max_examples=40)
@given(
    values=st.lists(st.none() | st.integers(-50, 50), max_size=80),
    batch_rows=st.integers(1, 30),
    chunk_rows=st.integers(1, 40),
)
def test_any_batches_against_polars(
    values: list[int | None], batch_rows: int, chunk_rows: int
) -> None:
    table = pa.table({"a": pa.array(values, pa.int64()), "row": range(len(values))})
    steps = (WithColumns((("b", "a * 3"),)), Filter("b % 2 = 0 and row <> 3"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "CHUNK_ROWS", chunk_rows)
        result = run(*steps, table=table, batch_rows=batch_rows)
    frame = pl.DataFrame(table).with_columns(b=pl.col("a") * 3)
    expected = frame.filter((pl.col("b") % 2 == 0) & (pl.col("row") != 3))
    assert result.to_pydict() == expected.to_dict(as_series=False)


def test_rows_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    # When the first row comes out, no more than a chunk has gone in.
    monkeypatch.setattr(batches, "CHUNK_ROWS", 10)
    taken = 0

    def many() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for taken in range(1, 1001):
            yield pa.record_batch({"a": pa.array([taken, -taken], pa.int64())})

    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), many())
    steps = (Filter("a > 0"), WithColumns((("b", "a + 1"),)), Select(("b",)), MapBatches(identity))
    made = apply_steps(steps, reader)
    assert taken == 0
    assert made.read_next_batch().to_pydict() == {"b": [2]}
    assert taken <= 60


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (Select(()), "select needs at least one column"),
        (Select(("x",)), "there is no column 'x'; the columns are 'a'"),
        (Select(("a",), (("a", "1"),)), "select would give two columns the name 'a'"),
        (Select((), (("n", "sum(a)"),)), r"sum\(\) sees other rows"),
        (WithColumns((("n", "x"),)), "there is no column 'x'"),
        (WithColumns((("n", "1"), ("n", "2"))), "two columns the name 'n'"),
        (Filter("a + 1"), "filter 'a [+] 1' is int16; it must be true or false"),
        (Drop(("x",)), "there is no column 'x'"),
        (Drop(tuple(TABLE.column_names)), "drop leaves no column"),
        (Rename((("x", "y"),)), "there is no column 'x'"),
        (Rename((("a", "d"),)), "rename would give two columns the name 'd'"),
        (Rename((("a", "x"), ("a", "y"))), "rename would give two columns the name 'a'"),
    ],
)
def test_steps_that_do_not_fit(step: Step, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        step.output_schema(TABLE.schema)


def test_a_value_that_does_not_fit_while_running() -> None:
    with pytest.raises(InputError, match="cannot compute 'view::int'"):
        run(WithColumns((("n", "view::int"),)))


@pytest.mark.parametrize(
    ("steps", "needed", "expected"),
    [
        ([], ["d"], ["d"]),
        ([Filter("a > 3")], ["d"], ["a", "d"]),
        ([Select(("d",), (("n", "a + 1"),))], ["d"], ["a", "d"]),
        ([WithColumns((("n", "len(items)"),))], ["n"], ["items"]),
        ([WithColumns((("d", "a"),))], ["d"], ["a", "d"]),
        ([Rename((("a", "d"), ("d", "a"))), Filter("a = 'p'")], ["a"], ["d"]),
        ([Drop(("items",)), Rename((("a", "items"),))], ["items"], ["a"]),
        ([Select((), (("one", "1"),))], None, ["a"]),
    ],
)
def test_columns_that_are_read(
    steps: list[Step], needed: list[str] | None, expected: list[str]
) -> None:
    columns = required_columns(steps, TABLE.schema, needed)
    assert list(columns) == expected
    # The steps work on these columns alone and make the same of them.
    some, whole = (
        apply_steps(steps, table.to_reader()).read_all() for table in (TABLE.select(columns), TABLE)
    )
    names = needed or whole.column_names
    assert some.select(names).to_pydict() == whole.select(names).to_pydict()
    assert [name for name in whole.column_names if name in some.column_names] == some.column_names


def test_map_batches_may_read_all_columns() -> None:
    assert required_columns([MapBatches(doubled)], TABLE.schema, ["a"]) == tuple(TABLE.column_names)


# --- functions for map_batches -----------------------------------------------------------------------------------


def identity(table: pa.Table) -> pa.Table:
    return table


def doubled(table: pa.Table) -> dict[str, Any]:
    return {"a": pc.multiply(table.column("a"), 2), "n": pa.array([7] * table.num_rows, pa.int8())}


def one_batch(table: pa.Table) -> pa.RecordBatch:
    return pa.record_batch({"rows": pa.array([table.num_rows])})


def python_lists(table: pa.Table) -> dict[str, list[int]]:
    return {"n": [0] * table.num_rows}


def changes_its_mind(table: pa.Table) -> pa.Table:
    names = ["a", "b"] if table.num_rows == 1 else ["a"]
    return pa.table({name: pa.array([1] * table.num_rows, pa.int64()) for name in names})


def fails_late(table: pa.Table) -> pa.Table:
    if table.num_rows == 1:
        raise ZeroDivisionError("the user's own")
    return table


def test_map_batches() -> None:
    result = run(MapBatches(doubled))
    assert result.to_pydict() == {"a": [2, 4, None, 8, 10], "n": [7] * 5}
    assert run(MapBatches(identity)).equals(TABLE)
    assert run(MapBatches(one_batch)).column("rows").to_pylist() == [2, 2, 1]


def test_a_schema_gives_lists_their_type() -> None:
    schema = pa.schema([("n", pa.int8())])
    assert run(MapBatches(python_lists, schema)).schema == schema


@pytest.mark.parametrize(
    ("function", "schema", "message"),
    [
        (
            python_lists,
            None,
            r"for a table without rows python_lists returned 'n' without a type; give schema=",
        ),
        (
            changes_its_mind,
            None,
            r"batch 3 came back with \(a: int64, b: int64\); expected were \(a: int64\)",
        ),
        (
            identity,
            pa.schema([("a", pa.int64())]),
            "batch 1 came back with .a: int16, .*; expected were .a: int64",
        ),
        (len, None, "the function returned int; return a pyarrow Table"),
        (
            lambda table: {"a": [None] * table.num_rows},
            pa.schema([pa.field("a", pa.int8(), nullable=False)]),
            "batch 1 came back with nulls in 'a'",
        ),
        (lambda _: {"a": 1}, None, "a dictionary that is not one of columns"),
        (lambda _: {"a": [1], "b": [1, 2]}, None, "a dictionary that is not one of columns"),
    ],
)
def test_map_batches_that_return_something_else(
    function: Callable[..., Any], schema: pa.Schema | None, message: str
) -> None:
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(2))
    with pytest.raises(SchemaError, match=message):
        MapBatches(function, schema).apply(reader).read_all()


def test_a_batch_with_the_promised_schema_is_handed_on_as_it_is() -> None:
    assert conformed(TABLE, TABLE.schema, 1) is TABLE
    without_metadata = TABLE.replace_schema_metadata(None)
    assert conformed(without_metadata, TABLE.schema, 1).equals(TABLE, check_metadata=True)


def test_nulls_are_refused_though_the_batch_has_the_promised_schema() -> None:
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False)])
    table = pa.Table.from_arrays([pa.array([1, None], pa.int8())], schema=schema)
    with pytest.raises(SchemaError, match="batch 7 came back with nulls in 'a'"):
        conformed(table, schema, 7)


@pytest.mark.parametrize("is_given", [False, True])
@pytest.mark.parametrize(
    ("names", "message"),
    [([], "no column, and so no rows; return at least one"), (["a", "b", "a"], "the name 'a'")],
)
def test_map_batches_with_names_that_cannot_be(
    names: list[str], message: str, is_given: bool
) -> None:
    def made(table: pa.Table) -> pa.Table:
        return pa.table([pa.array([1] * table.num_rows, pa.int64()) for _ in names], names=names)

    schema = pa.schema([(name, pa.int64()) for name in names]) if is_given else None
    with pytest.raises(SchemaError, match=message):
        MapBatches(made, schema).resolved(TABLE.schema)


def test_exceptions_of_a_function_pass_through() -> None:
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(2))
    with pytest.raises(ZeroDivisionError, match="the user's own") as caught:
        MapBatches(fails_late).apply(reader).read_all()
    assert caught.traceback[-1].name == "fails_late"
    assert caught.value.__notes__ == [
        "map_batches called fails_late with the batch number 3 of 1 row"
    ]
