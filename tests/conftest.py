"""Fixtures: an engine with a small budget, and the check that no test leaves anything behind (``leaks.py``)."""

from __future__ import annotations

import gc
import io
import signal
from collections.abc import Iterator
from pathlib import Path

import duckdb  # noqa: F401  loaded before any engine starts, which else takes it off its small budget later
import pyarrow as pa  # noqa: F401  likewise
import pytest
from hypothesis import settings
from pyarrow import csv

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine, limits
from exoshuffle.testing.meeting import poll
from tests.held import assert_closed, held
from tests.leaks import LeakCheck

settings.register_profile("default", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("default")

#: Budget of the small engine: two tasks fit, 100 MB do not.
SMALL_BUDGET_BYTES = 90_000_000


#: Budget with room for two worker processes, which take half of the small one.
ROOMY_BUDGET_BYTES = 160_000_000
#: Budget of a program within a gigabyte.
LARGE_BUDGET_BYTES = 700_000_000


def pytest_configure(config: pytest.Config) -> None:
    """Registers the check for leaks and the default reaction to SIGINT."""
    # Shells and nohup start background programs with signals ignored, and tests send signals to the programs they run.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    config.pluginmanager.register(LeakCheck())
    for marker in (
        "keeps(word, why): what has the word in its name may stay after the test",
        "shares_engine: an engine may stay for the next test of the file",
    ):
        config.addinivalue_line("markers", marker)


def pytest_collection_finish() -> None:
    """Keeps objects that exist before the first test out of garbage collection, which tests run a thousand times.

    Also uses pyarrow once, since it keeps things from its first use on: the readers of CSV keep a pipe, for signals.
    """
    csv.read_csv(io.BytesIO(b"a\n1\n"))
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Undoes this, since libraries look at exit whether their objects were freed."""
    gc.unfreeze()


def small_memory_limit() -> int:
    """Returns a memory limit that leaves the small budget to blocks and tasks, whatever pytest has resident."""
    return limits.limit_for(SMALL_BUDGET_BYTES)


def large_memory_limit() -> int:
    """Returns a memory limit that leaves a gigabyte or so.

    A fixed limit would be used up by the memory that pytest has resident after thousands of tests.
    """
    return limits.limit_for(LARGE_BUDGET_BYTES)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """Yields a local engine with a small budget and two CPUs; checks that closing it leaves nothing behind."""
    yield from checked_engine(tmp_path / "spill", SMALL_BUDGET_BYTES)


@pytest.fixture
def roomy_engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """Yields an engine for shuffles in worker processes."""
    yield from checked_engine(tmp_path / "spill", ROOMY_BUDGET_BYTES)


@pytest.fixture(scope="module")
def engine_of_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    """Yields one engine for all tests of a file."""
    yield from checked_engine(tmp_path_factory.mktemp("engine") / "spill", ROOMY_BUDGET_BYTES)


@pytest.fixture
def shared_engine(engine_of_file: LocalEngine) -> Iterator[LocalEngine]:
    """Yields ``engine_of_file``; checks that the test leaves nothing stored. Mark the file with ``shares_engine``.

    For tests in worker processes: starting these takes longer than the tests themselves.
    """
    yield engine_of_file
    poll(lambda: num_objects(engine_of_file) == 0)


def num_objects(engine: LocalEngine) -> int:
    """Returns the number of stored objects, after the garbage collector has freed the arguments of cancelled tasks."""
    gc.collect()
    return engine.stats()["num_objects"]


def checked_engine(spill: Path, budget_bytes: int) -> Iterator[LocalEngine]:
    """Yields an engine; checks what it left, also in its spill directory, at once when it is closed."""
    before = held()
    spill.mkdir()
    limit = limits.limit_for(budget_bytes)
    made = xs.init(memory_limit=limit, spill_dirs=str(spill), num_cpus=2)
    assert isinstance(made, LocalEngine)
    yield made
    xs.shutdown()
    assert_closed(before)
    assert list(spill.iterdir()) == []
