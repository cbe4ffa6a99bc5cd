"""What is set apart for a task ends with it, and a worker that was stopped while idle is not the next task's fault."""

from __future__ import annotations

from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.workers.processes import WORKER_BYTES, WorkerProcess
from exoshuffle.testing.programs import double

MEMORY = 20_000_000


def test_an_idle_worker_may_have_no_more_than_itself(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed: list[int] = []
    watch = WorkerProcess._set_apart

    def seen(self: WorkerProcess, memory: int) -> None:
        watch(self, memory)
        allowed.append(self._allowed_bytes)

    monkeypatch.setattr(WorkerProcess, "_set_apart", seen)
    assert xs.get(xs.remote(double, memory=MEMORY).remote(2)) == 4
    engine.close()
    assert allowed[-2:] == [WORKER_BYTES + MEMORY, WORKER_BYTES]


def test_who_was_stopped_while_idle_is_not_the_next_tasks_fault(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engine
    assert xs.get(xs.remote(double).remote(1)) == 2
    run, stopped = WorkerProcess.run, 0

    def stopped_and_run(self: WorkerProcess, *args: Any) -> Any:
        nonlocal stopped
        if not stopped:
            stopped = self.process_id
            self.kill()
            with monkeypatch.context() as patch:
                # As the guard tells of one that it has stopped.
                patch.setattr(WorkerProcess, "_has_been_stopped", property(lambda _worker: True))
                patch.setattr(WorkerProcess, "_blame", lambda *_: pytest.fail("it is blamed"))
                return run(self, *args)
        return run(self, *args)

    monkeypatch.setattr(WorkerProcess, "run", stopped_and_run)
    assert xs.get(xs.remote(double).remote(2)) == 4
    assert stopped
