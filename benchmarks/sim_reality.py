"""Compares the engine in virtual time with the embedded engine: the same strategies, on tasks that sleep.

Why sleeps: they take the same time whatever else the machine does. So the moments are compared at which tasks run, and
not the speed of a processor. Two numbers are measured beforehand: what a call of the program takes, and what a task
takes beside its function. Nothing is fitted to the twelve runs.

    python -m benchmarks.sim_reality
"""

from __future__ import annotations

import dataclasses
import random
import statistics
import time
from collections.abc import Sequence
from typing import cast

import exoshuffle as xs
from exoshuffle.engines.sim import Call, Cluster, Cost, Machine, SimEngine, Step
from exoshuffle.engines.sim.models import CostModel
from exoshuffle.engines.sim.runs.simulate import ModelledTasks
from exoshuffle.futures import wait
from exoshuffle.futures.options import Executor
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies import (
    MergeOptions,
    PreShuffleMerge,
    Push,
    Resources,
    Simple,
    Strategy,
    Streaming,
    Workload,
    plan_shuffle,
)
from exoshuffle.strategies.task_set import TaskSet

NUM_CPUS = 4
SIZES = [(12, 6), (30, 8), (40, 24)]
MERGE_SECONDS, FOLD_SECONDS = 0.06, 0.03


def seconds_of(name: str, number: int) -> float:
    """Returns how long a task sleeps."""
    return random.Random(f"{name} {number}").choice([0.03, 0.06, 0.15])


class Sleepers:
    """A task set that only takes time."""

    executor: Executor = "thread"

    def __init__(self, num_partitions: int) -> None:
        self._num_partitions = num_partitions

    def map(self, index: int, split: object) -> list[int]:
        """Sleeps as long as its index says."""
        del split
        time.sleep(seconds_of("map", index))
        return [index] * self._num_partitions

    def merge(self, *blocks: list[int]) -> list[int]:
        """Sleeps as all merges do."""
        time.sleep(MERGE_SECONDS)
        return blocks[0]

    def reduce(self, partition: int, slices: list[int]) -> int:
        """Sleeps as long as its partition says."""
        time.sleep(seconds_of("reduce", partition))
        return len(slices)

    def fold(self, partition: int, state: object, slices: list[int]) -> int:
        """Sleeps as all folds do."""
        del partition, state
        time.sleep(FOLD_SECONDS)
        return len(slices)


def plan(num_splits: int, num_partitions: int) -> ShufflePlan:
    """Returns a plan with several rounds and merges."""
    made = plan_shuffle(Workload(10**8, 10**6, 100), Resources(10**9, 2), "push", num_partitions)
    return dataclasses.replace(
        made,
        num_splits=num_splits,
        round_size=8,
        merge_factor=4,
        map_memory_bytes=1000,
        reduce_memory_bytes=1000,
    )


def took(strategy: Strategy, tasks: object, sizes: tuple[int, int]) -> None:
    """Runs a shuffle to its end."""
    splits: Sequence[object] = range(sizes[0])
    results = list(strategy.shuffle(cast("TaskSet", tasks), splits, plan(*sizes)))
    wait(results, num_ready=len(results))


def really(strategy: Strategy, sizes: tuple[int, int]) -> float:
    """Returns the seconds that a shuffle takes on the embedded engine: the median of three runs."""
    times = []
    for _ in range(3):
        began = time.monotonic()
        took(strategy, Sleepers(sizes[1]), sizes)
        times.append(time.monotonic() - began)
    return statistics.median(times)


def simulated(
    strategy: Strategy, sizes: tuple[int, int], call_seconds: float, task_seconds: float
) -> float:
    """Returns the seconds that it takes in virtual time."""

    def sleeping(call: Call) -> Cost:
        constant = {"merge": MERGE_SECONDS, "fold": FOLD_SECONDS}
        seconds = constant.get(call.name) or seconds_of(call.name, call.number)
        return Cost((Step(cpu_seconds=seconds),), 100)

    models: dict[str, CostModel] = dict.fromkeys(("map", "merge", "reduce", "fold"), sleeping)
    machine = Machine(NUM_CPUS, 10**9)
    cluster = Cluster((machine,), call_seconds=call_seconds, task_seconds=task_seconds)
    with xs.init(SimEngine(cluster, models=models)) as engine:
        assert isinstance(engine, SimEngine)
        took(strategy, ModelledTasks(), sizes)
        return engine.now


def nothing() -> None:
    """Does nothing."""


def measured() -> tuple[float, float]:
    """Returns what a call of the program takes, and what a task takes beside its function."""
    run = xs.remote(nothing, executor="thread")
    calls, tasks = [], []
    for _ in range(5):
        began = time.monotonic()
        refs = [run.remote() for _ in range(200)]
        calls.append((time.monotonic() - began) / 200)
        wait(refs, num_ready=200)
        began = time.monotonic()
        for _ in range(50):
            wait([run.remote()])
        tasks.append((time.monotonic() - began) / 50)
    call_seconds = statistics.median(calls)
    return call_seconds, max(1e-6, statistics.median(tasks) - 2 * call_seconds)


def main() -> None:
    """Prints both times of each run, and the errors."""
    strategies: list[Strategy] = [
        Simple(),
        Push(),
        PreShuffleMerge(MergeOptions(percent=95)),
        Streaming(round_size=8),
    ]
    xs.init(num_cpus=NUM_CPUS)
    call_seconds, task_seconds = measured()
    print(f"a call takes {1e6 * call_seconds:.0f} µs, a task {1e6 * task_seconds:.0f} µs")
    runs = [(strategy, sizes) for strategy in strategies for sizes in SIZES]
    real = [really(*run) for run in runs]
    xs.shutdown()
    errors = []
    for (strategy, sizes), seconds in zip(runs, real, strict=True):
        virtual = simulated(strategy, sizes, call_seconds, task_seconds)
        errors.append(abs(virtual / seconds - 1))
        name = type(strategy).__name__
        error = f"{100 * (virtual / seconds - 1):+.1f} %"
        print(
            f"{name:16} {sizes[0]:3} x {sizes[1]:2}  {seconds:6.3f} s, virtual {virtual:6.3f} s, {error}"
        )
    print(
        f"errors: median {100 * statistics.median(errors):.1f} %, largest {100 * max(errors):.1f} %"
    )


if __name__ == "__main__":
    main()
