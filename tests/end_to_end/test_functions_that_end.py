"""Functions of users that end their process: in a worker, whatever they are called for; the program goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import exoshuffle as xs
from exoshuffle.errors import TaskError, WorkerDiedError
from tests.support.endings import SCHEMA, WAYS, Ends

pytestmark = pytest.mark.shares_engine


@pytest.fixture
def rows(tmp_path: Path) -> xs.Dataset:
    parquet.write_table(pa.table({"a": range(100)}), tmp_path / "in.parquet")
    return xs.read_parquet(tmp_path / "in.parquet")


@pytest.mark.usefixtures("shared_engine")
@pytest.mark.parametrize(
    ("when", "way"),
    [
        *(("learning", way) for way in WAYS),
        *((when, "sys.exit") for when in ("learning groups", "measuring", "running")),
        ("measuring", "os._exit"),
        ("running", "crash"),
    ],
)
def test_a_function_that_ends_its_process(rows: xs.Dataset, way: str, when: str) -> None:
    ends = Ends(way, with_rows=not when.startswith("learning"))
    uses = {
        "learning": lambda: rows.map_batches(ends),
        "learning groups": lambda: rows.group_by("a").map_groups(ends),
        "measuring": lambda: rows.map_batches(ends, schema=SCHEMA).sort("a").explain(),
        "running": lambda: rows.group_by("a").map_groups(ends, schema=SCHEMA).to_arrow(),
    }
    with pytest.raises(TaskError) as caught:
        uses[when]()
    expected = SystemExit if way == "sys.exit" else WorkerDiedError
    assert isinstance(caught.value.__cause__, expected)
    assert rows.map_batches(_plus_one).sort("a").to_arrow()["a"].to_pylist() == [*range(1, 101)]


@pytest.mark.usefixtures("shared_engine")
def test_functions_run_in_workers_only(rows: xs.Dataset) -> None:
    def where(table: pa.Table) -> dict[str, list[int]]:
        return {"a": [os.getpid()] * max(1, table.num_rows), "n": [1] * max(1, table.num_rows)}

    made = rows.map_batches(where).group_by("a").map_groups(where).to_arrow()
    assert os.getpid() not in made["a"].to_pylist()
    assert rows.map_batches(_schema_of_process).schema.names != [str(os.getpid())]


def _plus_one(table: pa.Table) -> dict[str, list[int]]:
    return {
        "a": [value + 1 for value in table["a"].to_pylist()]
        if table.num_rows
        else pa.array([], pa.int64())
    }


def _schema_of_process(table: pa.Table) -> pa.Table:
    return table.rename_columns([str(os.getpid())])
