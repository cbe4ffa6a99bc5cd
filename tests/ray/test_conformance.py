"""The conformance suite on Ray: an engine of its own for each test, on the node that all share."""

from __future__ import annotations

import pytest

from exoshuffle.testing import EngineConformance


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
