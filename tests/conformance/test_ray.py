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
            address="local",  # not one that somebody else has started here
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

    @pytest.mark.skip(
        reason="Ray cannot tell whether a task has begun, so one that nobody wants runs all the same"
    )
    def test_what_nobody_can_ask_for_never_starts(self) -> None: ...

    @pytest.mark.skip(reason="Ray cannot cancel a call of an actor")
    def test_a_cancelled_call_lets_those_behind_it_go_on(self) -> None: ...

    @pytest.mark.skip(reason="Ray goes on with a generator of an actor whose stream was dropped")
    def test_an_actor_goes_on_after_a_dropped_stream(self) -> None: ...

    @pytest.mark.skip(
        reason="Ray does not repeat calls that were made while the actor was being restarted"
    )
    def test_calls_with_retries_outlive_a_death(self) -> None: ...
