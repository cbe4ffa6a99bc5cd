"""The fault search: some seeds as tests, the same trace in every process, and that it finds what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from exoshuffle.futures import Ref
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies import Simple
from exoshuffle.strategies.strategy import Around
from exoshuffle.strategies.task_set import TaskSet
from tests.sim import search
from tests.sim.search import OPERATORS, Case, run

REPOSITORY = Path(__file__).parents[2]
#: `make sim-faults` runs 1,000.
NUM_SEEDS = 60


def test_rows_are_right_whatever_goes_wrong():
    outcomes = {seed: run(seed) for seed in range(NUM_SEEDS)}
    wrong = {str(Case.draw(seed)): each.wrong for seed, each in outcomes.items() if each.wrong}
    assert not wrong
    # Much has gone wrong.
    assert sum(each.counts["num_made_again"] for each in outcomes.values()) > 3 * NUM_SEEDS
    assert sum(each.counts["num_deaths"] for each in outcomes.values()) > NUM_SEEDS
    assert any(each.counts["spilled_bytes"] for each in outcomes.values())


@pytest.mark.parametrize("seed", [731013, 731216, 731388])
def test_no_partition_is_left_out_where_all_reduces_that_run_are_of_other_nodes(seed: int):
    """With copies of slow reduces, and few CPUs on several nodes, the last partitions were missing in silence."""
    assert run(seed).wrong == ""


def test_all_operators_and_strategies_are_drawn():
    cases = [Case.draw(seed) for seed in range(300)]
    assert {case.operator for case in cases} == {"rows", *(each.name for each in OPERATORS)}
    pairs = {(case.operator, case.strategy) for case in cases}
    assert len(pairs) == (1 + len(OPERATORS)) * 4


def test_a_seed_is_replayed_alike_in_every_process():
    told = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "tests.sim", "--seed", "11"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            cwd=REPOSITORY,
        )
        told.add(done.stdout.splitlines()[1])
    assert len(told) == 1
    assert run(11).trace_hash in told.pop()


class Forgetful(Around):
    """A wrong strategy: it leaves the last split out."""

    def __init__(self) -> None:
        self.strategy = Simple()

    def shuffle(self, tasks: TaskSet, splits: Sequence[object], plan: ShufflePlan) -> Iterator[Ref]:
        """See ``Strategy``."""
        return self.strategy.shuffle(tasks, splits[:-1], plan)


def test_a_wrong_strategy_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "strategy", lambda _draw, _clock: Forgetful())
    assert all(run(seed).wrong for seed in range(12))
