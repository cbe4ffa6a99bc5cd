"""A store that fills asks for garbage collection before it spills."""

from __future__ import annotations

import gc
import os
import threading
import time
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.objects import table
from exoshuffle.engines.local.objects.collecting import Collecting
from exoshuffle.engines.local.workers.processes import WorkerProcess


class Knot:
    """Refers to itself, so that only the garbage collector finds it."""

    def __init__(self, ref: xs.Ref) -> None:
        self.ref = ref
        self.myself = self


def test_references_in_cycles_go_before_anything_is_spilled(engine: LocalEngine) -> None:
    size = engine.budget_bytes // 10
    gc.collect()
    gc.disable()
    try:
        for _ in range(7):
            Knot(xs.put(bytes(size)))
        assert engine.stats()["num_objects"] == 7
        kept = [xs.put(bytes(size)) for _ in range(2)]
        assert engine.stats()["num_objects"] <= 3
        assert engine.stats()["spilled_bytes"] == 0
        assert [len(value) for value in xs.get(kept)] == [size, size]
    finally:
        gc.enable()


def test_references_go_in_silence_when_python_ends(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its end Python takes modules apart before it collects cycles; references in them printed tracebacks."""
    knot = Knot(xs.put(3))
    engine.close()
    monkeypatch.setattr(table, "_WITHOUT_WAITING", None)
    knot.ref._object.drop_handle()
    assert not engine.table.handle_changes


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def passes(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("takes", "least"), [(0.01, 1.0), (0.2, 10.0)])
def test_collections_take_a_small_part_of_the_time(
    monkeypatch: pytest.MonkeyPatch, takes: float, least: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    collecting = Collecting(lambda: clock.passes(takes))
    assert collecting.is_due()
    for _ in range(2):
        collecting.run()
        assert not collecting.is_due()
        clock.passes(0.9 * least)
        assert not collecting.is_due()
        clock.passes(0.2 * least)
        assert collecting.is_due()


def tie_knots(of: bytes, number: int, size: int) -> int:
    """Leaves garbage in a worker that holds what was put, as large as ``size`` each."""
    gc.disable()
    for _ in range(number):
        Knot(xs.put(of * size))
    return os.getpid()


def test_idle_workers_give_back_what_is_garbage(roomy_engine: LocalEngine) -> None:
    size = roomy_engine.budget_bytes // 10
    xs.get(xs.remote(tie_knots).remote(b"x", 4, size))
    assert roomy_engine.stats()["num_objects"] == 4
    kept = [xs.put(bytes(size)) for _ in range(2)]
    assert (roomy_engine.stats()["num_objects"], roomy_engine.stats()["spilled_bytes"]) == (2, 0)
    assert [len(value) for value in xs.get(kept)] == [size, size]


def test_busy_workers_give_back_what_is_garbage(roomy_engine: LocalEngine) -> None:
    size = roomy_engine.budget_bytes // 20
    xs.get(xs.remote(tie_knots).remote(b"x", 40, size))
    # Those made before the store was nearly full for the first time, at least.
    assert roomy_engine.stats()["num_objects"] < 35


def test_a_worker_keeps_some_functions(engine: LocalEngine) -> None:
    def make(number: int) -> xs.Ref:
        return xs.remote(lambda: number).remote()

    assert engine.num_cpus
    assert [xs.get(make(number)) for number in range(600)] == list(range(600))


def test_no_worker_is_started_while_idle_ones_find_garbage(
    roomy_engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory may be what others have that wait: a job with functions hung."""
    pool, refs, has_asked = roomy_engine.pool, [], threading.Event()
    collect, await_room = WorkerProcess.collect_garbage, pool._await_room

    def asked(task: Any) -> None:
        has_asked.set()
        await_room(task)

    def collecting(worker: WorkerProcess) -> None:
        refs.append(xs.remote(os.getpid).remote())
        assert has_asked.wait(60)
        collect(worker)

    process = xs.get(xs.remote(os.getpid).remote())
    monkeypatch.setattr(pool, "_await_room", asked)
    monkeypatch.setattr(WorkerProcess, "collect_garbage", collecting)
    pool.collect_garbage()
    assert xs.get(refs) == [process]
