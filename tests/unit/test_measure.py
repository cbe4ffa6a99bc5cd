"""The memory that benchmarks report for a program is that of its own process tree."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.measure import _TreeSampler, measure

MANY = 200_000_000
HOLD = f"import sys; held = bytearray(b'x') * {MANY}; print('ready', flush=True); sys.stdin.read()"


def test_the_memory_of_the_one_who_measures_does_not_count() -> None:
    held = bytearray(b"x") * MANY
    assert measure([sys.executable, "-c", "pass"]).peak_bytes < MANY
    assert len(held) == MANY


def test_all_processes_of_the_tree_count_together() -> None:
    sampler = _TreeSampler(os.getpid())
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            child = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            )
            assert child.stdout.readline() == b"ready\n"
        sampler.sample(sampler.scan())
    assert sampler.peak_bytes > 2 * MANY


def test_output_errors_and_exit_code_are_kept() -> None:
    program = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    measured = measure([sys.executable, "-c", program])
    assert (measured.output, measured.errors, measured.exit_code) == ("out\n", "err\n", 3)


def test_programs_keep_their_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    measured = measure([sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"])
    assert measured.output == "False\n"


def test_processor_time_is_that_of_the_program_and_of_its_processes() -> None:
    busy = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}], check=True)"
    assert measure([sys.executable, "-c", f"{child}; {busy}"]).cpu_seconds > 0.6
    assert measure([sys.executable, "-c", "import time; time.sleep(0.4)"]).cpu_seconds < 0.3


def test_a_program_that_takes_too_long_is_killed_with_its_processes(tmp_path: Path) -> None:
    wait = "import sys, time; print(sys.argv, flush=True); time.sleep(600)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {wait!r}, {str(tmp_path)!r}])"
    measured = measure([sys.executable, "-c", child], timeout_seconds=0.5)
    assert measured.exit_code == -signal.SIGKILL
    assert measured.errors.endswith("stopped after 0.5 s")
    assert not [
        one
        for one in psutil.process_iter(["cmdline"])
        if str(tmp_path) in (one.info["cmdline"] or ())
    ]
