"""Failures scripted by attempt: the rows are exact afterwards, and nothing is done twice."""

from __future__ import annotations

import collections
import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle._native import StoredPath
from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.write.attempts import Attempts
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import TaskCancelledError, TaskError
from exoshuffle.futures import current_engine
from exoshuffle.operators.core.sinks import Attempt, WriteSink
from exoshuffle.strategies import Push, Simple, Speculation, Strategy
from exoshuffle.testing.meeting import PATIENCE_SECONDS, poll
from exoshuffle.testing.shuffles import small_plan

on_thread = functools.partial(xs.remote, executor="thread")

STEPS = ("map", "merge", "reduce")
STRATEGIES = [Simple(), Push(), Push(keep_map_outputs=True)]
STRATEGY_NAMES = ["simple", "push*", "push"]


class TransientError(Exception):
    """Goes away when tried again."""

    retryable = True


class Script:
    """Fails the first attempts at every call of some steps."""

    def __init__(self, failures: int, steps: tuple[str, ...] = STEPS) -> None:
        self.failures = failures
        self.steps = steps
        self.attempts: collections.Counter[object] = collections.Counter()
        self._lock = threading.Lock()

    def attempt(self, step: str, call: object) -> None:
        with self._lock:
            self.attempts[step, call] += 1
            number = self.attempts[step, call]
        if step in self.steps and number <= self.failures:
            raise TransientError(f"{step} {call}, attempt {number}")


class Divide:
    """Sends every number of a split to the partition of its remainder."""

    executor = "thread"

    def __init__(self, num_partitions: int, script: Script) -> None:
        self.num_partitions = num_partitions
        self.script = script

    def map(self, index: int, split: range) -> list[list[int]]:
        parts: list[list[int]] = [[] for _ in range(self.num_partitions)]
        for number in split:
            parts[number % self.num_partitions].append(number)
        self.script.attempt("map", index)
        return parts

    def merge(self, *blocks: list[list[int]]) -> list[list[int]]:
        merged = [[*itertools.chain(*parts)] for parts in zip(*blocks, strict=True)]
        self.script.attempt("merge", merged[0][0])
        return merged

    def reduce(self, partition: int, slices: list[list[int]]) -> list[int]:
        numbers = [*itertools.chain(*slices)]
        self.script.attempt("reduce", partition)
        return numbers


def divide(strategy: Strategy, script: Script) -> list[list[int]]:
    splits = [range(start, start + 10) for start in range(0, 90, 10)]
    plan = small_plan(len(splits), 5)
    return xs.get(list(strategy.shuffle(Divide(5, script), splits, plan)))


pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("failures", [1, 3])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=STRATEGY_NAMES)
def test_every_task_fails_first(strategy: Strategy, failures: int) -> None:
    script = Script(failures)
    assert divide(strategy, script) == [list(range(first, 90, 5)) for first in range(5)]
    assert set(script.attempts.values()) == {failures + 1}


@pytest.mark.parametrize("step", STEPS)
def test_one_attempt_too_many(step: str) -> None:
    with pytest.raises(TaskError, match=f"{step} .*, attempt 4\n  task {step} failed in attempt 4"):
        divide(Push(), Script(4, (step,)))


def test_an_error_of_the_function_is_not_retried() -> None:
    script = Script(1, ("map",))

    def broken(index: int) -> None:
        script.attempts["broken", index] += 1
        raise ZeroDivisionError(index)

    with pytest.raises(TaskError, match="attempt 1"):
        xs.get(on_thread(broken).remote(0))
    assert script.attempts["broken", 0] == 1


def test_what_was_cancelled_is_not_tried_again(engine: LocalEngine) -> None:
    script, begun, go_on = Script(3), threading.Event(), threading.Event()

    def produce() -> Iterator[int]:
        script.attempt("begun", 0)
        yield 1
        begun.set()
        go_on.wait(PATIENCE_SECONDS)
        script.attempt("map", 0)

    stream = on_thread(produce, num_returns="streaming").remote()
    assert begun.wait(PATIENCE_SECONDS)
    assert xs.cancel(stream)
    go_on.set()
    with pytest.raises(TaskCancelledError):
        list(stream)
    poll(engine._scheduler.is_idle)
    assert script.attempts == {("begun", 0): 1, ("map", 0): 1}


class FailingSink:
    """Writes the files, then fails, in the first attempts at every second partition."""

    def __init__(self, sink: WriteSink, script: Script) -> None:
        self.sink = sink
        self.script = script
        self.num_returns = sink.num_returns
        self.all_steps = sink.all_steps

    def __call__(self, partition: int, rows: Any) -> Iterator[Attempt]:
        yield from self.sink(partition, rows)
        if partition % 2:
            self.script.attempt("reduce", partition)


@pytest.mark.parametrize("strategy", ["simple", "push"])
def test_files_are_written_once(
    records: Path,
    check_sorted: Callable[[Path], None],
    tmp_path: Path,
    strategy: str,
) -> None:
    dataset = xs.read_records(records).sort(strategy=strategy)
    output = tmp_path / "output"
    output.mkdir()
    options = WriteOptions("records").native(dataset.node, 1_000_000)
    attempts = Attempts(StoredPath(output))
    sink = FailingSink(WriteSink(str(attempts.folder), options), Script(2))
    job = Execution(current_engine()).job(dataset.node, "files")
    files = attempts.taken(xs.get(list(job.run(sink))))
    assert sorted(path.name for path in output.iterdir()) == sorted(file["name"] for file in files)
    assert sum(file["rows"] for file in files) == dataset.node.num_rows
    check_sorted(output)


class HangingSink:
    """Does not end in the first attempt at a partition, before the files or behind them, until it is let go."""

    def __init__(self, sink: WriteSink, has_written: bool) -> None:
        self.sink = sink
        self.has_written = has_written
        self.num_returns = sink.num_returns
        self.all_steps = sink.all_steps
        self.go_on = threading.Event()
        self.ended = threading.Event()
        self._numbers = itertools.count()

    def __call__(self, partition: int, rows: Any) -> Iterator[Attempt]:
        hangs = partition == 3 and next(self._numbers) == 0
        if hangs and not self.has_written:
            self.go_on.wait(PATIENCE_SECONDS)
        try:
            (made,) = self.sink(partition, rows)
            if hangs and self.has_written:
                self.go_on.wait(PATIENCE_SECONDS)
        finally:
            if hangs:
                self.ended.set()
        yield made


@pytest.mark.parametrize("has_written", [False, True])
def test_files_of_the_slower_copy_are_no_part_of_the_output(
    tmp_path: Path, has_written: bool
) -> None:
    gensort(tmp_path / "records", 50_000)
    copies = Speculation(multiple=1, fraction=0.1, min_seconds=0)
    dataset = xs.read_records(tmp_path / "records").sort(strategy=Simple(copies), num_partitions=9)
    options = WriteOptions("records").native(dataset.node, 1_000_000)
    output = tmp_path / "output"
    output.mkdir()
    attempts = Attempts(StoredPath(output))
    sink = HangingSink(WriteSink(str(attempts.folder), options), has_written)
    job = Execution(current_engine()).job(dataset.node, "files")
    files = attempts.taken(xs.get(list(job.run(sink))))
    sink.go_on.set()
    assert sink.ended.wait(PATIENCE_SECONDS)
    assert sorted(path.name for path in output.iterdir()) == sorted(file["name"] for file in files)
    assert valsort(output).is_sorted
    assert valsort(output).checksum == valsort(tmp_path / "records").checksum
