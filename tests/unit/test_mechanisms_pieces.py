"""Merges in pieces: how many, what each takes, and that one which is larger than planned is left to the reduces."""

from __future__ import annotations

import dataclasses

import pytest

import exoshuffle as xs
from exoshuffle.strategies import FixedFiles, MergeOptions, PreShuffleMerge
from exoshuffle.strategies.mechanisms import pieces
from exoshuffle.strategies.mechanisms.node_ranges import by_node
from exoshuffle.strategies.mechanisms.pieces import (
    READ_BYTES,
    group_memory_bytes,
    num_pieces,
    piece_ranges,
    piece_readings,
)
from exoshuffle.testing.programs import LabelTasks
from exoshuffle.testing.shuffles import small_plan
from tests.unit.stepped import stepped

MB = 10**6


def test_two_merges_of_a_group_have_room_at_once() -> None:
    # 10 blocks of 32 MB, and results as large, twice at once: 1,280 MB.
    assert num_pieces(320 * MB, 32 * MB, 1000, 1280 * MB) == 1
    assert num_pieces(320 * MB, 32 * MB, 1000, 320 * MB) == 4
    # No more pieces than are worth reading, and than there are partitions.
    assert num_pieces(320 * MB, 32 * MB, 1000, 1) == 32 * MB // READ_BYTES
    assert num_pieces(320 * MB, 32 * MB, 3, 1) == 3
    assert num_pieces(320, 32, 1000, 0) == 1


def test_pieces_of_a_full_group_leave_room_to_differ() -> None:
    assert group_memory_bytes(1, 100) == 100
    assert group_memory_bytes(4, 100) == 300


@pytest.mark.parametrize(("num_partitions", "count"), [(1, 1), (7, 3), (1000, 32), (5, 5)])
def test_ranges_are_all_partitions(num_partitions: int, count: int) -> None:
    ranges = piece_ranges(num_partitions, count)
    assert [each for mine in ranges for each in mine] == list(range(num_partitions))
    assert len(ranges) == count
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1


def test_a_piece_that_has_no_room_is_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most bytes are of the first of four partitions, so the piece of that one is larger than the memory for merges."""
    monkeypatch.setattr(pieces, "slice_bytes", lambda blocks: [[7 * MB, 1, 1, 1] for _ in blocks])
    # Blocks of 4 MB are planned.
    plan = dataclasses.replace(small_plan(4, 4), split_bytes=4 * READ_BYTES)
    with stepped() as engine:
        options = MergeOptions(FixedFiles(4), memory_bytes=12 * READ_BYTES, clock=engine.clock)
        splits = [[number] for number in range(4)]
        results = list(PreShuffleMerge(options).shuffle(LabelTasks(4), splits, plan))
        found = [rows for _, rows in xs.get(results)]
        num_merges = len(engine.merged_by_node)
    assert found == [[(index, part, index) for index in range(4)] for part in range(4)]
    assert num_merges == 3


@pytest.mark.parametrize("num_nodes", [1, 3])
def test_the_pieces_of_a_node_are_reduced_one_after_the_other(num_nodes: int) -> None:
    with stepped(num_nodes=num_nodes):
        ranges = piece_ranges(40, 7)
        runs = by_node(piece_readings(ranges, [[] for _ in ranges], 40))
    assert len(runs) == num_nodes
    partitions = [part for run in runs for reading in run for part in reading.partitions]
    assert partitions == list(range(40))
