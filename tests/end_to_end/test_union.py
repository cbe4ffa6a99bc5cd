"""Unions of datasets whose columns differ in whether they can be null: the rows are those of DuckDB's UNION ALL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import SchemaError
from tests.support.duck import duck

KEYS = pa.table({"k": [1, 2, 3, 4]})
#: Nothing of it can be null.
REQUIRED = pa.table(
    {"k": [2, 4, 6], "name": ["two", "four", "six"]},
    schema=pa.schema(
        [pa.field("k", pa.int64(), nullable=False), pa.field("name", pa.string(), nullable=False)]
    ),
)
#: The rows of a left join of the two, and then the right side again.
SQL = "SELECT k, name FROM keys LEFT JOIN required USING (k) UNION ALL SELECT k, name FROM required"

#: Operations on the union: all without order, which each has in its own way.
USES: dict[str, Callable[[xs.Dataset], xs.Dataset]] = {
    "as it is": lambda both: both,
    "sorted": lambda both: both.sort("k"),
    "one column": lambda both: both.select("name", "k").filter("k > 0").select("k", "name"),
    "sampled": lambda both: both.sample(100),
    "shuffled": lambda both: both.random_shuffle(1, num_partitions=3),
}


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*table.to_pydict().values(), strict=True), key=repr)


@pytest.fixture
def sides(tmp_path: Path, engine: LocalEngine) -> tuple[xs.Dataset, xs.Dataset]:
    """A join, whose names can be null, and a file where nothing can."""
    del engine
    for name, table in (("keys", KEYS), ("required", REQUIRED)):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "in.parquet")
    required = xs.read_parquet(tmp_path / "required")
    return xs.read_parquet(tmp_path / "keys").join(required, on="k", how="left"), required


@pytest.fixture(scope="module")
def expected() -> pa.Table:
    with duck(keys=KEYS, required=REQUIRED) as connection:
        return connection.sql(SQL).to_arrow_table()


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("turned", [False, True])
def test_rows_of_a_join_and_of_required_columns(
    name: str, turned: bool, sides: tuple[xs.Dataset, xs.Dataset], expected: pa.Table
) -> None:
    first, second = reversed(sides) if turned else sides
    assert not first.schema.equals(second.schema)
    both = USES[name](first.union(second))
    result = both.to_arrow()
    assert both.schema.field("name").nullable
    assert result.schema.equals(both.schema)
    result.validate(full=True)
    assert rows(result) == rows(expected)


def test_columns_that_no_side_has_nulls_in_stay_required(
    sides: tuple[xs.Dataset, xs.Dataset], tmp_path: Path
) -> None:
    _, required = sides
    both = required.union(required)
    assert both.schema.equals(required.schema)
    both.write_parquet(tmp_path / "out")
    assert not pq.read_schema(next((tmp_path / "out").glob("*.parquet"))).field("k").nullable


@pytest.mark.parametrize("turned", [False, True])
def test_written_to_files(
    turned: bool, sides: tuple[xs.Dataset, xs.Dataset], expected: pa.Table, tmp_path: Path
) -> None:
    first, second = reversed(sides) if turned else sides
    first.union(second).write_parquet(tmp_path / "out")
    assert rows(pq.read_table(tmp_path / "out")) == rows(expected)


def test_columns_of_other_types_and_in_another_order(
    sides: tuple[xs.Dataset, xs.Dataset], expected: pa.Table
) -> None:
    joined, required = sides
    other = required.with_columns(k="k::int").select("name", "k")
    both = joined.union(other)
    assert both.schema.types == joined.schema.types
    assert rows(both.to_arrow()) == rows(expected)


def test_a_union_of_other_types_is_refused(sides: tuple[xs.Dataset, xs.Dataset]) -> None:
    joined, required = sides
    with pytest.raises(SchemaError, match="union: column 0 is 'k' of type Int64 in 'dataset 1'"):
        joined.union(required.with_columns(k="k::text"))
    with pytest.raises(SchemaError, match=r"union: .*'name' is in one of them only"):
        joined.union(required.drop("name"))
