"""Ray workers that are ended from outside: nothing is lost; who ends its own fails after a few times."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import exoshuffle as xs
from exoshuffle.engines.ray import RayEngine, deaths
from exoshuffle.errors import ActorDiedError, TaskError, WorkerDiedError
from exoshuffle.futures import ActorHandle
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Counter, helper
from exoshuffle.testing.programs import Mortal

#: More than it is retried.
FEW = 3


def die_at_first(attempts: ActorHandle, number: int, how: int) -> int:
    """Its worker dies in so many attempts."""
    attempt: int = xs.get(attempts.add.remote())
    if attempt <= number:
        if how < 0:
            os._exit(-how)
        if how == signal.SIGSEGV:
            import ctypes

            ctypes.string_at(0)
        # From outside, as far as this process knows.
        subprocess.run(["kill", f"-{how}", str(os.getpid())], check=True)  # noqa: S607
        signal.pause()
    return attempt


def test_deaths_from_outside_are_no_attempts(engine: RayEngine) -> None:
    del engine
    run = xs.remote(die_at_first, max_retries=1)
    assert xs.get(run.remote(helper(Counter), FEW, signal.SIGKILL)) == FEW + 1


@pytest.mark.parametrize("how", [-3, signal.SIGSEGV])
def test_exits_and_crashes_count(engine: RayEngine, how: int) -> None:
    del engine
    attempts = helper(Counter)
    ref = xs.remote(die_at_first, max_retries=1).remote(attempts, 10**6, how)
    with pytest.raises(TaskError) as caught:
        xs.get(ref, timeout=PATIENCE_SECONDS)
    assert isinstance(caught.value.__cause__, WorkerDiedError)
    assert caught.value.attempt == xs.get(attempts.value.remote()) == 2


def end_in(how: str) -> None:
    """Ends its process, with a last word from outside Python."""
    os.write(2, f"last words by {how}\n".encode())
    if how == "crash":
        import ctypes

        ctypes.string_at(0)
    os._exit(3)


class Ending:
    """An actor whose process ends."""

    def end(self) -> None:
        end_in("actor")


@pytest.mark.parametrize("max_retries", [0, 1])
def test_the_error_tells_how_the_log_of_the_worker_ends(
    engine: RayEngine, max_retries: int
) -> None:
    del engine
    run = xs.remote(end_in, max_retries=max_retries, name=f"ending {max_retries}")
    said = rf"^the worker process of task ending {max_retries} ended.*; its log /.*\.err ends: "
    with pytest.raises(TaskError) as caught:
        xs.get(run.remote("exit"), timeout=PATIENCE_SECONDS)
    assert re.match(rf"{said}last words by exit$", str(caught.value.__cause__))
    dependent = xs.remote(abs).remote(run.remote("crash"))
    with pytest.raises(TaskError) as caught:
        xs.get(dependent, timeout=PATIENCE_SECONDS)
    crash = "Fatal Python error: Segmentation fault"
    ends = rf"{said}{crash} \| File .* in end_in$"
    if max_retries:  # the stack is in the note
        ends = (
            rf"^the worker process of task ending 1 ended \({crash}\).* ends: last words by crash$"
        )
    assert re.match(ends, str(caught.value.__cause__))
    with pytest.raises(ActorDiedError, match=r"its log /.*\.err ends: last words by actor$"):
        xs.get(xs.remote(Ending).remote().end.remote(), timeout=PATIENCE_SECONDS)


def another_process(actor: ActorHandle, last: int) -> int:
    """Returns the number of the process that an actor has, once it is no longer the last one."""
    process = last
    while process == last:
        # Nobody knows of the death yet, or the call was on its way to the process.
        with contextlib.suppress(ActorDiedError):
            process = xs.get(actor.process.remote())
    return process


def test_deaths_from_outside_are_no_restarts(engine: RayEngine) -> None:
    del engine
    actor = xs.remote(Mortal, max_restarts=1).remote()
    process = xs.get(actor.process.remote())
    for _ in range(FEW):
        os.kill(process, signal.SIGKILL)
        process = another_process(actor, process)
        assert xs.get(actor.call.remote()) == 1
    for _ in range(2):
        with pytest.raises(ActorDiedError):
            xs.get(actor.exit.remote())
    with pytest.raises(ActorDiedError):
        xs.get(actor.call.remote())


class Dying:
    """An actor whose process ends in its calls."""

    def die_at_first(self, attempts: ActorHandle, number: int, how: int) -> int:
        return die_at_first(attempts, number, how)


def test_deaths_from_outside_are_no_tries_of_a_call(engine: RayEngine) -> None:
    del engine
    call = xs.remote(Dying, max_restarts=1).remote().die_at_first.options(max_retries=1)
    assert xs.get(call.remote(helper(Counter), FEW, signal.SIGKILL)) == FEW + 1


def test_exits_and_crashes_in_a_call_count(engine: RayEngine) -> None:
    del engine
    attempts = helper(Counter)
    actor = xs.remote(Dying, max_restarts=9).remote()
    ref = actor.die_at_first.options(max_retries=1).remote(attempts, 10**6, -3)
    with pytest.raises(
        ActorDiedError, match=r"die_at_first: its actor died under it .* \(exit 3\)"
    ):
        xs.get(ref)
    assert xs.get(attempts.value.remote()) == 2
    assert xs.get(actor.die_at_first.remote(attempts, 0, -3)) == 3


@pytest.mark.parametrize(("status", "told"), [(3, 3), (None, 0), ("words", 1), ("", 1)])
def test_a_child_that_leaves_the_function_ends(
    engine: RayEngine, status: int | str | None, told: int
) -> None:
    del engine

    def forks() -> int:
        child = os.fork()
        if child == 0:
            if status == "":
                raise ValueError
            sys.exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert xs.get(xs.remote(forks).remote(), timeout=PATIENCE_SECONDS) == told


def test_a_child_that_returns_ends(engine: RayEngine) -> None:
    del engine

    def forks() -> tuple[int, int]:
        read, write = os.pipe()
        if os.fork() == 0:
            return 0, 0
        os.close(write)
        # Ends when nobody has the other end any more.
        return 1, len(os.read(read, 1))

    assert xs.get(xs.remote(forks).remote(), timeout=PATIENCE_SECONDS) == (1, 0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Notes of this process, whose tasks Ray does not know."""
    context = SimpleNamespace(get_job_id=lambda: "job", get_task_id=lambda: "task")
    monkeypatch.setattr(deaths.ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(deaths, "_folder", lambda: tmp_path)
    monkeypatch.setattr(deaths, "PATIENCE_SECONDS", 0.0)


def begun_and_ended(times: int) -> None:
    for _ in range(times):
        note = deaths.Note("mortal", 1, 1)
        note.begin()
        note.leave()


@pytest.mark.usefixtures("impatient")
def test_who_dies_every_time_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(deaths, "PATIENCE", FEW)
    begun_and_ended(FEW + 1)
    note = deaths.Note("mortal", 1, 1)
    with pytest.raises(
        WorkerDiedError, match=f"{FEW + 1} worker processes ended under task mortal"
    ):
        note.begin()
    note.end(is_retried=False, has_finished=False)
    assert [path.name for path in tmp_path.iterdir()] == ["job"]


@pytest.mark.usefixtures("impatient")
def test_deaths_before_an_actor_served_are_forgiven(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(deaths, "PATIENCE", FEW)
    begun_and_ended(FEW)
    served = deaths.Note("mortal", 1, 1)
    served.begin()
    served.serve()
    served.leave()
    assert [path.name for path in tmp_path.iterdir()] == ["job-task"]
    begun_and_ended(FEW)
    note = deaths.Note("mortal", 1, 1)
    note.begin()
    assert note.num_forgiven == FEW
    note.end(is_retried=False, has_finished=True)


@pytest.mark.usefixtures("impatient")
def test_attempts_that_left_no_note_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deaths, "UNEXPLAINED", FEW)
    last = deaths.Note("mortal", 1, FEW + 2)
    last.begin()
    last.end(is_retried=False, has_finished=True)
    note = deaths.Note("mortal", 1, FEW + 3)
    with pytest.raises(WorkerDiedError, match=f"{FEW + 2} worker processes ended under"):
        note.begin()
    note.end(is_retried=False, has_finished=False)


@pytest.mark.usefixtures("impatient")
def test_where_no_task_finishes_that_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(deaths, "STANDSTILL", FEW)
    begun_and_ended(FEW)
    finished = deaths.Note("mortal", 1, 1)
    finished.begin()
    finished.end(is_retried=False, has_finished=True)
    assert not [*tmp_path.iterdir()]
    begun_and_ended(FEW + 1)
    note = deaths.Note("mortal", 1, 1)
    with pytest.raises(WorkerDiedError, match="and no task finished"):
        note.begin()
    note.end(is_retried=False, has_finished=False)
