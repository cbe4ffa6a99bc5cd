"""Mistakes of users' functions and strategies: their own error, with the place, and nothing else."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import SchemaError, TaskError
from exoshuffle.plan.plan import ShufflePlan
from tests.support.generated import generated
from tests.support.oracle import write_files

pytestmark = pytest.mark.shares_engine

ROWS = 24_000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("wrong") / "in", generated(ROWS), 3, 2000)


@pytest.fixture
def dataset(source: Path, shared_engine: LocalEngine) -> xs.Dataset:
    del shared_engine
    return xs.read_parquet(source)


RUNS: dict[str, Callable[[xs.Dataset, Callable[[pa.Table], object]], xs.Dataset]] = {
    "alone": lambda d, function: d.map_batches(function),
    "before a shuffle": lambda d, function: d.map_batches(function).sort("id"),
    "after a shuffle": lambda d, function: d.sort("id", num_partitions=4).map_batches(function),
    "on groups": lambda d, function: d.group_by("small").map_groups(function),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_function_that_raises(name: str, dataset: xs.Dataset, tmp_path: Path) -> None:
    """Its own error with its traceback and its batch; the task is not tried again, and runs in a worker."""
    log = str(tmp_path / "log")

    def refuses(batch: pa.Table) -> pa.Table:
        if len(batch):
            with open(log, "a") as opened:
                opened.write(f"{os.getpid()} {batch['id'][0]}\n")
            raise ValueError(f"no row like {batch['id'][0]}, please")
        return batch

    with pytest.raises(TaskError, match=r"^ValueError: no row like .*, please") as caught:
        RUNS[name](dataset, refuses).to_arrow()
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError)
    notes = " ".join(cause.__notes__)
    assert ("map_groups called" if name == "on groups" else "map_batches called") in notes
    assert "refuses with the batch number 1 of" in notes
    told = "".join(traceback.format_exception(caught.value))
    assert f'File "{__file__}", line {refuses.__code__.co_firstlineno + 4}, in refuses' in told
    calls = [line.split() for line in Path(log).read_text().splitlines()]
    rows = [row for _, row in calls]
    assert sorted(rows) == sorted(set(rows)), "the function was called again with the same batch"
    assert str(os.getpid()) not in {process for process, _ in calls}


PLACES: dict[str, tuple[Callable[[xs.Dataset, Callable[[pa.Table], object]], xs.Dataset], str]] = {
    "files": (RUNS["alone"], r"rows, .*in/part-00\d\.parquet and \d splits behind it$"),
    "file that is measured": (
        RUNS["before a shuffle"],
        r"rows, .*in/part-00\d\.parquet and \d splits behind it$",
    ),
    "partition": (RUNS["after a shuffle"], r"rows, partition [0-3]$"),
    "part of a result": (
        lambda d, function: (
            d.sort("id", num_partitions=3).union(d.filter("false")).map_batches(function)
        ),
        r"rows, part [0-2] of the input$",
    ),
    "group": (RUNS["on groups"], r"this was the group of small=\d+$"),
    "group by two": (
        lambda d, function: d.group_by("small", "k").map_groups(function),
        r"this was the group of small=\d+, k=(-?\d+|None)$",
    ),
    "all rows": (
        lambda d, function: d.group_by().map_groups(function),
        "this was the group of all rows$",
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_an_error_of_a_function_says_where(name: str, dataset: xs.Dataset) -> None:
    make, words = PLACES[name]

    def refuses(batch: pa.Table) -> pa.Table:
        if len(batch):
            raise ValueError("no rows, please")
        return batch

    with pytest.raises(TaskError) as caught:
        make(dataset, refuses).to_arrow()
    assert caught.value.__cause__ is not None
    assert re.search(words, caught.value.__cause__.__notes__[-1])


def test_the_group_is_the_one_that_failed(dataset: xs.Dataset) -> None:
    def refuses(group: pa.Table) -> pa.Table:
        if len(group) and group["small"][0].as_py() == 3:
            raise ValueError("not three, please")
        return group

    with pytest.raises(TaskError, match="not three") as caught:
        dataset.group_by("small").map_groups(refuses).to_arrow()
    assert caught.value.__cause__ is not None
    assert caught.value.__cause__.__notes__[1:] == ["map_groups: this was the group of small=3"]


@pytest.mark.parametrize("grouped", [False, True])
def test_values_that_the_schema_cannot_hold(grouped: bool, dataset: xs.Dataset) -> None:
    """An error, not other values."""
    schema = pa.schema([("half", pa.int64())])

    def halves(batch: pa.Table) -> dict[str, list[float]]:
        return {"half": [number / 2 for number in batch["id"].to_pylist()]}

    run = dataset.group_by("small").map_groups if grouped else dataset.map_batches
    with pytest.raises(SchemaError, match=r"batch 1 came back with values in 'half' .* truncated"):
        run(halves, schema=schema).to_arrow()


@pytest.mark.parametrize("name", RUNS)
def test_a_function_that_returns_something_else(name: str, dataset: xs.Dataset) -> None:
    def changes_its_mind(batch: pa.Table) -> pa.Table:
        return batch.select(["id"]) if len(batch) == 0 else batch.select(["id", "x"])

    words = r"batch 1 came back with \(id: int64, x: double\); expected were \(id: int64\)"
    with pytest.raises(SchemaError, match=words):
        RUNS[name](dataset, changes_its_mind).to_arrow()


def test_a_function_that_raises_without_rows_does_so_at_once(dataset: xs.Dataset) -> None:
    def needs_rows(batch: pa.Table) -> pa.Table:
        return batch.append_column("first", [batch["id"][0]] * len(batch))

    with pytest.raises(IndexError) as caught:
        dataset.sort("id").map_batches(needs_rows)
    notes = " ".join(caught.value.__notes__)
    assert "without rows, to learn the schema; give schema= if it needs rows" in notes


def test_a_function_that_needs_rows_gets_the_first_ones(dataset: xs.Dataset) -> None:
    """Functions of other libraries' users hardly ever get a batch without rows."""

    def needs_rows(batch: pa.Table) -> dict[str, object]:
        return {"first": [batch["id"][0].as_py()] * len(batch), "name": ["row"] * len(batch)}

    made = dataset.map_batches(needs_rows)
    assert made.schema == pa.schema([("first", pa.int64()), ("name", pa.string())])
    assert made.count() == ROWS
    stage = made.map_batches(needs_rows_of_names, num_cpus=0.5)
    assert stage.schema == pa.schema([("length", pa.int64())])
    assert stage.map_batches(lambda batch: {"n": batch["length"].to_pylist()}).count() == ROWS


def test_a_function_of_groups_that_needs_rows_gets_the_first_group(dataset: xs.Dataset) -> None:
    def needs_one_group(group: pa.Table) -> dict[str, object]:
        (parity,) = set(group["parity"].to_pylist())
        return {"parity": [parity], "rows": [len(group)]}

    made = dataset.group_by(parity="id % 2 = 0").map_groups(needs_one_group)
    assert made.schema == pa.schema([("parity", pa.bool_()), ("rows", pa.int64())])
    assert made.sort("parity").to_pydict() == {
        "parity": [False, True],
        "rows": [ROWS // 2, ROWS // 2],
    }
    behind_a_shuffle = dataset.sort("id").group_by(parity="id % 2 = 0")
    with pytest.raises(ValueError, match="not enough values") as caught:
        behind_a_shuffle.map_groups(needs_one_group)
    assert "give schema= if it needs rows" in " ".join(caught.value.__notes__)


@pytest.mark.parametrize("name", ["alone", "on groups"])
def test_columns_of_one_name_are_refused_in_a_schema_learnt_from_rows(
    name: str, dataset: xs.Dataset
) -> None:
    def needs_rows(batch: pa.Table) -> pa.Table:
        first = pa.array([batch["id"][0].as_py()])
        return pa.Table.from_arrays([first, first], ["a", "a"])

    with pytest.raises(SchemaError, match="would give two columns the name 'a'; names must differ"):
        RUNS[name](dataset, needs_rows)


def needs_rows_of_names(batch: pa.Table) -> dict[str, object]:
    return {"length": [max(len(name) for name in batch["name"].to_pylist())] * len(batch)}


def test_a_function_that_fails_for_the_first_rows_too_says_so_of_these(dataset: xs.Dataset) -> None:
    def refuses(batch: pa.Table) -> pa.Table:
        raise ValueError(f"{len(batch)} rows")

    with pytest.raises(ValueError, match=r"^ValueError: 16 rows") as caught:
        dataset.map_batches(refuses)
    assert "of the first rows, to learn the schema" in " ".join(caught.value.__notes__)


@pytest.mark.parametrize("name", RUNS)
def test_the_schema_is_learnt_once(name: str, dataset: xs.Dataset, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    path = str(log)

    def logs(batch: pa.Table) -> pa.Table:
        with open(path, "a") as opened:
            opened.write(f"{len(batch)}\n")
        return batch.select(["id"])

    made = RUNS[name](dataset, logs)
    assert made.schema == pa.schema([("id", pa.int64())])
    assert log.read_text() == "0\n"
    assert made.to_arrow().num_rows == ROWS
    assert log.read_text().splitlines().count("0") == 1


def test_an_error_of_a_users_strategy_keeps_its_cause(dataset: xs.Dataset) -> None:
    def fail(_: int) -> None:
        raise ZeroDivisionError("the user's own")

    class Failing:
        def shuffle(self, tasks: object, splits: object, plan: ShufflePlan) -> object:
            del tasks, splits, plan
            yield xs.remote(fail).remote(1)

    with pytest.raises(
        TaskError, match=r"the user's own\n.*\n  task fail failed in attempt 1"
    ) as caught:
        dataset.sort("k", strategy=Failing()).to_arrow()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
