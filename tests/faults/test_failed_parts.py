"""Blocks for a later shuffle on the embedded engine: their order, and when one that fails is seen."""

from __future__ import annotations

from tests.support.failed_parts import FailedParts


class TestLocal(FailedParts):
    pass
