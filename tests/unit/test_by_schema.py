"""Values that are kept by schema."""

from __future__ import annotations

import pyarrow as pa
import pytest

from exoshuffle.operators.sql.by_schema import BySchema
from exoshuffle.operators.sql.parsing import all_columns, column
from exoshuffle.operators.steps import columns
from exoshuffle.operators.steps.columns import Drop, Select


def test_a_value_is_made_once_for_equal_schemas() -> None:
    made: list[pa.Schema] = []

    def name_of_first(schema: pa.Schema) -> str:
        made.append(schema)
        return str(schema.names[0])

    kept = BySchema(name_of_first, 3)
    schemas = [
        pa.schema([("a", pa.int64())]),
        pa.schema([pa.field("a", pa.int64(), nullable=False)]),
        pa.schema([("a", pa.int64())], {"k": "x" * 1000 + "1"}),
    ]
    assert [kept(pa.schema(list(one), one.metadata)) for one in (*schemas, *schemas)] == ["a"] * 6
    assert made == schemas
    # The beginnings of long metadata are the same.
    kept(pa.schema([("a", pa.int64())], {"k": "x" * 1000 + "2"}))
    assert made[3].metadata == {b"k": b"x" * 1000 + b"2"}


def test_no_more_schemas_are_kept_than_allowed() -> None:
    made: list[str] = []
    kept = BySchema(lambda schema: made.append(schema.names[0]), 2)
    for name in "abacab":
        kept(pa.schema([(name, pa.int64())]))
    assert made == ["a", "b", "c", "a", "b"]


def test_steps_make_no_column_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(100)])
    all_columns(schema)

    def again(name: str, schema: pa.Schema) -> None:
        raise AssertionError(f"{name} is made again of {len(schema)} columns")

    monkeypatch.setattr(columns, "column", again)
    assert Select(tuple(reversed(schema.names))).output_schema(schema).names == schema.names[::-1]
    assert set(Drop(()).computed(schema)) == set(schema.names)


def test_columns_of_one_name_are_refused_where_they_are_asked_for() -> None:
    twice = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("a", pa.int32())])
    assert Select(("b",)).output_schema(twice).names == ["b"]
    for read in (lambda: all_columns(twice), lambda: Select(("a",)).output_schema(twice)):
        with pytest.raises(Exception, match="'a'") as refused:
            read()
        with pytest.raises(type(refused.value)):
            column("a", twice)
