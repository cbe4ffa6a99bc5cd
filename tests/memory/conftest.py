"""Runs the command line as a process of its own and samples what its whole process tree keeps resident."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.local.memory import limits
from tests.memory.sampling import PROGRAM, Sampler


@dataclass(frozen=True)
class Measured:
    """The output of a command, and the most that its processes had resident together."""

    summary: dict[str, Any]
    peak_bytes: int


@dataclass(frozen=True)
class Refused:
    """The message of a command that failed, and the most that its processes had resident together."""

    message: str
    peak_bytes: int


@pytest.fixture
def measure() -> Callable[..., Measured]:
    """Runs ``exoshuffle ARGUMENTS --json`` and measures it from outside."""

    def run(*arguments: object) -> Measured:
        code, out, err, peak_bytes = watched([*map(str, arguments), "--json"])
        assert code == 0, err
        summary = json.loads(out)
        # The kernel's own high-water mark, which sampling may miss, is in the summary.
        return Measured(summary, max(peak_bytes, summary.get("peak_memory_bytes", 0)))

    return run


@pytest.fixture
def in_process() -> Iterator[None]:
    """An engine in this process, where nothing is measured, however much pytest has resident."""
    xs.init(memory_limit=limits.limit_for(500_000_000), num_cpus=2)
    yield
    xs.shutdown()


@pytest.fixture
def refuse() -> Callable[..., Refused]:
    """Runs ``exoshuffle ARGUMENTS``, which has to be refused, and measures it from outside."""

    def run(*arguments: object) -> Refused:
        code, _, err, peak_bytes = watched([*map(str, arguments)])
        assert code == 2, err
        return Refused(" ".join(err.split()), peak_bytes)

    return run


def watched(arguments: list[str]) -> tuple[int, str, str, int]:
    """Runs the command line: exit code, what it printed, and the most that its processes had resident together."""
    process = subprocess.Popen(
        [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    sampler = Sampler(process.pid)
    sampler.start()
    out, err = process.communicate(timeout=200)
    sampler.ended.set()
    sampler.join()
    return process.returncode, out, err, sampler.peak_bytes
