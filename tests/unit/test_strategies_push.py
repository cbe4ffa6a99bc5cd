"""Push: what a merge takes, and what is written to disk."""

from __future__ import annotations

import dataclasses
from typing import Any, cast
from unittest import mock

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError, TaskError
from exoshuffle.strategies import BestEffort, Push
from exoshuffle.testing import assert_every_row_arrives
from exoshuffle.testing.programs import LabelTasks
from exoshuffle.testing.shuffles import small_plan
from tests.unit.stepped import NEVER, Call, Script, SteppedEngine, stepped


class Sized:
    """Splits say how large a map output is; two partitions."""

    executor = "thread"

    def map(self, _: int, num_bytes: int) -> list[bytes]:
        return [bytes(num_bytes // 2), bytes(num_bytes - num_bytes // 2)]

    def merge(self, *blocks: list[bytes]) -> list[bytes] | bytes:
        merged = [b"".join(map(bytes, slices)) for slices in zip(*blocks, strict=True)]
        return merged if len(merged) > 1 else merged[0]

    def reduce(self, _: int, slices: list[bytes]) -> int:
        return sum(map(len, slices))


TASKS = cast("Any", Sized())


def merges(sizes: list[int], merge_bytes: int, merge_factor: int) -> list[list[int]]:
    """The blocks that are merged, of which nothing is lost."""
    with stepped() as engine:
        plan = small_plan(len(sizes), 2)
        plan = dataclasses.replace(plan, round_size=len(sizes), merge_factor=merge_factor)
        results = Push(merge_bytes=merge_bytes).shuffle(TASKS, sizes, plan)
        assert sum(xs.get(list(results))) == sum(sizes)
        assert set(engine.submitted) <= {"map", "merge", "reduce"}, "the engine tells sizes"
        return [[call.number for call in sources] for _, sources in engine.merged_by_node]


def test_a_merge_is_limited_by_blocks_and_by_bytes() -> None:
    assert merges([10] * 6, merge_bytes=1000, merge_factor=4) == [[0, 1, 2, 3], [4, 5]]
    assert merges([10] * 6, merge_bytes=30, merge_factor=4) == [[0, 1, 2], [3, 4, 5]]
    assert merges([10] * 6, merge_bytes=29, merge_factor=4) == [[0, 1], [2, 3], [4, 5]]


def test_a_block_that_finds_no_other_is_not_copied() -> None:
    assert merges([10, 10, 500, 10, 10, 10], merge_bytes=20, merge_factor=4) == [[0, 1], [3, 4]]
    assert merges([500, 500], merge_bytes=20, merge_factor=4) == []


@pytest.mark.parametrize(
    ("push", "cuts"),
    [(Push(), ()), (Push(keep_map_outputs=True), None), (Push(merge_bytes=1000), None)],
    ids=["only merges", "reduces where merges fail", "reduces of large ones"],
)
def test_engines_know_where_only_merges_take_map_outputs(push: Push, cuts: object) -> None:
    """Ray kept 32 objects of each, although merges took them all."""
    with stepped() as engine, mock.patch.object(engine, "submit", wraps=engine.submit) as submit:
        list(push.shuffle(TASKS, [10] * 4, small_plan(4, 2)))
        told = [call.args[-1] for call in submit.call_args_list]
    assert [options.cuts for options in told if options.name == "map"] == [cuts] * 4


def test_a_merge_takes_a_byte_at_least() -> None:
    with pytest.raises(OptionsError, match="merge_bytes is 0"):
        Push(merge_bytes=0)


# --- on several nodes ----------------------------------------------------------------------------------------------


def test_each_node_merges_and_reduces_its_range_of_the_partitions() -> None:
    with stepped(num_nodes=3) as engine:
        assert_every_row_arrives(Push(), 8, 6)
        # Rounds of four maps, merged in pairs, on each of three nodes.
        by_node = [(node, [call.number for call in calls]) for node, calls in engine.merged_by_node]
        nodes = ["node0", "node1", "node2"]
        pairs = [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
        assert by_node == [(node, each) for pair in pairs for node in nodes for each in pair]
        # Results come in order, and the nodes have had reduces in turn.
        assert engine.reduced_at == [
            *((0, "node0"), (2, "node1"), (4, "node2")),
            *((1, "node0"), (3, "node1"), (5, "node2")),
        ]


def test_a_merger_that_is_behind_holds_up_the_maps() -> None:
    slow = Script(lambda call: NEVER if call == Call("merge", 5) else 1.0)
    with stepped(slow, num_nodes=3) as engine, pytest.raises(AssertionError, match="never comes"):
        assert_every_row_arrives(Push(), 40, 6)
    # The first round is merged but for one merge; the maps of the second have been submitted, and no others.
    assert engine.submitted == {"map": 8, "merge": 6}


def test_where_a_merge_of_a_node_fails_its_reduces_read_the_inputs() -> None:
    """Others do not. Merges 2 and 3 are those of node 1 in the first round."""
    with stepped(Script(fails=lambda call: call == Call("merge", 3)), num_nodes=3) as engine:
        assert_every_row_arrives(Push(keep_map_outputs=True), 8, 6)
        read = [[f"{call.name} {call.number}" for call in calls] for calls in engine.reduced]
        assert read[:3] == [
            ["merge 0", "merge 1", "merge 6", "merge 7"],
            ["merge 2", "map 2", "map 3", "merge 8", "merge 9"],
            ["merge 4", "merge 5", "merge 10", "merge 11"],
        ]


def test_the_limit_of_bytes_is_one_of_the_range_of_a_node() -> None:
    with stepped(num_nodes=2) as engine:
        plan = dataclasses.replace(small_plan(4, 2), round_size=4, merge_factor=4)
        results = Push(merge_bytes=100).shuffle(TASKS, [80] * 4, plan)
        assert sum(xs.get(list(results))) == 320
        found = [(node, len(calls)) for node, calls in engine.merged_by_node]
        # A split is 40 bytes for each node.
        assert found == [("node0", 2), ("node0", 2), ("node1", 2), ("node1", 2)]


# --- what is given up, and what takes its place --------------------------------------------------------------------


def keeping(**best_effort: Any) -> Push:
    return Push(keep_map_outputs=True, best_effort=BestEffort(**best_effort))


def sources(engine: SteppedEngine) -> list[str]:
    """The slices that a reduce reads, in order; the same for all."""
    assert len(set(engine.reduced)) == 1
    return [f"{call.name} {call.number}" for call in engine.reduced[0]]


@pytest.mark.parametrize("number", range(4))
def test_a_failed_merge_is_replaced_by_the_map_outputs_that_were_kept(number: int) -> None:
    with stepped(Script(fails=lambda call: call == Call("merge", number))) as engine:
        # Rounds of four maps, merged in pairs.
        assert_every_row_arrives(Push(keep_map_outputs=True), 8, 2)
        wanted = [[f"merge {merge}"] for merge in range(4)]
        wanted[number] = [f"map {2 * number}", f"map {2 * number + 1}"]
        assert sources(engine) == [source for group in wanted for source in group]
        assert engine.submitted["map"] == 8


def test_so_is_a_lost_one_and_one_that_was_limited_by_bytes() -> None:
    lost = Script(is_lost=lambda call: call == Call("merge", 1))
    with stepped(lost) as engine:
        assert_every_row_arrives(Push(keep_map_outputs=True, merge_bytes=10**6), 6, 2)
        assert sources(engine) == ["merge 0", "map 2", "map 3", "merge 2"]
        assert engine.submitted["map"] == 6


@pytest.mark.parametrize("number", [0, 2])
def test_without_map_outputs_a_failed_merge_is_an_error(number: int) -> None:
    with (
        stepped(Script(fails=lambda call: call == Call("merge", number))),
        pytest.raises(TaskError, match="task merge failed"),
    ):
        assert_every_row_arrives(Push(), 6, 2)


def test_a_failed_map_is_an_error_before_the_next_round_is_merged() -> None:
    with stepped(Script(fails=lambda call: call == Call("map", 1))) as engine:
        with pytest.raises(TaskError, match="task map failed"):
            assert_every_row_arrives(Push(keep_map_outputs=True), 12, 2)
        assert engine.submitted == {"map": 8, "merge": 2}


def test_a_failed_merge_that_is_missed_is_an_error_before_further_rounds() -> None:
    with stepped(Script(fails=lambda call: call == Call("merge", 0))) as engine:
        with pytest.raises(TaskError, match="task merge failed"):
            assert_every_row_arrives(Push(), 40, 2)
        # It is known once the maps of the second round are.
        assert engine.submitted["map"] == 8


def test_the_last_merges_of_each_round_are_given_up() -> None:
    late = {Call("merge", 1): NEVER, Call("merge", 2): 50.0}
    with stepped(Script(lambda call: late.get(call, 1.0))) as engine:
        assert_every_row_arrives(keeping(percent=50), 8, 2)
        assert engine.cancelled == [Call("merge", 1), Call("merge", 2)]
        assert sources(engine) == ["merge 0", "map 2", "map 3", "map 4", "map 5", "merge 3"]


@pytest.mark.parametrize("can_cancel", [True, False])
def test_a_timeout_counts_from_the_last_map_of_the_round(can_cancel: bool) -> None:
    late = {Call("map", 3): 60.0, Call("merge", 0): 75.0, Call("merge", 3): NEVER}
    script = Script(lambda call: late.get(call, 1.0), can_cancel=lambda _: can_cancel)
    with stepped(script) as engine:
        results = keeping(timeout_seconds=5).shuffle(
            LabelTasks(2), [[index] for index in range(8)], small_plan(8, 2)
        )
        next(results)
        # The first round is given up at 65. By then merge 1 has ended, though its map was late. The maps of the second
        # have, too, and its merges begin then.
        assert engine.now == pytest.approx(70)
        assert engine.cancelled == [Call("merge", 0), Call("merge", 3)]
        list(results)
        assert sources(engine) == ["map 0", "map 1", "merge 1", "merge 2", "map 6", "map 7"]


def test_nothing_is_merged_for_no_effort_at_all() -> None:
    with stepped() as engine:
        assert_every_row_arrives(keeping(percent=0), 6, 2)
        assert sources(engine) == [f"map {index}" for index in range(6)]


def test_best_effort_needs_something_to_fall_back_on() -> None:
    with pytest.raises(OptionsError, match=r"best_effort is .*percent=90.*keep_map_outputs=True"):
        Push(best_effort=BestEffort(percent=90))
    with pytest.raises(OptionsError, match="percent is 101"):
        BestEffort(percent=101)


def spilled_bytes(engine: LocalEngine, strategy: Push) -> int:
    """The bytes that a shuffle of 160 MB writes to disk within a budget of 90 MB."""
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
