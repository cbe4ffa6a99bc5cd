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
