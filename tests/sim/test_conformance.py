"""The conformance suite on the engine in virtual time, where functions run and values exist."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import exoshuffle as xs
from exoshuffle.engines.sim import Cluster, Disk, Machine, SimEngine
from exoshuffle.futures import Engine
from exoshuffle.testing import (
    ActorConformance,
    ErrorConformance,
    LifecycleConformance,
    ReferenceConformance,
    ResourceConformance,
    ShuffleConformance,
    SliceConformance,
    StreamConformance,
    TaskConformance,
    WaitConformance,
)
from exoshuffle.testing.programs import double

MACHINE = Machine(2, 300_000_000, Disk(200e6, 200e6), 1e9)
WITH_GPU = Machine(2, 300_000_000, Disk(200e6, 200e6), 1e9, num_gpus=1, resources={"token": 1})


@pytest.fixture(params=[1, 3], ids=["one-node", "three-nodes"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    cluster = Cluster((WITH_GPU, *[MACHINE] * (request.param - 1)))
    yield xs.init(SimEngine(cluster))
    xs.shutdown()


class TestSim(
    TaskConformance,
    ReferenceConformance,
    SliceConformance,
    StreamConformance,
    ActorConformance,
    ErrorConformance,
    ResourceConformance,
    ShuffleConformance,
    LifecycleConformance,
    WaitConformance,
):
    executors = ("process",)

    def test_working_memory(self, engine: Engine, executor: str) -> None:
        """As in the suite, but no task can have memory of several nodes."""
        of_one = engine.budget_bytes // len(engine.nodes())
        run = xs.remote(double, executor=executor, memory=of_one // 2)
        assert xs.get([run.remote(i) for i in range(4)]) == [0, 2, 4, 6]
