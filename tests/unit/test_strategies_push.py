"""Push: what a merge takes, and what is written to disk."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError
from exoshuffle.shuffle import Push
from exoshuffle.testing.shuffles import small_plan
from tests.unit.test_strategies_exactly_once import stepped


class Sized:
    """Splits say how large a map output is; two partitions."""

    executor = "thread"

    def map(self, _: int, num_bytes: int) -> list[bytes]:
        return [bytes(num_bytes // 2), bytes(num_bytes - num_bytes // 2)]

    def merge(self, *blocks: list[bytes]) -> list[bytes]:
        return [b"".join(map(bytes, slices)) for slices in zip(*blocks, strict=True)]

    def reduce(self, _: int, slices: list[bytes]) -> int:
        return sum(map(len, slices))


TASKS = cast("Any", Sized())


def merges(sizes: list[int], merge_bytes: int, merge_factor: int) -> list[list[int]]:
    """What is merged, and whether nothing is lost of it."""
    with stepped() as engine:
        plan = small_plan(len(sizes), 2)
        plan = dataclasses.replace(plan, round_size=len(sizes), merge_factor=merge_factor)
        results = Push(merge_bytes=merge_bytes).shuffle(TASKS, sizes, plan)
        assert sum(xs.get(list(results))) == sum(sizes)
        return [[call.number for call in sources] for _, sources in engine.merged_by_node]


def test_a_merge_is_limited_by_blocks_and_by_bytes() -> None:
    assert merges([10] * 6, merge_bytes=1000, merge_factor=4) == [[0, 1, 2, 3], [4, 5]]
    assert merges([10] * 6, merge_bytes=30, merge_factor=4) == [[0, 1, 2], [3, 4, 5]]
    assert merges([10] * 6, merge_bytes=29, merge_factor=4) == [[0, 1], [2, 3], [4, 5]]


def test_a_block_that_finds_no_other_is_not_copied() -> None:
    assert merges([10, 10, 500, 10, 10, 10], merge_bytes=20, merge_factor=4) == [[0, 1], [3, 4]]
    assert merges([500, 500], merge_bytes=20, merge_factor=4) == []


def test_a_merge_takes_a_byte_at_least() -> None:
    with pytest.raises(OptionsError, match="merge_bytes is 0"):
        Push(merge_bytes=0)


def spilled_bytes(engine: LocalEngine, strategy: Push) -> int:
    """What a shuffle of 160 MB writes to disk within a budget of 90 MB."""
    before = engine.stats()["spilled_bytes"]
    sizes = [4_000_000] * 40
    plan = dataclasses.replace(small_plan(len(sizes), 2), round_size=4, merge_factor=4)
    results = xs.get(list(strategy.shuffle(TASKS, sizes, plan)))
    assert sum(results) == sum(sizes)
    return engine.stats()["spilled_bytes"] - before


def test_dropped_map_outputs_are_not_written(engine: LocalEngine) -> None:
    dropped = spilled_bytes(engine, Push(keep_map_outputs=False))
    kept = spilled_bytes(engine, Push(keep_map_outputs=True))
    # The merged blocks once, against the map outputs too: 160 MB and 284 MB were seen.
    assert 0 < dropped < 200_000_000
    assert kept > dropped + 50_000_000
