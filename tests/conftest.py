"""Fixtures: an engine with a small budget, and the check that nothing is left behind by any test."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb  # noqa: F401  loaded before any engine starts, which else takes it off its small budget later
import pyarrow as pa  # noqa: F401  likewise
import pytest
from hypothesis import settings

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine, limits

settings.register_profile("default", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("default")

#: Budget of the small engine: two tasks fit, 100 MB do not.
SMALL_BUDGET_BYTES = 90_000_000


#: Beside two worker processes, which take half of the small one.
ROOMY_BUDGET_BYTES = 160_000_000


def pytest_collection_finish() -> None:
    """Tests have garbage collected a thousand times; what is there before the first one need not be looked at."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """At exit libraries look whether their objects were freed."""
    gc.unfreeze()


def small_memory_limit() -> int:
    """A memory limit that leaves the small budget to blocks and tasks, whatever pytest has resident."""
    return limits.limit_for(SMALL_BUDGET_BYTES)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """A local engine with a small budget and two CPUs; checks that closing it leaves nothing behind."""
    yield from checked_engine(tmp_path / "spill", SMALL_BUDGET_BYTES)


@pytest.fixture
def roomy_engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """The same for shuffles in worker processes."""
    yield from checked_engine(tmp_path / "spill", ROOMY_BUDGET_BYTES)


def checked_engine(spill: Path, budget_bytes: int) -> Iterator[LocalEngine]:
    """An engine; looks afterwards what it left behind."""
    spill.mkdir()
    limit = limits.limit_for(budget_bytes)
    made = xs.init(memory_limit=limit, spill_dirs=str(spill), num_cpus=2)
    assert isinstance(made, LocalEngine)
    yield made
    xs.shutdown()
    gc.collect()
    assert list(spill.iterdir()) == []
    threads = [t.name for t in threading.enumerate() if t.name.startswith("exoshuffle")]
    assert threads == []
    assert not [target for target in open_files() if str(spill) in target]


def open_files() -> list[str]:
    """What the file descriptors of this process point to."""
    targets = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            continue
    return targets
