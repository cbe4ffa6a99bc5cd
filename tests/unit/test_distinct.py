"""The first row of every key is kept, whatever the types and however the input was split."""

from __future__ import annotations

import math
import pickle
import random
from typing import Any

import pyarrow as pa
import pytest

from exoshuffle.errors import OptionsError, SchemaError
from exoshuffle.operators import exact_keys
from exoshuffle.operators.distinct.distinct import parse_distinct
from exoshuffle.operators.sql import groups


def in_two_stages(table: pa.Table, subset: list[str] | None, part_rows: int) -> pa.Table:
    distinct = pickle.loads(pickle.dumps(parse_distinct(table.schema, subset)))  # noqa: S301  our own bytes
    parts = [table.slice(start, part_rows) for start in range(0, max(table.num_rows, 1), part_rows)]
    result = distinct.final(pa.concat_tables(distinct.partial(part.to_reader()) for part in parts))
    assert result.schema.equals(distinct.schema, check_metadata=True)
    result.validate(full=True)
    return result


def first_of_each(keys: list[Any]) -> list[int]:
    """Row numbers, by Python's own dictionary."""
    first: dict[Any, int] = {}
    for number, key in enumerate(keys):
        first.setdefault(key, number)
    return list(first.values())


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("part_rows", [7, 30, 1000])
def test_random_tables(seed: int, part_rows: int) -> None:
    rng = random.Random(seed)
    num_rows = rng.choice([0, 1, 40, 300])
    span = rng.choice([1, 5, 10**6])
    k = [rng.choice([None, rng.randint(0, span)]) for _ in range(num_rows)]
    j = [rng.choice([None, "", "a", "b"]) for _ in range(num_rows)]
    table = pa.table(
        {
            "k": pa.array(k, pa.int32()),
            "j": pa.array(j, pa.string()),
            "x": pa.array(range(num_rows), pa.int64()),
        }
    )
    assert in_two_stages(table, ["k"], part_rows)["x"].to_pylist() == first_of_each(k)
    both = list(zip(k, j, strict=True))
    assert in_two_stages(table, ["j", "k"], part_rows)["x"].to_pylist() == first_of_each(both)
    assert in_two_stages(table.select(["k", "j"]), None, part_rows).equals(
        table.select(["k", "j"]).take(pa.array(first_of_each(both), pa.int64()))
    )


def test_columns_pass_unchanged() -> None:
    table = pa.table(
        {
            "k": pa.array(["b", "a", "b"]).dictionary_encode(),
            "nested": pa.array(
                [[{"a": 1}], None, []], pa.list_(pa.struct([("a", pa.duration("ns"))]))
            ),
            "wide": pa.array([1, 2, 3], pa.decimal256(70, 3)),
            "view": pa.array(["x", None, "z"], pa.string_view()),
            "zone": pa.array([1, 2, 3], pa.timestamp("ns", "Europe/Berlin")),
        }
    )
    assert in_two_stages(table, ["k"], 2).equals(table.slice(0, 2))
    assert in_two_stages(table, ["k"], 3).equals(table.slice(0, 2))


def test_keys_are_equal_as_in_duckdb() -> None:
    table = pa.table({"k": [0.0, -0.0, math.nan, -math.nan, None, None, 1.0], "x": range(7)})
    assert in_two_stages(table, ["k"], 7)["x"].to_pylist() == [0, 2, 4, 6]


def test_maps_drop_rows_where_keys_repeat() -> None:
    # So many that DuckDB no longer has the groups in order by itself.
    num_keys, num_rows = 700_001, 1_200_000
    keys = pa.array([number * 7919 % num_keys for number in range(num_rows)])
    table = pa.table({"k": keys})
    distinct = parse_distinct(table.schema)
    assert distinct.partial(table).equals(table.slice(0, num_keys))


def test_maps_drop_nothing_where_keys_hardly_repeat() -> None:
    table = pa.table({"k": [*range(1000), 0]})
    distinct = parse_distinct(table.schema)
    assert distinct.partial(table).num_rows == 1001
    assert distinct.final(table).num_rows == 1000


@pytest.mark.parametrize("keys", [[1, 1, 2, 1], [1, 2, 3, 4, 5, 5]])
@pytest.mark.parametrize(("kind", "num_queries"), [(pa.float64(), 1), (pa.int64(), 0)], ids=str)
def test_few_rows_take_one_query_or_none(
    keys: list[int], kind: pa.DataType, num_queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow finds the first rows of integers."""
    queries: list[str] = []
    computed = groups.computed
    monkeypatch.setattr(
        groups, "computed", lambda sql, **tables: queries.append(sql) or computed(sql, **tables)
    )
    table = pa.table({"k": pa.array(keys, kind)})
    assert parse_distinct(table.schema).partial(table).num_rows in (2, 6)
    assert len(queries) == num_queries


@pytest.mark.parametrize("num_keys", [3, 9_000])
def test_rows_that_arrow_tells_apart_take_no_query(
    num_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB was asked whether the keys of 10,000 rows repeat."""
    monkeypatch.setattr(groups, "computed", None)
    table = pa.table({"k": [n % num_keys for n in range(10_000)]})
    expected = 3 if num_keys == 3 else 10_000
    assert parse_distinct(table.schema).partial(table).num_rows == expected


@pytest.mark.parametrize("names", [["t"], ["t", "i"], ["i", "b"], []])
@pytest.mark.parametrize("num_rows", [0, 1, 500])
def test_first_rows_by_arrow_are_those_of_duckdb(
    names: list[str], num_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = [number * 7919 % 31 for number in range(num_rows)]
    columns = {
        "t": pa.array([None if n % 5 == 0 else f"key {n}" for n in drawn], pa.string()),
        "i": pa.array([None if n % 7 == 0 else n for n in drawn], pa.int32()),
        "b": pa.array([n % 2 == 0 for n in drawn], pa.bool_()),
    }
    table = pa.concat_tables([pa.table(columns)] * 2)
    found = groups.first_rows(table, names)
    monkeypatch.setattr(exact_keys, "ARROW_ROWS", -1)
    assert found.to_pylist() == groups.first_rows(table, names).to_pylist()


def test_fewer_rows_than_keys_take_no_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "computed", None)
    table = pa.table({f"k{number}": [1, 1, 1] for number in range(3)})
    assert parse_distinct(table.schema).partial(table) is table


def test_long_strings() -> None:
    table = pa.table({"k": [letter * 1_000_000 for letter in "abcab"], "x": range(5)})
    assert in_two_stages(table, ["k"], 2)["x"].to_pylist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("subset", "error", "message"),
    [
        ([], OptionsError, "at least one column"),
        (["no"], SchemaError, "no column 'no'; the columns are 'k', 'wide'"),
        (["k", "k"], OptionsError, "'k' is named twice"),
        (["wide"], SchemaError, r"'wide' is decimal256.* cannot be a key"),
        (None, SchemaError, r"'wide' is decimal256.* cannot be a key"),
    ],
)
def test_wrong_arguments(subset: list[str] | None, error: type[Exception], message: str) -> None:
    schema = pa.schema([("k", pa.int64()), ("wide", pa.decimal256(60, 0))])
    with pytest.raises(error, match=message):
        parse_distinct(schema, subset)


def test_rows_that_do_not_repeat_are_not_copied() -> None:
    """A copy of each of them took a program with texts of 20 MB beyond its limit."""
    table = pa.table({"k": [2, 1, None], "s": ["b", "a", "c"]})
    assert parse_distinct(table.schema, ["k"]).final(table) is table
    again = pa.concat_tables([table, table])
    assert parse_distinct(table.schema, ["k"]).final(again).to_pydict() == table.to_pydict()
