"""The end of the driving program, however it comes: no worker, no file and no shared memory stays behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exoshuffle.testing.meeting import poll
from tests.faults.processes import ROOT, is_running


class Driver:
    """``tests.faults.driver`` as a process group of its own, as a shell would start it."""

    def __init__(self, what: str, spill: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.driver", what, str(spill)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def told(self) -> dict[str, Any]:
        """The line that it prints when it has come so far."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            _, err = self.process.communicate(timeout=10)
            raise AssertionError(err)
        found: dict[str, Any] = json.loads(line)
        return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts a driver; afterwards nothing may lie where it spilled."""
    with contextlib.ExitStack() as drivers:

        def begin(what: str) -> Driver:
            driver = Driver(what, tmp_path)
            drivers.callback(driver.process.communicate)
            drivers.callback(driver.process.kill)
            return driver

        yield begin
    assert list(tmp_path.iterdir()) == []


def await_ends(pids: list[int]) -> None:
    poll(lambda: not any(map(is_running, pids)))


def files_of(pid: int) -> list[str]:
    """The files that a process has open or mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    found = [line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6]
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(os.readlink(descriptor))
    return found


def test_workers_end_with_a_driver_that_is_killed(start: Any, tmp_path: Path) -> None:
    driver = start("wait")
    told = driver.told()
    # Three workers, and the server that they were forked from.
    assert len(told["children"]) == 4
    assert told["busy"] in told["children"]
    # There is something to leave behind; all of it goes with those who have it open.
    assert told["spilled"] > 0
    files = [file for pid in (driver.process.pid, *told["children"]) for file in files_of(pid)]
    spilled = [file for file in files if file.startswith(str(tmp_path))]
    assert spilled
    assert [file for file in spilled if not file.endswith(" (deleted)")] == []
    assert [file for file in files if file.startswith("/dev/shm/")] == []  # noqa: S108  none is used
    driver.process.kill()
    driver.process.wait(timeout=10)
    await_ends(told["children"])


@pytest.mark.parametrize("what", ["wait", "start", "text"])
def test_ctrl_c_ends_driver_and_workers(start: Any, what: str) -> None:
    driver = start(what)
    children = driver.told()["children"]
    sent = time.monotonic()
    os.killpg(driver.process.pid, signal.SIGINT)
    _, err = driver.process.communicate(timeout=30)
    # On busy cores the end takes seconds; tasks that wait would take for ever.
    assert time.monotonic() - sent < 10
    # Python ends itself by the signal, which a shell shows as 130.
    assert driver.process.returncode == -signal.SIGINT, err
    assert err.splitlines()[-1] == "KeyboardInterrupt"
    assert err.count("Traceback") == 1
    await_ends(children)


def test_a_driver_that_ends_does_not_wait_for_tasks(start: Any) -> None:
    driver = start("leave")
    children = driver.told()["children"]
    _, err = driver.process.communicate(timeout=30)
    assert driver.process.returncode == 3, err
    assert err == ""
    await_ends(children)


def test_what_workers_print_is_seen(start: Any) -> None:
    driver = start("print")
    assert re.fullmatch(r"\(shout pid=\d+\) from a worker\n", driver.process.stdout.readline())
    driver.told()
    _, err = driver.process.communicate(timeout=30)
    assert driver.process.returncode == 0
    assert err == "and this\n"
