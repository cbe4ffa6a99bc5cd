"""The conformance suite on the local engine; and after each test, that it left nothing behind.

Tests of one part of the suite share an engine, since starting worker processes takes longer than what they then do.
After a failure, and after a test that closes it, the next one gets another.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.engines.local.memory import limits
from exoshuffle.errors import ClosedError
from exoshuffle.futures import Engine
from exoshuffle.testing import EngineConformance
from exoshuffle.testing.meeting import poll

pytestmark = pytest.mark.shares_engine


class Shared:
    """One engine at a time, with room for the workers of tasks that wait for others."""

    def __init__(self, spill: Path) -> None:
        self.spill = spill
        self.part = ""
        self.engine: Engine | None = None

    def started(self, part: str) -> Engine:
        """An engine for a test of this part of the suite."""
        if self.engine is None or self.part != part:
            self.close()
            self.part = part
            self.engine = xs.init(
                # Whatever pytest has resident.
                memory_limit=limits.limit_for(700_000_000),
                spill_dirs=str(self.spill),
                num_cpus=2,
                num_gpus=1,
                resources={"token": 1},
            )
        return self.engine

    def close(self) -> None:
        """Closes it and looks into its spill directory."""
        self.engine = None
        xs.shutdown()
        assert list(self.spill.iterdir()) == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    made = Shared(tmp_path_factory.mktemp("spill"))
    yield made
    made.close()


@pytest.fixture
def engine(shared: Shared, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A local engine on which nothing runs and nothing is stored."""
    part, _, _ = request.function.__qualname__.partition(".")
    made = shared.started(part)
    yield made
    try:
        xs.put(None)
        # The test has let go of all its references: what is still stored now is a leak.
        poll(lambda: num_objects(made) == 0)
    except ClosedError:
        shared.close()
    except BaseException:
        shared.close()
        raise


def num_objects(engine: Engine) -> int:
    """Objects that are stored. A task that is just ending holds what only the collector of garbage frees afterwards."""
    gc.collect()
    return engine.stats()["num_objects"]


class TestLocal(EngineConformance):
    """All of it."""
