"""Blocks for a later shuffle on Ray: failures are seen as on the embedded engine, sizes known without the blocks."""

from __future__ import annotations

from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.ray import state
from exoshuffle.engines.ray.values import Status
from tests.support.failed_parts import FailedParts


class TestRay(FailedParts):
    pass


@pytest.mark.usefixtures("engine")
def test_sizes_of_items_are_known_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[Any] = []

    def fetch(*arguments: Any) -> Any:
        fetched.extend(values := state_fetch(*arguments))
        return values

    state_fetch = state.fetch
    monkeypatch.setattr(state, "fetch", fetch)
    make = xs.remote(lambda: (bytes(size) for size in (1000, 3_000_000)), num_returns="streaming")
    small, large = map(sum, xs.slice_bytes(list(make.remote())))
    assert 1000 <= small < 2000
    assert 3_000_000 <= large < 3_001_000
    assert {type(value) for value in fetched} == {Status}
