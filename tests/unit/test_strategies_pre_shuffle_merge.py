"""The pre-shuffle merge: which outputs are merged and when, what is given up, and what the reduces read then."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, cast

import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError, TaskError
from exoshuffle.futures import Node, Ref, TaskOptions
from exoshuffle.strategies import (
    FixedBlockSize,
    FixedFiles,
    MergeOptions,
    PreShuffleMerge,
    ShufflePlan,
    Strategy,
)
from exoshuffle.strategies.mechanisms.pieces import READ_BYTES
from exoshuffle.strategies.pre_shuffle_merge import MERGE_MEMORY_PERCENT
from exoshuffle.testing import assert_every_row_arrives
from exoshuffle.testing.programs import LabelTasks
from exoshuffle.testing.shuffles import small_plan
from tests.unit.stepped import NEVER, Call, Script, SteppedEngine, stepped, task_of

# --- what is merged ------------------------------------------------------------------------------------------------


def merged(engine: SteppedEngine) -> list[list[int]]:
    """The maps in each merge."""
    return [[call.number for call in sources] for _, sources in engine.merged_by_node]


def merging(engine: SteppedEngine, **options: Any) -> PreShuffleMerge:
    return PreShuffleMerge(MergeOptions(clock=engine.clock, **options))


def test_a_group_is_merged_while_later_maps_run() -> None:
    with stepped() as engine:
        strategy = merging(engine, policy=FixedFiles(3))
        assert_every_row_arrives(strategy, 12, 2)
        assert merged(engine) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]


def test_a_late_map_holds_up_its_own_group_alone() -> None:
    with stepped(Script(lambda call: 9.5 if call == Call("map", 1) else 1.0)) as engine:
        assert_every_row_arrives(merging(engine, policy=FixedFiles(2), percent=100), 8, 2)
        assert merged(engine) == [[2, 3], [4, 5], [6, 7], [0, 1]]


def test_groups_stay_on_their_node() -> None:
    with stepped(num_nodes=2) as engine:
        engine.nodes().append(Node("head", {"CPU": 0}))
        assert_every_row_arrives(merging(engine, policy=FixedFiles(2), percent=100), 8, 2)
        assert {node for node, _ in engine.merged_by_node} == {"node0", "node1"}
        assert len(engine.merged_by_node) == 4


def test_a_map_that_strayed_divides_its_group() -> None:
    numbers = itertools.count()
    stray = Script(
        node=lambda options: (
            "elsewhere" if options.name == "map" and next(numbers) == 2 else "node0"
        )
    )
    with stepped(stray) as engine:
        assert_every_row_arrives(merging(engine, policy=FixedFiles(6), percent=100), 6, 2)
        assert merged(engine) == [[0, 1], [3, 4, 5]]


def test_merges_wait_for_memory() -> None:
    running: list[int] = []
    seconds = {"map": 0.1, "merge": 10.0}
    with stepped(Script(lambda call: seconds.get(call.name, 1.0))) as engine:
        submit = engine.submit

        def counting(fn: Any, args: Any, kwargs: Any, options: TaskOptions) -> Ref:
            if options.name == "merge":
                running.append(sum(not task_of(ref).is_over for ref in merges))
            ref = submit(fn, args, kwargs, options)
            if options.name == "merge":
                merges.append(ref)
            return ref

        merges: list[Ref] = []
        engine.submit = counting  # type: ignore[method-assign]
        split_bytes = small_plan(1, 1).split_bytes
        # Two merges of two blocks fit, each with a result as large as its blocks.
        strategy = merging(
            engine, policy=FixedFiles(2), percent=100, memory_bytes=2 * 4 * split_bytes
        )
        assert_every_row_arrives(strategy, 12, 2)
        assert len(running) == 6
        assert max(running) == 1


def test_a_group_that_needs_more_than_the_memory_is_merged_in_pieces() -> None:
    with stepped() as engine:
        memory = 2 * 3 * small_plan(1, 1).split_bytes
        strategy = merging(engine, policy=FixedFiles(5), percent=100, memory_bytes=memory)
        assert_every_row_arrives(strategy, 10, 8)
        # Two blocks of five, twice over, in a memory of three: four pieces, of two partitions each.
        assert merged(engine) == [[0, 1, 2, 3, 4]] * 4 + [[5, 6, 7, 8, 9]] * 4


def test_a_group_of_small_blocks_never_needs_more_than_the_memory() -> None:
    plan = dataclasses.replace(small_plan(10, 2), split_bytes=READ_BYTES)
    with stepped() as engine:
        memory = 2 * 3 * plan.split_bytes
        shuffled(merging(engine, policy=FixedFiles(5), memory_bytes=memory), plan)
        assert merged(engine) == [[0, 1, 2], [3, 4], [5, 6, 7], [8, 9]]


@pytest.mark.parametrize("num_nodes", [1, 2, 3])
@pytest.mark.parametrize("num_partitions", [1, 2, 5, 40])
def test_rows_arrive_once_if_some_pieces_are_given_up(num_nodes: int, num_partitions: int) -> None:
    memory = 4 * small_plan(1, 1).split_bytes
    numbers = itertools.count()
    failing = Script(fails=lambda call: call.name == "merge" and next(numbers) % 3 == 1)
    with stepped(failing, num_nodes=num_nodes) as engine:
        strategy = merging(engine, policy=FixedFiles(4), memory_bytes=memory)
        assert_every_row_arrives(strategy, 13, num_partitions)
    assert next(numbers) > (1 if num_partitions == 1 else 4)


def shuffled(strategy: Strategy, plan: ShufflePlan) -> None:
    splits = [[index] for index in range(plan.num_splits)]
    xs.get(list(strategy.shuffle(LabelTasks(plan.num_partitions), splits, plan)))


def test_the_plan_or_the_budget_says_how_much_memory_there_is_for_merges() -> None:
    plan = dataclasses.replace(small_plan(10, 2), split_bytes=READ_BYTES)
    of_two, of_five = (2 * count * plan.split_bytes for count in (2, 5))
    with stepped() as engine:
        engine.budget_bytes = 100 * of_five
        planned = dataclasses.replace(plan, merge_memory_bytes=of_two)
        shuffled(merging(engine, policy=FixedFiles(10), percent=100), planned)
        assert merged(engine) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    with stepped() as engine:
        engine.budget_bytes = -(-of_five * 100 // MERGE_MEMORY_PERCENT)
        unplanned = dataclasses.replace(plan, merge_memory_bytes=0)
        shuffled(merging(engine, policy=FixedFiles(10), percent=100), unplanned)
        assert merged(engine) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    with stepped() as engine:
        # Never so little that nothing could be merged.
        engine.budget_bytes = 1
        shuffled(merging(engine, policy=FixedFiles(10), percent=100), unplanned)
        assert merged(engine) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def test_all_nodes_get_maps_from_the_start() -> None:
    places: list[str | None] = []
    with stepped(num_nodes=3) as engine:
        submit = engine.submit

        def noted(fn: Any, args: Any, kwargs: Any, options: TaskOptions) -> Ref:
            if options.name == "map":
                places.append(options.node)
            return submit(fn, args, kwargs, options)

        engine.submit = noted  # type: ignore[method-assign]
        assert_every_row_arrives(merging(engine, policy=FixedFiles(4), percent=100), 24, 2)
    in_turn = ["node0", "node1", "node2"]
    assert places == in_turn * 8


class Sized:
    """Splits say how large a map output is."""

    executor = "thread"

    def map(self, _: int, num_bytes: int) -> list[bytes]:
        return [bytes(num_bytes // 2), bytes(num_bytes - num_bytes // 2)]

    def merge(self, *blocks: list[bytes]) -> list[bytes]:
        return [b"".join(slices) for slices in zip(*blocks, strict=True)]

    def reduce(self, _: int, slices: list[bytes]) -> int:
        return sum(map(len, slices))


def test_small_outputs_are_merged_by_size_and_large_ones_left_alone() -> None:
    sizes = [1000, 100, 100, 100, 1000, 100, 150, 10, 1000]
    with stepped() as engine:
        strategy = merging(engine, policy=FixedBlockSize(100), percent=100)
        results = strategy.shuffle(cast("Any", Sized()), sizes, small_plan(len(sizes), 2))
        assert sum(xs.get(list(results))) == sum(sizes)
        # The mean slices of 1, 2 and 3 together are 150 bytes; those of 1 and 2 are 100, which is not more than 100.
        assert merged(engine) == [[1, 2, 3], [5, 6]]
        assert sources(engine) == ["map 0", "merge 0", "map 4", "merge 1", "map 7", "map 8"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedFiles(1), "num_files is 1"),
        (lambda: FixedBlockSize(0), "slice_bytes is 0"),
        (lambda: MergeOptions(percent=101), "percent is 101; choose between 0 and 100"),
        (lambda: MergeOptions(timeout_seconds=-1), "timeout_seconds is -1"),
        (lambda: MergeOptions(timeout_seconds=float("nan")), "timeout_seconds is nan"),
        (lambda: MergeOptions(memory_bytes=-5), "memory_bytes is -5"),
    ],
)
def test_options_that_cannot_work(make: Any, message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        make()


# --- best effort and fallback --------------------------------------------------------------------------------------


def sources(engine: SteppedEngine) -> list[str]:
    """The slices that a reduce reads, in order; the same for all."""
    assert len(set(engine.reduced)) == 1
    return [f"{call.name} {call.number}" for call in engine.reduced[0]]


def test_best_effort_gives_up_the_last_merges() -> None:
    late = Script(lambda call: NEVER if call == Call("merge", 3) else 1.0)
    with stepped(late) as engine:
        assert_every_row_arrives(merging(engine, policy=FixedFiles(2), percent=75), 8, 2)
        assert engine.cancelled == [Call("merge", 3)]
        assert sources(engine) == ["merge 0", "merge 1", "merge 2", "map 6", "map 7"]


def test_a_percentage_is_reached_not_approached() -> None:
    # 60 % of four merges are three, not two.
    late = {Call("merge", 2): 50.0, Call("merge", 3): NEVER}
    with stepped(Script(lambda call: late.get(call, 1.0))) as engine:
        assert_every_row_arrives(merging(engine, policy=FixedFiles(2), percent=60), 8, 2)
        assert sources(engine) == ["merge 0", "merge 1", "merge 2", "map 6", "map 7"]


def test_merges_go_on_while_a_map_is_late() -> None:
    # Memory is for one merge at a time: each starts when the one before has ended, not when the late map has.
    with stepped(Script(lambda call: 60.0 if call == Call("map", 7) else 1.0)) as engine:
        memory = 2 * 2 * small_plan(1, 1).split_bytes
        strategy = merging(engine, policy=FixedFiles(2), percent=100, memory_bytes=memory)
        assert_every_row_arrives(strategy, 8, 2)
        assert len(merged(engine)) == 4 * 2, "in two pieces each"
        # The last merge and the reduces take a second each.
        assert engine.now == pytest.approx(62)


def test_all_maps_are_done_before_merges_are_given_up() -> None:
    late = {Call("map", 7): 60.0, Call("merge", 0): 50.0}
    with stepped(Script(lambda call: late.get(call, 1.0))) as engine:
        assert_every_row_arrives(merging(engine, policy=FixedFiles(2), percent=50), 8, 2)
        assert engine.cancelled == [Call("merge", 3)]
        assert sources(engine) == ["merge 0", "merge 1", "merge 2", "map 6", "map 7"]


@pytest.mark.parametrize("can_cancel", [True, False])
def test_a_timeout_gives_up_what_is_late(can_cancel: bool) -> None:
    late = Script(
        lambda call: 30.0 if call.name == "merge" and call.number else 1.0,
        can_cancel=lambda _: can_cancel,
    )
    with stepped(late) as engine:
        strategy = merging(engine, policy=FixedFiles(2), percent=100, timeout_seconds=5)
        results = iterate(strategy)
        next(results)
        # The last maps end after 1 s, the timeout after 6; what could not be cancelled ends after 31.
        assert engine.now == pytest.approx(6)
        list(results)
        assert sources(engine) == ["merge 0", "map 2", "map 3", "map 4", "map 5"]


def iterate(strategy: Strategy) -> Iterator[Ref]:
    return strategy.shuffle(LabelTasks(2), [[index] for index in range(6)], small_plan(6, 2))


def test_a_failed_merge_costs_that_its_inputs_are_read() -> None:
    with stepped(Script(fails=lambda call: call == Call("merge", 1))) as engine:
        assert_every_row_arrives(merging(engine, policy=FixedFiles(2), percent=100), 6, 2)
        assert sources(engine) == ["merge 0", "map 2", "map 3", "merge 2"]
        assert engine.submitted["map"] == 6


def test_failed_merges_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    fails = Script(fails=lambda call: call.name == "merge" and call.number > 0)
    with stepped(fails) as engine:
        assert_every_row_arrives(merging(engine, policy=FixedFiles(2), percent=100), 8, 2)
    [record] = caplog.records
    assert (record.name, record.levelname) == ("exoshuffle", "WARNING")
    assert record.getMessage().startswith("3 of 4 merges failed, and their inputs are read instead")
    assert "the first: ValueError: by script\n  task merge failed in attempt" in record.getMessage()


def test_merges_that_are_late_or_lost_are_no_failures(caplog: pytest.LogCaptureFixture) -> None:
    late = Script(
        lambda call: NEVER if call == Call("merge", 3) else 1.0,
        is_lost=lambda call: call == Call("merge", 0),
    )
    with stepped(late) as engine:
        assert_every_row_arrives(merging(engine, policy=FixedFiles(2), percent=75), 8, 2)
        assert engine.cancelled == [Call("merge", 3)]
    assert not caplog.records


def test_a_lost_merge_costs_that_its_inputs_are_read() -> None:
    with stepped(Script(is_lost=lambda call: call == Call("merge", 0))) as engine:
        assert_every_row_arrives(merging(engine, policy=FixedFiles(3), percent=100), 6, 2)
        assert sources(engine) == ["map 0", "map 1", "map 2", "merge 1"]
        assert engine.submitted["map"] == 6


def test_a_failed_map_is_an_error() -> None:
    with (
        stepped(Script(fails=lambda call: call == Call("map", 1))) as engine,
        pytest.raises(TaskError, match="task map failed"),
    ):
        xs.get(list(iterate(merging(engine))))


# --- the facts of the paper ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num_files", "fetches"), [(5, 4_000), (10, 2_000), (20, 1_000), (40, 500)]
)
def test_requests_are_those_of_the_cost_model(num_files: int, fetches: int) -> None:
    """M = 800, R = 25; requests are (M / N) R + 2 T / s (Riffle §4.5)."""
    num_maps, num_partitions, slice_bytes, buffer_bytes = 800, 25, 8, 40
    read: list[int] = []
    written: list[int] = []
    fetched: list[int] = []

    class Bytes:
        executor = "thread"

        def map(self, _: int, __: Any) -> list[bytes]:
            return [b"x" * slice_bytes] * num_partitions

        def merge(self, *blocks: list[bytes]) -> list[bytes]:
            made = [b"".join(slices) for slices in zip(*blocks, strict=True)]
            read.append(sum(len(data) for block in blocks for data in block))
            written.append(sum(map(len, made)))
            return made

        def reduce(self, _: int, slices: list[bytes]) -> int:
            fetched.append(len(slices))
            return sum(map(len, slices))

    with stepped() as engine:
        strategy = merging(engine, policy=FixedFiles(num_files), percent=100)
        plan = dataclasses.replace(small_plan(num_maps, num_partitions), split_bytes=200)
        tasks = cast("Any", Bytes())
        results = xs.get(list(strategy.shuffle(tasks, range(num_maps), plan)))
    total = num_maps * num_partitions * slice_bytes
    assert sum(results) == total
    assert sum(fetched) == fetches == num_maps // num_files * num_partitions
    requests = sum(fetched) + sum(-(-size // buffer_bytes) for size in read + written)
    assert requests == num_maps // num_files * num_partitions + 2 * total // buffer_bytes


def test_best_effort_reads_what_the_paper_measured() -> None:
    """19 of 20 merges of 40 and 40 map outputs: 59 reads per reduce where there were 800, 13.6 times fewer."""
    with stepped(Script(lambda call: NEVER if call == Call("merge", 19) else 1.0)) as engine:
        strategy = merging(engine, policy=FixedFiles(40), percent=95)
        plan = dataclasses.replace(small_plan(800, 25), split_bytes=200)
        list(strategy.shuffle(LabelTasks(25), [[index] for index in range(800)], plan))
        assert sum(len(calls) for calls in engine.reduced) == 25 * 59
