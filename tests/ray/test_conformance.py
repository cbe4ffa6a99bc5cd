"""The conformance suite on Ray: an engine of its own for each test, on a node, and on a cluster, that all share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.runtime_context import RuntimeContext

from exoshuffle.engines.ray import RayEngine
from exoshuffle.engines.ray.starting import _RETRIES_SINCE, system_config
from exoshuffle.engines.ray.versions import ray_version
from exoshuffle.testing import EngineConformance
from tests.ray.cluster import STORE_BYTES, engine_on_the_ray_that_runs


class OnRay(EngineConformance):
    executors = ("process",)  # Ray has no other

    @pytest.mark.skip(
        reason="Ray cannot tell whether a task has begun, so one that nobody wants runs all the same"
    )
    def test_what_nobody_can_ask_for_never_starts(self) -> None: ...

    @pytest.mark.skipif(
        ray_version() < _RETRIES_SINCE,
        reason="this Ray repeats a call at once, and may have no retries left when its actor is back",
    )
    def test_calls_with_retries_outlive_a_death(self) -> None:
        super().test_calls_with_retries_outlive_a_death()

    @pytest.mark.skipif(
        not hasattr(RuntimeContext, "is_canceled"),
        reason="this Ray does not tell its way to cancel a task from an interrupt of the function",
    )
    def test_an_interrupt_that_a_function_raises_is_its_error(self, executor: str) -> None:
        super().test_an_interrupt_that_a_function_raises_is_its_error(executor)

    @pytest.mark.skipif(
        not hasattr(RuntimeContext, "is_canceled"),
        reason="this Ray does not tell a call of an actor that it was cancelled, so it never ends",
    )
    def test_an_actor_goes_on_after_a_dropped_stream(self, executor: str) -> None:
        super().test_an_actor_goes_on_after_a_dropped_stream(executor)


class TestOneNode(OnRay):
    pass


@pytest.fixture(scope="module")
def _started(without_node: None) -> Iterator[list[Cluster]]:
    """The cluster that runs, if any."""
    del without_node
    started: list[Cluster] = []
    yield started
    ray.shutdown()
    for cluster in started:
        cluster.shutdown()


@pytest.fixture
def three_nodes(_started: list[Cluster]) -> None:
    """A cluster that this process is connected to, with a CPU on each node, the GPU and the token on the last."""
    if ray.is_initialized():
        return
    if _started:
        _started.pop().shutdown()
    made = Cluster()
    _started.append(made)
    made.add_node(num_cpus=1, object_store_memory=STORE_BYTES, _system_config=system_config(1))
    made.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    things = {"num_gpus": 1, "resources": {"token": 1}}
    made.add_node(num_cpus=1, object_store_memory=STORE_BYTES, **things)
    made.wait_for_nodes()
    ray.init(made.address, log_to_driver=False, logging_level="error")


class TestThreeNodes(OnRay):
    @pytest.fixture
    def engine(self, three_nodes: None) -> Iterator[RayEngine]:
        del three_nodes
        yield from engine_on_the_ray_that_runs(num_cpus=3)
