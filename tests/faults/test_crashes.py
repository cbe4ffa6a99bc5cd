"""Functions that crash their worker: told as that, and where, after a few attempts; what they started ends with it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import exoshuffle as xs
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.tasks.deaths import Crashes
from exoshuffle.engines.local.workers.processes import WorkerProcess
from exoshuffle.errors import TaskError, WorkerDiedError
from exoshuffle.futures import ActorHandle
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Counter, Log, helper, poll
from tests.faults.processes import ROOT, is_running


def reads_nowhere(*_: Any) -> Any:
    return ctypes.string_at(0)


def aborts(*_: Any) -> Any:
    os.abort()


def leaves(*_: Any) -> Any:
    os._exit(3)


CRASHES = [
    (
        reads_nowhere,
        "signal SIGSEGV: {0}, or what that called, crashed in (string_at|reads_nowhere) .*faulthandler",
    ),
    (
        aborts,
        "signal SIGABRT: {0}, or what that called, crashed in aborts .*test_crashes.py:.*faulthandler",
    ),
    (leaves, r"exit code 3: {0}, or what that called, ended it \(os._exit\); let it raise"),
]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("crash", "words"), CRASHES, ids=["SIGSEGV", "SIGABRT", "exit"])
def test_a_crash_is_told(crash: Any, words: str) -> None:
    attempts = helper(Counter)

    def counted() -> Any:
        xs.get(attempts.add.remote())
        return crash()

    with pytest.raises(TaskError, match=words.format("its function")) as caught:
        xs.get(xs.remote(counted).remote(), timeout=PATIENCE_SECONDS)
    assert isinstance(caught.value.__cause__, WorkerDiedError)
    assert xs.get(attempts.value.remote()) == caught.value.attempt == 4


@pytest.mark.usefixtures("roomy_engine")
@pytest.mark.parametrize(("crash", "words"), CRASHES, ids=["SIGSEGV", "SIGABRT", "exit"])
def test_a_crash_in_every_batch_ends_soon(
    crash: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    greet = WorkerProcess.greet
    monkeypatch.setattr(WorkerProcess, "greet", lambda self: (started.append(self), greet(self))[1])
    again: list[bool] = []
    add = Crashes.add
    monkeypatch.setattr(Crashes, "add", lambda *args: again.append(add(*args)) or again[-1])
    table = pa.table({"a": range(100_000)})
    (tmp_path / "in").mkdir()
    for number in range(200):
        parquet.write_table(table, tmp_path / f"in/{number}.parquet")
    rows = xs.read_parquet(tmp_path / "in")
    with pytest.raises(TaskError, match=words.format(crash.__name__)):
        rows.map_batches(crash, schema=rows.schema).write_parquet(tmp_path / "out")
    # So many are tried again; of 200 tasks a few more begin before the program has heard of the failure.
    assert again.count(True) == 4
    assert len(started) - len(again) <= 2
    assert len(started) <= 16
    assert not (tmp_path / "out").exists()


def starts_another(pids: ActorHandle, end: str) -> None:
    other = subprocess.Popen(["sleep", "1000"])  # noqa: S607
    xs.get(pids.append.remote(other.pid))
    if end == "crash":
        os.abort()
    if end == "stays":
        return
    signal.pause()


@pytest.mark.parametrize("end", ["crash", "cancel", "close"])
def test_what_a_function_starts_ends_with_its_worker(end: str, tmp_path: Path) -> None:
    xs.init(memory_limit=limits.limit_for(200_000_000), num_cpus=2, spill_dirs=str(tmp_path))
    try:
        pids = helper(Log)
        ref = xs.remote(starts_another, max_retries=0).remote(pids, end)
        poll(lambda: len(xs.get(pids.items.remote())) == 1)
        (pid,) = xs.get(pids.items.remote())
        if end == "cancel":
            assert is_running(pid)
            assert xs.cancel(ref)
        if end == "close":
            assert is_running(pid)
            xs.shutdown()
        poll(lambda: not is_running(pid))
    finally:
        xs.shutdown()


KILLED = """
import subprocess, sys, signal
import exoshuffle as xs

def starts():
    return subprocess.Popen(["sleep", "1000"]).pid

xs.init(memory_limit="500MB", num_cpus=1, spill_dirs=sys.argv[1])
print(xs.get(xs.remote(starts).remote()), flush=True)
signal.pause()
"""


def test_what_a_function_starts_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        assert is_running(pid)
        program.kill()
        program.wait()
        poll(lambda: not is_running(pid))
