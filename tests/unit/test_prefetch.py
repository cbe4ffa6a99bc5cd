"""Arguments of tasks that wait for a CPU are brought from disk while others run."""

from __future__ import annotations

import threading
from typing import Any

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.testing.meeting import PATIENCE_SECONDS, poll

NUM_BYTES = 20_000_000


def test_arguments_are_restored_while_no_cpu_is_free(engine: LocalEngine) -> None:
    begun, release = threading.Semaphore(0), threading.Event()

    def fill() -> Any:
        return xs.allocate_block([0, NUM_BYTES])

    def hold() -> None:
        begun.release()
        release.wait(PATIENCE_SECONDS)

    on_thread = {"executor": "thread"}
    refs = [xs.remote(fill, **on_thread).remote() for _ in range(6)]
    xs.wait(refs, num_ready=len(refs))
    assert engine.stats()["spilled_bytes"] > 0
    holding = [xs.remote(hold, **on_thread).remote() for _ in range(engine.num_cpus)]
    for _ in holding:
        begun.acquire()
    restored = engine.stats()["restored_bytes"]
    measured = xs.remote(len, **on_thread).remote(refs[0])
    poll(lambda: engine.stats()["restored_bytes"] >= restored + NUM_BYTES)
    assert xs.wait([measured], timeout=0)[0] == []
    release.set()
    assert xs.get(measured) == NUM_BYTES
    xs.get(holding)
