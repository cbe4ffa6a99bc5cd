"""Processes that a program with an engine forks: they are told at once, or have engines of their own; it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from exoshuffle.testing.meeting import poll
from tests.faults.forked import PROGRAMS
from tests.faults.processes import ROOT, is_running


def begun(what: str, tmp_path: Path) -> subprocess.Popen[str]:
    """The program as a process."""
    spill = tmp_path / "spill"
    spill.mkdir()
    return subprocess.Popen(
        [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            "-m",
            "tests.faults.forked",
            what,
            str(spill),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("what", [*PROGRAMS])
def test_a_program_that_forks(what: str, tmp_path: Path) -> None:
    with begun(what, tmp_path) as program:
        try:
            out, err = program.communicate(timeout=120)
        finally:
            program.kill()
    assert (out, err, program.returncode) == ("done\n", "", 0)
    assert list((tmp_path / "spill").iterdir()) == []


def test_a_child_that_lives_on_keeps_no_worker(tmp_path: Path) -> None:
    with begun("lives_on", tmp_path) as program:
        assert program.stdout is not None
        worker, child = map(int, program.stdout.readline().split())
        try:
            program.kill()
            poll(lambda: not is_running(worker))
            assert is_running(child)
        finally:
            os.kill(child, signal.SIGKILL)
            program.kill()
