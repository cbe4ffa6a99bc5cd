"""Output and records of tasks on a Ray that is started here reach the program; nobody can type into its workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.errors import TaskError
from exoshuffle.testing.meeting import PATIENCE_SECONDS

PROGRAM = """
import logging, sys
import exoshuffle as xs

logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s", stream=sys.stderr)
xs.init("ray", num_cpus=1, memory_limit="500MB")

def tells(number):
    print("one", number)
    print("two\\nthree")
    logging.getLogger("of.user").info("logged %d", number)
    logging.getLogger("of.user").debug("not wanted")
    sys.stderr.write("no end")
    return number

class Actor:
    def tells(self):
        print("from an actor")

def outer():
    return xs.get(xs.remote(tells, name="inner").remote(2))

xs.get(xs.remote(tells, name="teller").remote(1))
xs.get(xs.remote(outer).remote())
xs.get(xs.remote(Actor).remote().tells.remote())
xs.shutdown()
"""


def test_what_tasks_print_and_log(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    out = re.sub(r"pid=\d+", "pid=N", done.stdout)
    assert out.splitlines() == [
        "(teller pid=N) one 1",
        "(teller pid=N) two",
        "(teller pid=N) three",
        "(inner pid=N) one 2",
        "(inner pid=N) two",
        "(inner pid=N) three",
        "(Actor.tells pid=N) from an actor",
    ]
    err = re.sub(r"pid=\d+", "pid=N", done.stderr)
    assert err.splitlines() == [
        "of.user INFO (teller pid=N) logged 1",
        "(teller pid=N) no end",
        "of.user INFO (inner pid=N) logged 2",
        "(inner pid=N) no end",
    ]


BEGINNING_PROGRAM = """
import exoshuffle as xs
from exoshuffle.futures import running
from exoshuffle.testing.meeting import Gate, pass_gate, poll

xs.init("ray", num_cpus=1, memory_limit="500MB")
gate = Gate()
run = xs.remote(pass_gate, tells_begin=True)
slow = run.remote(gate, 1)
behind = run.remote(gate, slow)
poll(lambda: running(slow).seconds > 0)
assert running(slow).node == xs.nodes()[0].name
assert running(behind) == (0, "")
gate.open()
assert xs.get(behind) == 1
assert running(slow) is running(behind) is None
"""


def test_tasks_tell_that_they_begin() -> None:
    program = [sys.executable, "-c", BEGINNING_PROGRAM]
    done = subprocess.run(program, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.usefixtures("node")
@pytest.mark.parametrize("how", ["breakpoint", "input", "stdin"])
def test_what_waits_for_somebody_to_type(how: str) -> None:
    def types() -> Any:
        if how == "breakpoint":
            breakpoint()
        return input() if how == "input" else sys.stdin.read()

    xs.init("ray")
    try:
        with pytest.raises(TaskError, match="nobody can type into a worker process; call the"):
            xs.get(xs.remote(types).remote(), timeout=PATIENCE_SECONDS)
        assert xs.get(xs.remote(os.getpid).remote()) != os.getpid()
    finally:
        xs.shutdown()
