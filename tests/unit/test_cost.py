"""Laws of the cost model, and the choices that follow from it."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.plan.choice import WORTH_MERGING, cheapest
from exoshuffle.plan.cost import DISKS, Traffic, predict
from exoshuffle.plan.memory import SLICE_BYTES
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import Resources, Workload
from exoshuffle.strategies import plan_shuffle

GB = 10**9
sizes = st.integers(0, 10**13)
counts = st.integers(0, 10**9)
BYTES = [field.name for field in dataclasses.fields(Traffic) if field.name.endswith("_bytes")]
traffics = st.builds(
    Traffic,
    strategy=st.just("simple"),
    merge_factor=st.just(1),
    num_slices=st.integers(1, 10**9),
    num_spilled_slices=counts,
    num_tasks=counts,
    **dict.fromkeys(BYTES, sizes),
)
resources = st.builds(
    Resources,
    budget_bytes=st.integers(1, 10**12),
    num_cpus=st.integers(1, 64),
    num_nodes=st.integers(1, 64),
    disk=st.sampled_from(list(DISKS)),
)
NUMBERS = [field.name for field in dataclasses.fields(Traffic) if field.type == "int"]


def records(num_bytes: int) -> Workload:
    return Workload(num_bytes, num_bytes // 100, 100)


def planned(num_bytes: int, partitions: int | None = None, **changes: object) -> ShufflePlan:
    given = dataclasses.replace(Resources(2 * GB, 2), **changes)  # type: ignore[arg-type]
    return plan_shuffle(records(num_bytes), given, "auto", partitions)


# --- laws ----------------------------------------------------------------------------------------------------------


@given(traffics, resources, st.sampled_from(NUMBERS), st.integers(1, 10**9))
def test_more_of_anything_never_takes_less(
    traffic: Traffic, given: Resources, name: str, more: int
) -> None:
    larger = dataclasses.replace(traffic, **{name: getattr(traffic, name) + more})
    assert predict(larger, given).seconds >= predict(traffic, given).seconds


@given(traffics, resources)
def test_more_cpus_never_take_longer(traffic: Traffic, given: Resources) -> None:
    faster = dataclasses.replace(given, num_cpus=2 * given.num_cpus)
    assert predict(traffic, faster).seconds <= predict(traffic, given).seconds


@given(traffics, resources)
def test_what_overlaps_takes_no_less_than_the_busiest_and_no_more_than_all(
    traffic: Traffic, given: Resources
) -> None:
    cost = predict(traffic, given)
    parts = (cost.cpu_seconds, cost.disk_seconds, cost.network_seconds)
    alone = cost.seconds - traffic.tail_bytes / 2.5e9
    assert max(parts) <= alone * (1 + 1e-9)
    assert alone <= sum(parts) * (1 + 1e-9)


@given(traffics, resources)
def test_one_node_needs_no_network(traffic: Traffic, given: Resources) -> None:
    assert predict(traffic, dataclasses.replace(given, num_nodes=1)).network_seconds == 0


@given(st.lists(traffics, min_size=1, max_size=5), resources)
def test_the_first_is_left_only_for_what_is_worth_it(
    found: list[Traffic], given: Resources
) -> None:
    costs = [predict(traffic, given) for traffic in found]
    chosen, least = cheapest(costs), min(cost.seconds for cost in costs)
    assert chosen.seconds * WORTH_MERGING <= least
    assert chosen is costs[0] or chosen.seconds == least


@given(
    st.integers(1, 10**12),
    resources,
    st.none() | st.integers(1, 10_000),
    st.sampled_from(["files", "batches", "blocks"]),
)
def test_what_is_chosen_is_no_slower_than_what_could_be_asked_for(
    total: int, given: Resources, partitions: int | None, results: str
) -> None:
    given = dataclasses.replace(
        given, budget_bytes=given.budget_bytes + 200_000_000 * given.num_cpus
    )
    workload = dataclasses.replace(records(total), results=results)  # type: ignore[arg-type]
    try:
        auto = plan_shuffle(workload, given, "auto", partitions)
    except ValueError:
        return
    for strategy in ("simple", "push", "pre_shuffle_merge"):
        asked = plan_shuffle(workload, given, strategy, partitions)
        assert auto.costs[0].seconds * WORTH_MERGING <= asked.costs[0].seconds
        assert asked.costs[0].traffic.merge_factor == asked.merge_factor
    assert auto.costs[0].traffic.strategy == auto.strategy
    assert [cost.traffic.strategy for cost in auto.costs].count(auto.strategy) == 1


# --- choices -------------------------------------------------------------------------------------------------------


def test_what_stays_in_memory_is_not_merged() -> None:
    plan = planned(GB // 2)
    assert plan.strategy == "simple"
    assert "everything stays in memory" in plan.why


@pytest.mark.parametrize(("partitions", "strategy"), [(125, "simple"), (4000, "push")])
def test_small_slices_are_merged(partitions: int, strategy: str) -> None:
    plan = planned(4 * GB, partitions)
    assert plan.strategy == strategy
    assert "predicted" in plan.why
    assert "requests instead of" in plan.why


def test_turning_disks_want_larger_slices() -> None:
    assert planned(5 * GB).strategy == "simple"
    turning = planned(5 * GB, disk="rotational")
    assert turning.strategy == "push"
    assert turning.merge_factor > planned(5 * GB, 2000).merge_factor / 2


def test_smaller_slices_are_merged_into_larger_groups() -> None:
    factors = [planned(20 * GB, partitions).merge_factor for partitions in (1500, 20_000)]
    assert 1 < factors[0] <= factors[1]


def test_every_strategy_moves_rows_between_nodes_once() -> None:
    # 64 nodes keep everything in memory twice, in slices of 1 kB, which cost CPU time alone.
    plan = planned(
        200 * GB, 100_000, budget_bytes=2000 * GB, num_cpus=64 * 64, num_nodes=64, disk="ssd"
    )
    seconds = {cost.traffic.strategy: cost.network_seconds for cost in plan.costs}
    assert sorted(seconds) == ["pre_shuffle_merge", "push", "simple"]
    assert len(set(seconds.values())) == 1
    assert seconds["push"] == pytest.approx(200 * GB * 63 / 64 / (64 * 1.25e9))


def test_streaming_makes_its_states_anew_in_every_round() -> None:
    given = Resources(2 * GB, 2)
    plan = plan_shuffle(records(GB), given, "streaming")
    assert plan.num_rounds == 8, "of 4 maps each, but for the last one"
    assert plan.num_splits == 32
    assert plan.num_folds == 8 * plan.num_partitions
    assert plan.num_slices == (32 + 8) * plan.num_partitions
    traffic = plan.costs[0].traffic
    assert traffic.num_tasks == 32 + 9 * plan.num_partitions
    states = GB + SLICE_BYTES * 32 * plan.num_partitions
    assert traffic.merged_bytes == pytest.approx(4.5 * states)
    assert traffic.written_bytes == 0
    large = plan_shuffle(records(4 * GB), given, "streaming")
    assert large.spilled_bytes > 4 * plan_shuffle(records(4 * GB), given, "simple").spilled_bytes
    assert large.costs[0].traffic.read_bytes >= large.spilled_bytes


def test_a_pre_shuffle_merge_spills_its_inputs_too() -> None:
    given = Resources(2 * GB, 2)
    push = plan_shuffle(records(20 * GB), given, "push")
    merged = plan_shuffle(records(20 * GB), given, "pre_shuffle_merge")
    twice = 20 * GB + SLICE_BYTES * merged.num_splits * merged.num_partitions
    assert merged.spilled_bytes == push.spilled_bytes + twice
    assert merged.num_rounds == 1
    groups = -(-merged.num_splits // merged.merge_factor)
    pieces = merged.num_merges // groups
    assert merged.num_merges == groups * pieces
    assert merged.num_slices == groups * merged.num_partitions
    # Two merges have room at once.
    assert 2 * merged.merge_factor * 2 * merged.split_bytes <= pieces * merged.merge_memory_bytes
    assert merged.costs[0].traffic.num_merge_reads == pytest.approx(
        merged.num_splits * pieces * merged.spilled_bytes / (2 * twice), rel=0.01
    )
