"""Strategies of users are billed like ours, compared with them, and run where they are predicted to take least."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from examples.strategy_two_level import TwoLevel, groups
from exoshuffle.engines.local import LocalEngine
from exoshuffle.futures.events import TaskFinished
from exoshuffle.strategies import (
    Auto,
    Basis,
    Candidate,
    PlannedStrategy,
    ShufflePlan,
    Simple,
    TaskSet,
)
from tests.support.oracle import write_files

ROWS = 20_000


@pytest.fixture
def rows(tmp_path: Path) -> xs.Dataset:
    keys = [n * 7919 % ROWS for n in range(ROWS)]
    table = pa.table({"key": keys, "text": [f"{n:030}" for n in range(ROWS)]})
    return xs.read_parquet(write_files(tmp_path / "in", table, 4))


class Gloomy(Simple):
    """Says of the simple strategy that it takes some minutes more than it does."""

    def candidates(self, basis: Basis) -> list[Candidate]:
        [candidate] = super().candidates(basis)
        return [dataclasses.replace(candidate, tail_bytes=10**12)]


class Own(PlannedStrategy):
    """Says how often it ran."""

    num_runs = 0

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[xs.Ref]:
        self.num_runs += 1
        return Simple().shuffle(tasks, splits, plan)


def test_the_bill_tells_the_tasks_of_ones_own_strategy(
    rows: xs.Dataset, roomy_engine: LocalEngine
) -> None:
    ordered = rows.sort("key", strategy=TwoLevel(), num_partitions=12)
    bill = ordered.explain()
    assert (bill.strategy, bill.why) == ("TwoLevel", "an instance, planned as two_level")
    assert [line.split()[0] for line in bill.compared] == ["two_level"]
    assert bill.merges == len(groups(12)) == 3
    assert bill.slices == 3 * bill.splits + 12
    tasks: collections.Counter[str] = collections.Counter()

    def count(event: TaskFinished) -> None:
        tasks[event.name] += 1

    roomy_engine.add_observer(count)
    made = ordered.to_arrow()
    roomy_engine.remove_observer(count)
    assert made["key"].to_pylist() == list(range(ROWS))
    run = tasks["map"], tasks["merge"], tasks["reduce"]
    assert run == (bill.splits, bill.merges, bill.partitions)


@pytest.mark.usefixtures("roomy_engine")
def test_ones_own_strategy_is_compared_and_ours_runs_where_it_is_better(rows: xs.Dataset) -> None:
    ordered = rows.sort("key", strategy=Auto(TwoLevel()), num_partitions=12)
    bill, ours = ordered.explain(), rows.sort("key", num_partitions=12).explain()
    assert bill.strategy == ours.strategy == "simple"
    assert "two_level" in str(bill)
    assert {*bill.compared} - {*ours.compared} == {
        line for line in bill.compared if line.startswith("two_level")
    }
    assert ordered.to_arrow()["key"].to_pylist() == list(range(ROWS))


@pytest.mark.usefixtures("roomy_engine")
def test_ones_own_strategy_runs_where_it_is_predicted_to_take_least(
    rows: xs.Dataset, tmp_path: Path
) -> None:
    own = Own()
    ordered = rows.sort("key", strategy=Auto(Gloomy(), own), num_partitions=12)
    bill = ordered.explain()
    assert bill.strategy == "Own"
    assert "everything stays in memory" in bill.why
    assert [line.split()[0] for line in bill.compared[:1]] == ["Own"]
    assert own.num_runs == 0
    ordered.write_parquet(tmp_path / "out")
    assert own.num_runs == 1
    written = xs.read_parquet(tmp_path / "out").to_arrow()
    assert written["key"].to_pylist() == list(range(ROWS))
