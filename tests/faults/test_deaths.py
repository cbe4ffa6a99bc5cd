"""Workers that are ended from outside: nothing is lost, however often; who ends its own fails after a few times."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.tasks import deaths
from exoshuffle.engines.local.workers.processes import WorkerProcess
from exoshuffle.errors import ActorDiedError, TaskError, WorkerDiedError
from exoshuffle.futures import ActorHandle
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Counter, helper
from exoshuffle.testing.programs import double

#: Fewer than by default.
FEW = 4


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deaths, "PATIENCE", FEW)
    monkeypatch.setattr(deaths, "PATIENCE_SECONDS", 0.0)


def die_at_first(attempts: ActorHandle, number: int, how: int) -> int:
    """Its worker dies in so many attempts."""
    attempt: int = xs.get(attempts.add.remote())
    if attempt <= number:
        if how < 0:
            os._exit(-how)
        # From outside, as far as this process knows.
        subprocess.run(["kill", f"-{how}", str(os.getpid())], check=True)  # noqa: S607
        signal.pause()
    return attempt


def died(ref: xs.Ref) -> TaskError:
    with pytest.raises(TaskError) as caught:
        xs.get(ref, timeout=PATIENCE_SECONDS)
    assert isinstance(caught.value.__cause__, WorkerDiedError)
    return caught.value


@pytest.mark.usefixtures("engine", "impatient")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_deaths_from_outside_are_no_attempts(how: int) -> None:
    run = xs.remote(die_at_first, max_retries=1)
    assert xs.get(run.remote(helper(Counter), FEW, how)) == FEW + 1


@pytest.mark.usefixtures("engine", "impatient")
def test_who_ends_its_worker_every_time_fails() -> None:
    attempts = helper(Counter)
    ref = xs.remote(die_at_first, max_retries=1).remote(attempts, 10**6, signal.SIGKILL)
    error = died(ref)
    assert f"{FEW + 1}th one under this task, whose longest attempt took " in str(error)
    assert error.attempt == xs.get(attempts.value.remote()) == FEW + 1


@pytest.mark.usefixtures("engine", "impatient")
@pytest.mark.parametrize("how", [-3, signal.SIGSEGV, signal.SIGABRT, signal.SIGALRM])
def test_exits_and_crashes_count(how: int) -> None:
    attempts = helper(Counter)
    error = died(xs.remote(die_at_first, max_retries=1).remote(attempts, 10**6, how))
    assert error.attempt == xs.get(attempts.value.remote()) == 2


@pytest.mark.usefixtures("engine")
def test_who_closes_the_connection_is_told() -> None:
    def closes(attempts: ActorHandle) -> None:
        xs.get(attempts.add.remote())
        os.closerange(3, 256)

    attempts = helper(Counter)
    error = died(xs.remote(closes, max_retries=1).remote(attempts))
    assert "closed descriptors that are not its own" in str(error)
    assert error.attempt == xs.get(attempts.value.remote()) == 2


@pytest.mark.usefixtures("engine")
def test_who_sets_a_timer_is_told() -> None:
    def sets_a_timer() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        signal.pause()

    error = died(xs.remote(sets_a_timer, max_retries=1).remote())
    assert "SIGALRM: a timer, a limit or a pipe of " in str(error)
    assert error.attempt == 2


@pytest.mark.usefixtures("engine")
def test_who_sends_itself_a_signal_is_known() -> None:
    def ends_itself(attempts: ActorHandle) -> None:
        xs.get(attempts.add.remote())
        os.kill(os.getpid(), signal.SIGKILL)

    attempts = helper(Counter)
    error = died(xs.remote(ends_itself, max_retries=1).remote(attempts))
    assert error.attempt == xs.get(attempts.value.remote()) == 2


@pytest.mark.usefixtures("engine")
def test_who_wants_no_retries_gets_none() -> None:
    attempts = helper(Counter)
    error = died(xs.remote(die_at_first, max_retries=0).remote(attempts, 10**6, signal.SIGKILL))
    assert error.attempt == xs.get(attempts.value.remote()) == 1


class Mortal:
    """An actor whose process ends in the calls that are told to."""

    def __init__(self) -> None:
        self.num_calls = 0

    def call(self, attempts: ActorHandle, number: int, how: int) -> tuple[int, int]:
        attempt = die_at_first(attempts, number, how)
        self.num_calls += 1
        return attempt, self.num_calls


@pytest.mark.usefixtures("engine", "impatient")
def test_an_actor_is_ended_from_outside_more_often_than_it_is_made_anew() -> None:
    actor = xs.remote(Mortal, max_restarts=1).remote()
    for _ in range(2):
        call = actor.call.options(max_retries=1)
        found = xs.get(call.remote(helper(Counter), FEW, signal.SIGKILL), timeout=PATIENCE_SECONDS)
        # The state is that of the constructor.
        assert found == (FEW + 1, 1)


@pytest.mark.usefixtures("engine", "impatient")
def test_an_actor_that_ends_its_process_every_time_ends() -> None:
    actor, attempts = xs.remote(Mortal, max_restarts=1).remote(), helper(Counter)
    with pytest.raises(TaskError):
        xs.get(
            actor.call.options(max_retries=1).remote(attempts, 10**6, signal.SIGKILL),
            timeout=PATIENCE_SECONDS,
        )
    assert xs.get(attempts.value.remote()) <= 2 * FEW


@pytest.mark.usefixtures("engine", "impatient")
def test_actors_that_are_not_to_be_made_anew_are_not() -> None:
    actor, attempts = xs.remote(Mortal).remote(), helper(Counter)
    with pytest.raises(ActorDiedError):
        xs.get(actor.call.options(max_retries=1).remote(attempts, 10**6, signal.SIGKILL))
    assert xs.get(attempts.value.remote()) == 1


def test_the_bound_grows_with_what_others_finish() -> None:
    bounds = [deaths.most_deaths(number) for number in (0, 1, 2, 100, 10_000)]
    assert bounds == sorted(set(bounds))
    assert bounds[0] == deaths.PATIENCE
    assert bounds[-1] < 20 * deaths.PATIENCE


def test_each_task_loses_its_worker_more_often_than_it_is_retried(
    roomy_engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, killed = WorkerProcess.run, 0

    def run_and_be_killed(self: WorkerProcess, task: Any, *args: Any) -> Any:
        nonlocal killed
        if task.attempt <= 5:
            self.kill()
            killed += 1
        return run(self, task, *args)

    monkeypatch.setattr(WorkerProcess, "run", run_and_be_killed)
    table = pa.table({"a": [number * 7919 % 10_007 for number in range(10_007)]})
    parquet.write_table(table, tmp_path / "in.parquet")
    rows = xs.read_parquet(tmp_path / "in.parquet")
    made = rows.map_batches(same, schema=rows.schema).sort("a").to_arrow()
    assert made["a"].to_pylist() == [*range(10_007)]
    assert killed >= 10
    assert roomy_engine.stats()["num_tasks"] > 0
    monkeypatch.undo()
    assert xs.get(xs.remote(double).remote(2)) == 4


@pytest.mark.usefixtures("impatient")
def test_workers_that_are_ended_before_they_run_anything(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    greet, killed = WorkerProcess.greet, 0

    def be_killed_and_greet(self: WorkerProcess) -> None:
        nonlocal killed
        if killed < 2 * FEW:
            killed += 1
            self.kill()
        greet(self)

    monkeypatch.setattr(WorkerProcess, "greet", be_killed_and_greet)
    assert xs.get(xs.remote(double, max_retries=0).remote(2), timeout=PATIENCE_SECONDS) == 4
    assert engine.pool.num_blameless == killed == 2 * FEW


def same(batch: pa.Table) -> pa.Table:
    return batch
