"""The conformance suite on the local engine; and after each test, that it left nothing behind."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import limits
from exoshuffle.futures import Engine
from exoshuffle.testing import EngineConformance
from exoshuffle.testing.meeting import poll


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A local engine with room for the workers of tasks that wait for others."""
    spill = tmp_path / "spill"
    spill.mkdir()
    made = xs.init(
        # Whatever pytest has resident.
        memory_limit=limits.limit_for(700_000_000),
        spill_dirs=str(spill),
        num_cpus=2,
        num_gpus=1,
        resources={"token": 1},
    )
    yield made
    # The test has let go of all its references: what is still stored now is a leak.
    poll(lambda: num_objects(made) == 0)
    xs.shutdown()
    gc.collect()
    assert list(spill.iterdir()) == []
    assert psutil.Process().children() == []
    assert [t.name for t in threading.enumerate() if t.name.startswith("exoshuffle")] == []


def num_objects(engine: Engine) -> int:
    """Objects that are stored. A task that is just ending holds what only the collector of garbage frees afterwards."""
    gc.collect()
    return engine.stats()["num_objects"]


class TestLocal(EngineConformance):
    """All of it."""
