"""Chains of thousands of tasks, each of which needs the one before: they fail, are cancelled, dropped, made again."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.errors import TaskCancelledError, TaskError
from exoshuffle.futures import Ref
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Gate, pass_gate

on_thread = functools.partial(xs.remote, executor="thread")

#: More than the interpreter's limit of recursion, even if a task took one frame only.
LENGTH = 3_000

increment = on_thread(lambda value: value + 1)


def chained(first: Ref) -> Ref:
    last = first
    for _ in range(LENGTH):
        last = increment.remote(last)
    return last


def test_a_failure_reaches_the_end(engine: LocalEngine) -> None:
    gate = Gate()

    def fail(gate: Gate) -> int:
        gate.await_opening()
        raise ValueError("the first has failed")

    last = chained(on_thread(fail).remote(gate))
    gate.open()
    with pytest.raises(TaskError, match="the first has failed"):
        xs.get(last, timeout=PATIENCE_SECONDS)
    assert xs.get(increment.remote(1), timeout=PATIENCE_SECONDS) == 2
    del last
    gc.collect()
    assert engine.stats()["num_objects"] == 0


@pytest.mark.usefixtures("engine")
def test_cancelling_reaches_the_end() -> None:
    gate = Gate()
    held = on_thread(pass_gate).remote(gate, 0)
    first = increment.remote(held)
    last = chained(first)
    assert xs.cancel(first)
    with pytest.raises(TaskCancelledError):
        xs.get(last, timeout=PATIENCE_SECONDS)
    gate.open()
    assert xs.get(held, timeout=PATIENCE_SECONDS) == 0


@pytest.mark.usefixtures("engine")
def test_the_end_of_an_actor_reaches_the_end() -> None:
    class Broken:
        def __init__(self, gate: Gate) -> None:
            gate.await_opening()
            raise ValueError("born broken")

        def value(self) -> int:
            return 1

    gate = Gate()
    last = chained(on_thread(Broken).remote(gate).value.remote())
    gate.open()
    with pytest.raises(TaskError, match="born broken"):
        xs.get(last, timeout=PATIENCE_SECONDS)


def test_a_chain_that_nobody_wants_never_runs(engine: LocalEngine) -> None:
    gate = Gate()
    held = on_thread(pass_gate).remote(gate, 0)
    last = chained(held)
    del last
    gate.open()
    assert xs.get(held, timeout=PATIENCE_SECONDS) == 0
    assert xs.get(increment.remote(1), timeout=PATIENCE_SECONDS) == 2
    gc.collect()
    assert engine.stats()["num_objects"] == 0


def test_a_lost_end_is_made_from_the_start(tmp_path: Path, damage: Callable[[], int]) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    made = xs.init(memory_limit=limits.limit_for(90_000_000), spill_dirs=str(spill), inline_bytes=0)
    zero = on_thread(lambda: 0)
    last = chained(zero.remote())
    assert xs.get(last, timeout=PATIENCE_SECONDS) == LENGTH
    filler = [xs.put(bytes(5_000_000)) for _ in range(20)]
    del filler
    gc.collect()
    assert damage() > 0
    assert xs.get(last, timeout=PATIENCE_SECONDS) == LENGTH
    assert made.stats()["num_recovered"] == LENGTH + 1
    xs.shutdown()
