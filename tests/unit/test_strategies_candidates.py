"""The candidates of strategies, and the plans of them: those of users are planned and compared like ours."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

import exoshuffle as xs
from examples.strategy_two_level import TwoLevel, groups
from exoshuffle.errors import MemoryLimitError, OptionsError
from exoshuffle.strategies import (
    Around,
    Auto,
    Basis,
    Candidate,
    PlannedStrategy,
    PreShuffleMerge,
    Push,
    Resources,
    ShufflePlan,
    Simple,
    Streaming,
    TaskSet,
    Workload,
    get_strategy,
    plan_shuffle,
)
from tests.unit.stepped import stepped

GB = 10**9
RECORDS, RESOURCES = Workload(4 * GB, 4 * 10**7, 100), Resources(2 * GB, 2)


class Own(PlannedStrategy):
    """Proposes what it is told to, and runs nothing."""

    def __init__(self, *proposed: Candidate) -> None:
        self.proposed = proposed
        self.seen: list[Basis] = []
        self.run: ShufflePlan | None = None

    def candidates(self, basis: Basis) -> Sequence[Candidate]:
        self.seen.append(basis)
        return self.proposed

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[xs.Ref]:
        del tasks, splits
        self.run = plan
        return iter([])


class Undescribed:
    """Any object with this method is a strategy."""

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[xs.Ref]:
        return Simple().shuffle(tasks, splits, plan)


# --- asked for -----------------------------------------------------------------------------------------------------


def test_instances_are_planned_as_those_of_their_name() -> None:
    for instance in (Simple(), Push(), PreShuffleMerge(), Streaming()):
        by_name = plan_shuffle(RECORDS, RESOURCES, instance.name)
        assert plan_shuffle(RECORDS, RESOURCES, instance) == by_name
        assert by_name.strategy == instance.name


@pytest.mark.parametrize("strategy", [Undescribed(), get_strategy(Undescribed())])
def test_a_strategy_that_proposes_nothing_is_planned_by_maps_and_reduces(strategy: Any) -> None:
    plan, simple = (plan_shuffle(RECORDS, RESOURCES, each) for each in (strategy, "simple"))
    assert plan.strategy == "Undescribed"
    cost = dataclasses.replace(
        plan.costs[0], traffic=dataclasses.replace(plan.costs[0].traffic, strategy="simple")
    )
    assert dataclasses.replace(plan, strategy="simple", costs=(cost,)) == simple


def test_a_strategy_around_another_is_planned_as_that_one() -> None:
    class Watched(Around):
        def __init__(self, strategy: PlannedStrategy) -> None:
            self.strategy = strategy

        def shuffle(self, *args: Any) -> Iterator[xs.Ref]:
            return self.strategy.shuffle(*args)

    for each in (Push(), Streaming(round_size=3)):
        assert plan_shuffle(RECORDS, RESOURCES, Watched(each)) == plan_shuffle(
            RECORDS, RESOURCES, each
        )


def test_a_plan_has_the_numbers_of_the_candidate() -> None:
    proposed = Candidate(
        num_slices=70,
        round_size=9,
        merge_factor=4,
        num_merges=5,
        num_folds=6,
        num_copies=3,
        merged_bytes=11,
        tail_bytes=7,
        moved_again_bytes=13,
        local_bytes=17,
        merge_memory_bytes=8,
    )
    own = Own(proposed)
    plan = plan_shuffle(RECORDS, RESOURCES, own)
    numbers = dataclasses.asdict(plan)
    assert {name: numbers[name] for name in ("round_size", "merge_factor", "num_merges")} == {
        "round_size": 9,
        "merge_factor": 4,
        "num_merges": 5,
    }
    assert (plan.num_folds, plan.num_slices, plan.num_copies) == (6, 70, 3)
    assert plan.merge_memory_bytes == 8
    assert plan.num_rounds == -(-plan.num_splits // 9)
    [cost] = plan.costs
    traffic = cost.traffic
    assert (traffic.strategy, traffic.merged_bytes, traffic.tail_bytes) == ("Own", 11, 7)
    assert (traffic.pushed_bytes, traffic.pulled_bytes) == (13, 4 * GB - 17)
    assert traffic.num_tasks == plan.num_splits + 5 + 6 + plan.num_partitions
    once = plan_shuffle(RECORDS, RESOURCES, Own(dataclasses.replace(proposed, num_copies=1)))
    assert plan.spilled_bytes == once.spilled_bytes + 2 * own.seen[0].block_bytes


def test_map_outputs_that_are_kept_are_billed() -> None:
    dropped, kept = (
        plan_shuffle(RECORDS, RESOURCES, Push(keep_map_outputs=keeps)) for keeps in (False, True)
    )
    assert (dropped.num_copies, kept.num_copies) == (1, 2)
    assert kept.spilled_bytes - dropped.spilled_bytes >= RECORDS.total_bytes
    assert kept.merge_factor == dropped.merge_factor


def test_streaming_keeps_map_outputs_on_several_nodes_whose_memory_holds_them() -> None:
    def copies(strategy: Streaming, num_bytes: int, num_nodes: int) -> int:
        cluster = Resources(40 * GB, 8, num_nodes=num_nodes)
        return plan_shuffle(Workload(num_bytes, 10**6, 100), cluster, strategy).num_copies

    assert copies(Streaming(), 5 * GB, 4) == 2
    assert copies(Streaming(), 5 * GB, 1) == 1
    assert copies(Streaming(), 20 * GB, 4) == 1
    assert copies(Streaming(keep_map_outputs=True), 20 * GB, 1) == 2
    assert copies(Streaming(keep_map_outputs=False), 5 * GB, 4) == 1


def test_pushing_to_the_nodes_that_reduce_moves_rows_once() -> None:
    """In rounds that give every CPU of the cluster a map, and every CPU of each node a merge."""
    terabyte, cluster = Workload(10**12, 10**10, 100), Resources(320 * GB, 160, num_nodes=10)
    plan = plan_shuffle(terabyte, cluster, "push")
    traffic = plan.costs[0].traffic
    assert (traffic.pushed_bytes, traffic.pulled_bytes) == (10**12, 0)
    assert plan.round_size >= 160
    assert plan.round_size // plan.merge_factor >= 16
    assert plan.num_merges == 10 * -(-plan.num_splits // plan.merge_factor)
    assert plan.num_slices * 10 == plan.num_merges * plan.num_partitions


def test_a_round_is_as_wide_as_the_cpus_of_one_node() -> None:
    for num_cpus in (2, 16):
        plan = plan_shuffle(RECORDS, Resources(4 * GB, num_cpus), "push")
        assert plan.round_size >= num_cpus
        assert plan.round_size - plan.merge_factor < num_cpus


def test_the_least_of_several_candidates_is_taken() -> None:
    slow, fast, slower = (
        Candidate(num_slices=100, merge_factor=factor, merged_bytes=merged)
        for factor, merged in ((2, 2 * GB), (3, GB), (4, 3 * GB))
    )
    plan = plan_shuffle(RECORDS, RESOURCES, Own(slow, fast, slower))
    assert (plan.merge_factor, plan.why, len(plan.costs)) == (3, "asked for", 1)


def test_states_are_spilled_as_far_as_memory_does_not_hold_one_at_a_time() -> None:
    small = Workload(10**8, 10**6, 100)
    fitting, large = (
        plan_shuffle(small, RESOURCES, Own(Candidate(num_slices=1, state_bytes=(size, size))))
        for size in (10**8, 10 * GB)
    )
    assert fitting.spilled_bytes == 0
    # The first state has nothing before it.
    assert 8 * GB < large.spilled_bytes < 10 * GB


def test_what_no_candidate_fits_is_refused() -> None:
    with pytest.raises(MemoryLimitError, match=r"4\.00 GB does not fit .*; the smallest") as told:
        plan_shuffle(RECORDS, Resources(10**8, 2), TwoLevel())
    assert str(told.value).endswith("that works is 1.31 GB")
    assert plan_shuffle(RECORDS, Resources(1_310_000_000, 2), TwoLevel()).num_merges > 0


def test_a_strategy_that_never_proposes_anything_is_refused() -> None:
    with pytest.raises(OptionsError, match="Own proposed no way to run this shuffle, however much"):
        plan_shuffle(RECORDS, RESOURCES, Own())


@pytest.mark.parametrize("wrong", [{"num_slices": 0}, {"num_slices": 1, "round_size": 0}])
def test_a_candidate_that_does_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionsError, match=r"of a candidate is 0; it must be at least 1"):
        Candidate(**wrong)


# --- compared ------------------------------------------------------------------------------------------------------


def test_a_strategy_of_ones_own_is_compared_and_may_win() -> None:
    auto = Auto(TwoLevel())
    plan = plan_shuffle(RECORDS, RESOURCES, auto, num_partitions=4000)
    names = [cost.traffic.strategy for cost in plan.costs]
    assert names == ["two_level", "push", "pre_shuffle_merge", "simple"]
    assert plan.strategy == "two_level"
    assert "predicted" in plan.why
    assert " for push by " in plan.why
    assert plan.num_merges == len(groups(4000)) == 63
    assert plan.num_slices == 63 * plan.num_splits + 4000
    few = plan_shuffle(RECORDS, RESOURCES, auto, num_partitions=200)
    assert few.strategy == "simple"
    assert "two_level" in [cost.traffic.strategy for cost in few.costs]


def test_one_that_memory_is_too_small_for_is_not_compared() -> None:
    terabyte = Workload(10**12, 10**10, 100)
    with_own, without = (
        plan_shuffle(terabyte, RESOURCES, each) for each in (Auto(TwoLevel()), "auto")
    )
    assert with_own == without
    with pytest.raises(MemoryLimitError):
        plan_shuffle(terabyte, RESOURCES, TwoLevel())


def test_one_of_the_same_name_takes_the_place() -> None:
    auto = Auto(own := Push(merge_bytes="1MB"), two := TwoLevel())
    assert [each.name for each in auto.alternatives] == [
        "simple",
        "push",
        "pre_shuffle_merge",
        "two_level",
    ]
    assert auto.alternatives[1] is own
    assert auto.alternatives[3] is two
    assert plan_shuffle(RECORDS, RESOURCES, Auto(own)) == plan_shuffle(RECORDS, RESOURCES, "auto")


def test_what_runs_is_what_was_chosen() -> None:
    own = Own(Candidate(num_slices=1))
    auto = Auto(own)
    plan = plan_shuffle(RECORDS, RESOURCES, auto, num_partitions=20_000)
    assert plan.strategy == "Own"
    assert list(auto.shuffle(cast("Any", None), [], plan)) == []
    assert own.run is plan


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Auto(TwoLevel), "strategy is the class TwoLevel; pass an instance of it"),
        (
            lambda: Auto(Auto()),
            r"Auto\(...\) got another Auto\(...\).*; give its strategies to one Auto",
        ),
        (lambda: Auto(3), "strategy is 3; pass a name .* or an object with a method shuffle"),
        (lambda: Auto("two_level"), "unknown strategy 'two_level'; known are simple, push"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused(make: Any, message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        make()


def test_functions_have_no_sizes_to_choose_by() -> None:
    functions: dict[str, Any] = {"map": lambda *_: [1], "reduce": lambda *_: 1}
    with (
        stepped(),
        pytest.raises(OptionsError, match="goes by sizes, and no plan by sizes"),
    ):
        xs.shuffle([1], **functions, num_partitions=1, strategy=Auto())
