"""Fixtures of the tests of the Ray engine: a node of Ray's own, and a cluster of three."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import exoshuffle as xs

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402  after the check that there is a Ray

from exoshuffle.engines.ray import RayEngine  # noqa: E402  likewise
from exoshuffle.engines.ray.starting import system_config  # noqa: E402  likewise
from tests.ray.cluster import (  # noqa: E402  likewise
    STORE_BYTES,
    add_node,
    engine_on_the_ray_that_runs,
)

NUM_CPUS = 2


@pytest.fixture(autouse=True, scope="session")
def _quiet() -> Iterator[None]:
    """Ray sends nothing anywhere, warns of no change to come, and no cluster of the environment is used."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        environment.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        environment.delenv("RAY_ADDRESS", raising=False)
        yield


@pytest.fixture
def node() -> None:
    """Ray with one small node. Starting it takes seconds, so it stays for the tests behind that want it too."""
    if not ray.is_initialized():
        ray.init(
            address="local",  # not one that somebody else has started here
            num_cpus=NUM_CPUS,
            num_gpus=1,
            resources={"token": 1},
            object_store_memory=STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            _system_config=system_config(NUM_CPUS),
        )


@pytest.fixture(scope="module")
def without_node() -> None:
    """No Ray runs, for tests that start their own."""
    ray.shutdown()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``ray.get`` swallows what a signal handler raises: too long a test can only end with the process."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(method="thread"))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """The node ends with the last test of this folder."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        ray.shutdown()


@pytest.fixture
def engine(node: None) -> Iterator[RayEngine]:
    """An engine on that node, which it leaves running."""
    del node
    yield from engine_on_the_ray_that_runs(NUM_CPUS)


@pytest.fixture(scope="module")
def _cluster(without_node: None) -> Iterator[Cluster]:
    del without_node
    # Ray takes half a minute to believe that a node is dead; here, a few seconds.
    config = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_timeout_ms": 1000,
        "health_check_failure_threshold": 4,
    }
    made = Cluster()
    add_node(made, 0, _system_config=config)
    add_node(made, 1)
    yield made
    made.shutdown()


@pytest.fixture
def cluster(_cluster: Cluster) -> Iterator[Cluster]:
    """Three nodes of one CPU each, this program's first; the resources ``node0`` to ``node2`` tell them apart.

    Tests may end the last one.
    """
    if len(_cluster.list_all_nodes()) < 3:
        add_node(_cluster, 2)
        _cluster.wait_for_nodes()
    yield _cluster
    xs.shutdown()
