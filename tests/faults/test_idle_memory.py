"""The memory that is set apart for a task ends with it. A worker that was stopped while idle is not the next task's
fault."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.workers import processes
from exoshuffle.engines.local.workers.home import GRANTED_BYTES
from exoshuffle.engines.local.workers.processes import WorkerProcess
from exoshuffle.errors import TaskError
from exoshuffle.testing.meeting import poll
from exoshuffle.testing.programs import double

MEMORY = 20_000_000


def fails() -> None:
    raise ValueError("it fails")


def dies() -> None:
    os._exit(3)


def waits(path: str) -> None:
    poll(lambda: os.path.exists(path))


def numbers() -> Iterator[int]:
    yield from range(1000)


def test_however_tasks_end_they_let_go_of_the_memory_of_workers(
    engine: LocalEngine, tmp_path: Path
) -> None:
    before = engine.budget_bytes
    for function in (fails, dies):
        failed = xs.remote(function, max_retries=1).remote()
        with pytest.raises(TaskError):
            xs.get(failed)
        with pytest.raises(TaskError):
            xs.get(xs.remote(double).remote(failed))
    waiting = [
        xs.remote(waits, memory=memory).remote(str(tmp_path / "never"))
        for memory in (0, 1000, 0, 1000)
    ]
    assert engine.budget_bytes < before
    for one in waiting:
        xs.cancel(one)
    items = iter(xs.remote(numbers, num_returns="streaming").remote())
    assert xs.get(next(items)) == 0
    del failed, waiting, one, items
    poll(lambda: engine.budget_bytes == before)
    engine.pool.end_idle()
    assert not engine.pool._all
    assert xs.get(xs.remote(double).remote(2)) == 4


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
    assert allowed[-2:] == [GRANTED_BYTES + MEMORY, GRANTED_BYTES]


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


def test_what_a_worker_has_of_its_server_was_left_by_no_task(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.pool.end_idle()
    blamed: list[str] = []
    monkeypatch.setattr(processes, "private_bytes", lambda _process: 3 * GRANTED_BYTES)
    monkeypatch.setattr(WorkerProcess, "_blame", lambda _worker, task, _: blamed.append(task.name))
    with pytest.raises(TaskError):
        xs.get(xs.remote(dies, max_retries=1, name="dies").remote())
    assert blamed == ["dies", "dies"]
