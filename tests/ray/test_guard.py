"""Functions on a Ray that was started here that take more memory than they declared are stopped, by name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

import exoshuffle as xs
from exoshuffle.errors import FunctionMemoryError, TaskError

pytestmark = [
    pytest.mark.shares_engine,  # starting a Ray takes seconds
    pytest.mark.keeps("thread exoshuffle-"),  # those of the engine
]

#: Of this, 350 MB can be declared.
MEMORY_LIMIT = "500MB"


@pytest.fixture(scope="module", autouse=True)
def _own(without_node: None) -> Iterator[None]:
    del without_node
    xs.init(engine="ray", memory_limit=MEMORY_LIMIT, num_cpus=2)
    yield
    xs.shutdown()


def taking(num_bytes: int) -> Callable[..., object]:
    """Returns a function that has so much memory in use, until somebody looks."""

    def greedy(rows: object, *_: object) -> object:
        if getattr(rows, "num_rows", 1):  # not where the schema is learnt
            taken = bytearray(b"x") * num_bytes
            time.sleep(0.2 if len(taken) else 0)
        return rows

    return greedy


class Greedy:
    """An actor that keeps what it takes."""

    def grow(self, num_bytes: int) -> int:
        self.taken = bytearray(b"x") * num_bytes
        time.sleep(0.2)
        return len(self.taken)


def start_others(num_bytes: int) -> None:
    """Has a process of a process take so much memory."""
    inner = f"taken = bytearray(b'x') * {num_bytes}; import time; time.sleep(0.5)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}], check=True)"
    subprocess.run([sys.executable, "-c", outer], check=True)


def rows() -> xs.Dataset:
    return xs.from_pydict({"a": range(1000)})


STOPPED = {
    "batches": (
        lambda: rows().map_batches(taking(600_000_000)).to_arrow(),
        r"taking.<locals>.greedy, in task scan, had \d+ MB of memory in its worker process, and 1.. MB were set apart "
        r"for it; the memory limit of 500 MB had no more. Declare with memory= ",
    ),
    "batches that declare too little": (
        lambda: rows().map_batches(taking(600_000_000), memory="100MB").to_arrow(),
        r"taking.<locals>.greedy, in task scan, .* 2.. MB were set apart",
    ),
    "behind a shuffle": (
        lambda: rows().sort("a").map_batches(taking(600_000_000)).to_arrow(),
        r"taking.<locals>.greedy, in task reduce,",
    ),
    "a task": (lambda: xs.get(xs.remote(taking(600_000_000)).remote(1)), "task greedy had"),
    "a task that is not tried again": (
        lambda: xs.get(xs.remote(taking(600_000_000), max_retries=0, name="once").remote(1)),
        "task once had",
    ),
    "what depends on it": (
        lambda: xs.get(xs.remote(repr).remote(xs.remote(taking(600_000_000)).remote(1))),
        "task greedy had",
    ),
    "a process of a process": (
        lambda: xs.get(xs.remote(start_others).remote(600_000_000)),
        r"task start_others had \d+ MB of memory in its worker process and 2 that it started, and",
    ),
    "an actor": (
        lambda: xs.get(xs.remote(Greedy).remote().grow.remote(600_000_000)),
        "task Greedy.grow had",
    ),
    "a call that may be repeated": (
        lambda: xs.get(
            xs.remote(Greedy, max_restarts=2)
            .remote()
            .grow.options(max_retries=2)
            .remote(600_000_000)
        ),
        "task Greedy.grow had",
    ),
}


@pytest.mark.parametrize("way", STOPPED)
def test_who_takes_more_than_there_is_is_stopped(way: str) -> None:
    run, words = STOPPED[way]
    with pytest.raises((TaskError, FunctionMemoryError)) as caught:
        run()
    error = caught.value.__cause__ if isinstance(caught.value, TaskError) else caught.value
    assert isinstance(error, FunctionMemoryError)
    assert re.match(words, str(error)), error


ALLOWED = {
    "what was declared": lambda: rows().map_batches(taking(260_000_000), memory="270MB"),
    "a little that was not": lambda: rows().map_batches(taking(100_000_000)),
}


@pytest.mark.parametrize("way", ALLOWED)
def test_who_leaves_the_others_their_share_is_not(way: str) -> None:
    assert ALLOWED[way]().to_arrow().num_rows == 1000


def leave() -> int:
    """Leaves in its worker what the next task does not know of, such as a library would."""
    os.left_behind = bytearray(b"x") * 150_000_000  # type: ignore[attr-defined]
    return os.getpid()


def take_the_rest() -> int:
    """Takes what it has declared; with what is left in the worker of ``leave`` that is too much."""
    taken = bytearray(b"x") * 340_000_000
    time.sleep(0.2)
    return os.getpid() if taken else 0


def test_what_another_task_has_left_is_not_blamed_on_the_next() -> None:
    everything = 340_000_000  # so one of them runs at a time
    before = xs.get(xs.remote(leave, memory=everything).remote())
    after = xs.get(xs.remote(take_the_rest, memory=everything).remote())
    assert after != before
