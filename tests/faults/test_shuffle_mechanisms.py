"""Merges that die or are lost, and maps that hang, in worker processes: every row arrives exactly once."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import CorruptBlockError
from exoshuffle.futures import ActorHandle, Ref, TaskOptions
from exoshuffle.strategies import (
    FixedBlockSize,
    FixedFiles,
    MergeOptions,
    PreShuffleMerge,
    Push,
    Simple,
    Speculation,
    Strategy,
    Streaming,
)
from exoshuffle.strategies.mechanisms.pieces import READ_BYTES
from exoshuffle.testing import assert_every_row_arrives, failing
from exoshuffle.testing.meeting import Counter, Gate, helper
from exoshuffle.testing.programs import LabelTasks
from exoshuffle.testing.scripted import Script
from exoshuffle.testing.shuffles import small_plan

pytestmark = pytest.mark.shares_engine

PAIRS = PreShuffleMerge(MergeOptions(FixedFiles(2), percent=100))
KEEPING = Push(keep_map_outputs=True)
BY_SIZE = PreShuffleMerge(MergeOptions(FixedBlockSize(300), percent=100))
AT_ONCE = Speculation(multiple=1, fraction=0.5, min_seconds=0)


@pytest.mark.usefixtures("shared_engine")
@pytest.mark.parametrize("outcome", ["raise", "die"])
@pytest.mark.parametrize("strategy", [PAIRS, KEEPING], ids=["pre-shuffle-merge", "push"])
def test_a_merge_that_never_succeeds_is_replaced_by_its_inputs(
    strategy: Strategy, outcome: Any
) -> None:
    script: Script = {
        **{("merge", 1, attempt): outcome for attempt in range(1, 10)},
        **{("map", index, 9): "raise" for index in range(7)},
    }
    with failing(script) as engine:
        assert_every_row_arrives(strategy, 7, 5)
        attempts = engine.attempts()
    assert attempts.pop(("merge", 1)) == 4
    assert attempts == {("map", index): 1 for index in range(7)}


@pytest.mark.usefixtures("shared_engine")
@pytest.mark.parametrize("strategy", [PAIRS, BY_SIZE, PreShuffleMerge(), KEEPING])
def test_every_step_fails_in_its_own_way(strategy: Strategy) -> None:
    script: Script = {
        **{("map", index, 1): "die" for index in (0, 6)},
        ("map", 3, 1): "raise",
        ("merge", 0, 1): "die",
        ("merge", 1, 1): "raise",
        ("reduce", 2, 1): "raise",
        ("reduce", 4, 1): "die",
    }
    with failing(script) as engine:
        assert_every_row_arrives(strategy, 7, 5)
        attempts = engine.attempts()
    assert set(attempts.values()) == {2}
    assert {"map", "merge", "reduce"} == {name for name, _ in attempts}


class Watched:
    """The local engine, and what each of its tasks made, for as long as the test looks."""

    def __init__(self, engine: LocalEngine, patch: pytest.MonkeyPatch) -> None:
        self.made: dict[str, list[Ref]] = collections.defaultdict(list)
        self._submit = engine._tasks.submit_call
        patch.setattr(engine._tasks, "submit_call", self._watch)

    def _watch(self, call: Any, references: Any, name: str, options: TaskOptions) -> Any:
        ref = self._submit(call, references, name, options)
        self.made[name].append(ref)
        return ref


@pytest.mark.parametrize("strategy", [PAIRS, KEEPING], ids=["pre-shuffle-merge", "push"])
def test_a_merge_that_is_lost_runs_again_and_no_map(
    strategy: Strategy, shared_engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = shared_engine
    watched = Watched(engine, monkeypatch)
    recovered = engine.stats()["num_recovered"]
    tasks = LabelTasks(3)
    splits = [[index] * 5_000 for index in range(6)]
    # A merge is in one piece where its blocks are small.
    plan = dataclasses.replace(small_plan(6, 3), split_bytes=READ_BYTES)
    results = strategy.shuffle(tasks, splits, plan)
    first = next(results)
    xs.wait([first])
    merges = watched.made["merge"]
    assert len(merges) == 3
    for ref in merges:
        block = ref._object.stored.block_id  # type: ignore[attr-defined]
        assert block is not None
        engine.table.lose(CorruptBlockError("by the test", block))
    rows = [(index, row) for index, split in enumerate(splits) for row in split]
    for partition, ref in enumerate([first, *results]):
        assert xs.get(ref) == (partition, [(index, partition, row) for index, row in rows])
    assert engine.stats()["num_recovered"] == recovered + 3
    tried = {
        name: {ref._object.task.attempt for ref in refs} for name, refs in watched.made.items()
    }  # type: ignore[attr-defined]
    assert tried == {"map": {1}, "merge": {2}, "reduce": {1}}


class HangingLabels(LabelTasks):
    """One task of a step hangs: the map of an input, or the merge or fold that is the so manieth to run."""

    def __init__(self, num_partitions: int, step: str, hanging: int) -> None:
        super().__init__(num_partitions)
        self._step = step
        self._hanging = hanging
        self._gate = Gate()
        self._runs: ActorHandle = helper(Counter)

    def map(self, index: int, split: list[int]) -> list[Any]:
        if self._step == "map" and index == self._hanging and xs.get(self._runs.add.remote()) == 1:
            self._gate.await_opening()
        return super().map(index, split)

    def merge(self, *blocks: Any) -> list[Any]:
        self._hang("merge")
        return super().merge(*blocks)

    def fold(self, *args: Any) -> Any:
        self._hang("fold")
        return super().fold(*args)

    def _hang(self, step: str) -> None:
        if self._step == step and xs.get(self._runs.add.remote()) == self._hanging:
            self._gate.await_opening()


@pytest.mark.usefixtures("shared_engine")
@pytest.mark.parametrize(
    "strategy",
    [
        Simple(AT_ONCE),
        Push(speculation=AT_ONCE),
        PreShuffleMerge(MergeOptions(FixedFiles(2)), AT_ONCE),
        Streaming(round_size=4, speculation=AT_ONCE),
    ],
    ids=["simple", "push*", "pre-shuffle-merge", "streaming"],
)
def test_a_map_that_hangs_is_overtaken_by_its_copy(strategy: Strategy) -> None:
    # Nobody ever opens the gate: the shuffle ends because the copy passes, and the first one is cancelled.
    assert_every_row_arrives(strategy, 8, 3, HangingLabels(3, "map", 3))


@pytest.mark.usefixtures("shared_engine")
@pytest.mark.parametrize("hanging", [3, 6])
@pytest.mark.parametrize(
    ("step", "strategy"),
    [("merge", Push(speculation=AT_ONCE)), ("fold", Streaming(round_size=4, speculation=AT_ONCE))],
)
def test_a_merge_or_fold_that_hangs_is_overtaken_by_its_copy(
    step: str, strategy: Strategy, hanging: int
) -> None:
    assert_every_row_arrives(strategy, 24, 3, HangingLabels(3, step, hanging))
