"""Shuffles: the strategies of the library keep every row, exactly once and in order, on the engine under test."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.strategies import (
    FixedBlockSize,
    FixedFiles,
    MergeOptions,
    PreShuffleMerge,
    Push,
    Resources,
    ShufflePlan,
    Simple,
    Speculation,
    Strategy,
    Streaming,
    Workload,
    plan_shuffle,
)
from exoshuffle.strategies.library import strategy_names
from exoshuffle.testing.conformance import Conformance
from exoshuffle.testing.programs import LabelTasks

STRATEGIES = [
    pytest.param(Simple(), id="simple"),
    pytest.param(Push(), id="push*"),
    pytest.param(Push(keep_map_outputs=True), id="push"),
    pytest.param(Push(merge_bytes=1000), id="push*-bytes"),
    pytest.param(PreShuffleMerge(MergeOptions(FixedFiles(2))), id="pre-shuffle-merge"),
    pytest.param(
        PreShuffleMerge(MergeOptions(FixedBlockSize(300), percent=100)),
        id="pre-shuffle-merge-bytes",
    ),
    pytest.param(Simple(Speculation(multiple=1, fraction=0.1, min_seconds=0)), id="simple-copies"),
    pytest.param(Streaming(), id="streaming"),
]
NUM_RECORDS, NUM_PARTITIONS = 20_000, 5


def small_plan(num_splits: int, num_partitions: int) -> ShufflePlan:
    """Returns a plan of two rounds and some merges, for data of no size."""
    workload, resources = Workload(10**8, 10**6, 100), Resources(10**9, 2)
    return dataclasses.replace(
        plan_shuffle(workload, resources, "push", num_partitions),
        num_splits=num_splits,
        round_size=4,
        merge_factor=2,
        map_memory_bytes=1000,
        reduce_memory_bytes=1000,
    )


def assert_every_row_arrives(
    strategy: Strategy, num_splits: int, num_partitions: int, tasks: LabelTasks | None = None
) -> None:
    """Checks that two rows of every split reach every partition once, in the order of the splits.

    Args:
        strategy: The strategy to check; it runs on the current engine.
        num_splits: Number of maps.
        num_partitions: Number of reduces.
        tasks: Tasks that are ``LabelTasks`` and do more, such as failing now and then.
    """
    splits = [[10 * index, 10 * index + 1] for index in range(num_splits)]
    tasks = tasks or LabelTasks(num_partitions)
    plan = small_plan(num_splits, num_partitions)
    results = xs.get(list(strategy.shuffle(tasks, splits, plan)))
    rows = [(index, row) for index, split in enumerate(splits) for row in split]
    assert results == [
        (partition, [(index, partition, row) for index, row in rows])
        for partition in range(num_partitions)
    ]


class ShuffleConformance(Conformance):
    """Strategies run on the engine as they are."""

    @pytest.mark.parametrize(("num_splits", "num_partitions"), [(7, 5), (3, 1), (1, 4)])
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_every_map_reaches_every_reduce_once(
        self, strategy: Strategy, num_splits: int, num_partitions: int
    ) -> None:
        assert_every_row_arrives(strategy, num_splits, num_partitions)

    def test_all_strategies_sort_to_the_same_bytes(self, tmp_path: Path) -> None:
        gensort(tmp_path / "records", NUM_RECORDS, partitions=4)
        before = valsort(tmp_path / "records")
        outputs = []
        for name in strategy_names():
            dataset = xs.read_records(tmp_path / "records")
            ordered = dataset.sort(strategy=name, num_partitions=NUM_PARTITIONS)
            ordered.write_records(tmp_path / name)
            after = valsort(tmp_path / name)
            assert after.is_sorted
            assert (after.records, after.checksum) == (NUM_RECORDS, before.checksum)
            files = sorted((tmp_path / name).glob("part-*"))
            outputs.append([file.read_bytes() for file in files])
        assert all(output == outputs[0] for output in outputs)
        assert len(outputs[0]) == NUM_PARTITIONS
