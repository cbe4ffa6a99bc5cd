"""The conformance suite on Ray: one node for all tests, an engine of its own for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import exoshuffle as xs
from exoshuffle.futures import Engine
from exoshuffle.testing import EngineConformance

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def node() -> Iterator[None]:
    """Ray with one small node."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            num_cpus=2,
            num_gpus=1,
            resources={"token": 1},
            object_store_memory=250_000_000,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
        )
        yield
        ray.shutdown()


@pytest.fixture
def engine(node: None) -> Iterator[Engine]:
    """The engine uses the Ray that runs, and leaves it when it is closed."""
    del node
    yield xs.init(engine="ray")
    xs.shutdown()


class TestRay(EngineConformance):
    executors = ("process",)  # Ray has no other
