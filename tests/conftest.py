"""Fixtures: an engine with a small budget; and the check that no test leaves anything behind (``support/leaks.py``)."""

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
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.testing.meeting import poll
from tests.support.held import assert_closed, held
from tests.support.leaks import LeakCheck
from tests.support.limits import ROOMY_BUDGET_BYTES, SMALL_BUDGET_BYTES

settings.register_profile("default", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("default")


def pytest_configure(config: pytest.Config) -> None:
    """Every test is looked after."""
    # Shells and nohup have signals ignored in what they start in the background, and tests send them to what they run.
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
    """Tests have garbage collected a thousand times; what is there before the first one need not be looked at.

    Nor is what pyarrow keeps from its first use on: the readers of CSV a pipe, for signals.
    """
    csv.read_csv(io.BytesIO(b"a\n1\n"))
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """At exit libraries look whether their objects were freed."""
    gc.unfreeze()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """A local engine with a small budget and two CPUs; checks that closing it leaves nothing behind."""
    yield from checked_engine(tmp_path / "spill", SMALL_BUDGET_BYTES)


@pytest.fixture
def roomy_engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """The same for shuffles in worker processes."""
    yield from checked_engine(tmp_path / "spill", ROOMY_BUDGET_BYTES)


@pytest.fixture(scope="module")
def engine_of_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    """The same for all tests of a file."""
    yield from checked_engine(tmp_path_factory.mktemp("engine") / "spill", ROOMY_BUDGET_BYTES)


@pytest.fixture
def shared_engine(engine_of_file: LocalEngine) -> Iterator[LocalEngine]:
    """``engine_of_file``; checks that the test leaves nothing stored. Mark the file with ``shares_engine``.

    For tests in worker processes: starting these takes longer than what they then do.
    """
    yield engine_of_file
    poll(lambda: num_objects(engine_of_file) == 0)


def num_objects(engine: LocalEngine) -> int:
    """Objects that are stored. The collector of garbage frees the arguments of a task that was cancelled."""
    gc.collect()
    return engine.stats()["num_objects"]


def checked_engine(spill: Path, budget_bytes: int) -> Iterator[LocalEngine]:
    """An engine; looks at once when it is closed what it left, and into its spill directory."""
    before = held()
    spill.mkdir()
    limit = limits.limit_for(budget_bytes)
    made = xs.init(memory_limit=limit, spill_dirs=str(spill), num_cpus=2)
    assert isinstance(made, LocalEngine)
    yield made
    xs.shutdown()
    assert_closed(before)
    assert list(spill.iterdir()) == []
