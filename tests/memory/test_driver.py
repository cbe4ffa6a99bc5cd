"""The driving program keeps no entry per slice, nothing per finished task, and no thread, descriptor or mapping."""

from __future__ import annotations

import functools
import gc
from pathlib import Path

import pytest

import exoshuffle as xs
from benchmarks.driver_memory import anonymous_bytes, shuffle
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.errors import TaskError
from tests.support.held import held

on_thread = functools.partial(xs.remote, executor="thread")


def small_limit() -> int:
    """Returns a memory limit that leaves 64 MB to blocks and tasks."""
    return limits.limit_for(64_000_000)


def test_four_million_slices_cost_the_driver_little() -> None:
    xs.init(memory_limit="2GB", num_cpus=2)
    before = anonymous_bytes()
    count = 2000 * 2000
    assert shuffle(2000, 2000) == count * (count - 1) // 2
    assert anonymous_bytes() - before < 100_000_000
    xs.shutdown()


def test_twenty_thousand_tasks_leave_nothing(engine: LocalEngine) -> None:
    add = on_thread(lambda a, b: a + b)

    def run(count: int) -> int:
        total = xs.put(0)
        for number in range(count):
            total = add.remote(total, number)
            if number % 500 == 0:
                xs.wait([total])
        return int(xs.get(total))

    run(2_000)
    gc.collect()
    before = anonymous_bytes()
    assert sum(run(1_000) for _ in range(20)) == 20 * sum(range(1_000))
    gc.collect()
    assert anonymous_bytes() - before < 5_000_000
    stats = engine.stats()
    assert (stats["num_objects"], stats["num_blocks"], stats["reserved_bytes"]) == (0, 0, 0)


@pytest.mark.usefixtures("engine")
def test_independent_tasks_leave_nothing() -> None:
    double = on_thread(lambda value: 2 * value, memory=1_000_000)

    def run() -> None:
        refs = [double.remote(number) for number in range(2_000)]
        assert xs.get(refs) == [2 * number for number in range(2_000)]

    run()
    gc.collect()
    before = anonymous_bytes()
    for _ in range(10):
        run()
    gc.collect()
    assert anonymous_bytes() - before < 5_000_000


@pytest.mark.parametrize("use", ["nothing", "tasks", "spilling", "errors"])
def test_engines_come_and_go(tmp_path: Path, use: str) -> None:
    def big(seed: int) -> bytes:
        return bytes([seed % 256]) * 2_000_000

    def fail(_seed: int) -> None:
        raise ValueError("on purpose")

    def once() -> None:
        xs.init(memory_limit=small_limit(), spill_dirs=str(tmp_path), num_cpus=2)
        if use == "tasks":
            xs.get([on_thread(big).remote(seed) for seed in range(5)])
        elif use == "spilling":
            refs = [on_thread(big).remote(seed) for seed in range(200)]
            xs.wait(refs, num_ready=200)
        elif use == "errors":
            with pytest.raises(TaskError):
                xs.get(on_thread(fail).remote(1))
        xs.shutdown()

    before = held()
    for _ in range(5):
        once()
        gc.collect()
        assert held() <= before
    assert list(tmp_path.iterdir()) == []
