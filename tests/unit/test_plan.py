"""Laws of the plan: it fits or is refused, covers everything, and grows as it should."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.errors import MemoryLimitError, OptionsError
from exoshuffle.plan import memory, reduce_memory
from exoshuffle.plan.planner import most_header_bytes, smallest_budget
from exoshuffle.strategies import (
    Auto,
    Resources,
    ShufflePlan,
    Streaming,
    Workload,
    plan_shuffle,
)
from exoshuffle.strategies.library import strategy_names

workloads = st.builds(
    lambda rows, width, **others: Workload(rows * width, rows, width, **others),
    rows=st.integers(0, 10**10),
    width=st.integers(1, 10_000),
    results=st.sampled_from(["files", "batches", "blocks"]),
    is_even=st.booleans(),
    streams_in_place=st.booleans(),
)
resources = st.builds(
    Resources,
    budget_bytes=st.integers(1, 10**9) | st.integers(1, 10**12),
    num_cpus=st.integers(1, 64),
)
strategies = st.sampled_from(["auto", *strategy_names()])


def try_plan(workload: Workload, given: Resources, strategy: str) -> ShufflePlan | None:
    try:
        return plan_shuffle(workload, given, strategy)
    except MemoryLimitError:
        return None


def at_once(plan: ShufflePlan, given: Resources) -> tuple[int, int]:
    """Returns how many tasks run at once, and of how many more the arguments are fetched meanwhile."""
    cpus = given.num_cpus - plan.idle_cpus
    return cpus, 0 if plan.idle_cpus else cpus


@given(workloads, resources, strategies)
def test_every_phase_fits_into_the_budget(
    workload: Workload, given: Resources, strategy: str
) -> None:
    plan = try_plan(workload, given, strategy)
    if plan is None:
        return
    cpus, ahead = at_once(plan, given)
    maps = cpus * (plan.map_memory_bytes + plan.split_bytes)
    partition = plan.large_partition_bytes
    reduces = (cpus + ahead) * partition + cpus * plan.reduce_memory_bytes
    if workload.results == "batches":
        submitted = min(cpus + min(ahead, 1), plan.num_partitions)
        results = min(cpus + 2 + min(ahead, 1), plan.num_partitions)
        reduces = submitted * (partition + plan.reduce_memory_bytes) + results * partition
    assert maps <= given.budget_bytes
    assert reduces <= given.budget_bytes
    assert plan.peak_bytes <= given.budget_bytes
    if plan.strategy == "push":
        rounds = 3 * plan.merge_factor * plan.split_bytes + cpus * plan.map_memory_bytes
        assert rounds <= given.budget_bytes
    if plan.strategy == "streaming":
        # Each that runs holds its partition twice, and arguments of others are there before they run.
        assert (2 * cpus + ahead) * partition <= given.budget_bytes
        assert cpus * 2 * plan.max_partition_bytes <= given.budget_bytes
        assert 2 * plan.max_whole_bytes <= given.budget_bytes


def test_rows_that_do_not_fit_into_a_task_on_each_cpu_go_through_fewer_tasks() -> None:
    """Six texts of 20 MB among 100,000 short ones, of which one at a time has room within 300 MB."""
    workload = Workload(120_000_000, 100_000, 20_000_000, reduce_percent=200)
    narrow, enough = (plan_shuffle(workload, Resources(size, 4)) for size in (170 * 10**6, 10**9))
    assert (narrow.idle_cpus, enough.idle_cpus) == (3, 0)
    assert narrow.split_bytes >= workload.max_row_bytes
    assert narrow.peak_bytes <= 170 * 10**6
    # The second task finds no room, whatever its partition has.
    sizes = (0, workload.max_row_bytes, narrow.max_partition_bytes)
    assert all(2 * (size + narrow.reduce_memory(size)) > 130 * 10**6 for size in sizes)
    assert 2 * narrow.map_memory_bytes + narrow.split_bytes > 170 * 10**6


def test_maps_that_are_fewer_than_the_cpus_leave_the_reduces_all_of_these() -> None:
    """160 numbers that become 160 partitions: eight maps had no room, and so four reduces ran at once."""
    given, numbers = Resources(200 * 10**6, 8), Workload(1_280, 160, results="blocks")
    many, one = (
        plan_shuffle(replace(numbers, num_items=count), given, num_partitions=160)
        for count in (8, 1)
    )
    assert (many.idle_cpus, one.idle_cpus) == (4, 0)
    assert one.map_memory_bytes + one.split_bytes <= given.budget_bytes
    assert 8 * (one.reduce_memory(8) + one.large_partition_bytes) <= given.budget_bytes


def test_reduces_run_at_once_beside_map_outputs_in_memory() -> None:
    """Grouping 40 million rows of 17 bytes within 2 GB: reduces are many times as large as what they read."""
    workload = Workload(680_000_000, 40_000_000, 17, reduce_percent=200, reduce_row_bytes=300)
    given = Resources(budget_bytes=1_880_000_000, num_cpus=2)
    plan = plan_shuffle(workload, given, "simple")
    partition = plan.large_partition_bytes
    reduces = 2 * (2 * partition + plan.reduce_memory_bytes)
    assert workload.total_bytes + reduces <= given.budget_bytes


@pytest.mark.parametrize("large_rows", [0, 10, 5_000])
def test_partitions_by_chance_are_not_larger_than_planned(large_rows: int) -> None:
    """Of rows of 100 bytes, and some of 4,000, that go to partitions by chance."""
    sizes = [100] * 100_000 + [4_000] * large_rows
    workload = Workload(sum(sizes), len(sizes), max(sizes), is_even=True)
    plan = plan_shuffle(workload, Resources(10**8, 2), num_partitions=16)
    by_keys = plan_shuffle(replace(workload, is_even=False), Resources(10**8, 2), num_partitions=16)
    assert plan.partition_bytes < plan.large_partition_bytes <= by_keys.large_partition_bytes
    chance = random.Random(20)
    for _ in range(20):
        partitions = [0] * 16
        for size in sizes:
            partitions[chance.randrange(16)] += size
        assert max(partitions) <= plan.large_partition_bytes


def test_what_is_made_in_place_takes_no_memory_beside() -> None:
    workload = Workload(10**9, 10**7, 100, results="batches")
    given = Resources(10**9, 2)
    in_place, copied = (
        plan_shuffle(replace(workload, streams_in_place=found), given, num_partitions=40)
        for found in (True, False)
    )
    more = copied.reduce_memory_bytes - in_place.reduce_memory_bytes
    assert more == copied.large_partition_bytes == in_place.large_partition_bytes
    assert in_place.spilled_bytes < copied.spilled_bytes


@given(workloads, resources, strategies)
def test_partitions_up_to_the_limit_of_dividing_fit(
    workload: Workload, given: Resources, strategy: str
) -> None:
    plan = try_plan(workload, given, strategy)
    if plan is None:
        return
    limit, whole = plan.max_partition_bytes, plan.max_whole_bytes
    # A partition that is planned for is not divided, nor is a small one.
    assert limit >= plan.large_partition_bytes >= plan.partition_bytes - 1
    if not workload.is_even and plan.num_partitions > 1:
        skewed = plan.partition_bytes * reduce_memory.SKEW_PERCENT // 100
        assert plan.large_partition_bytes >= skewed - 1
    cpus, ahead = at_once(plan, given)
    if cpus == given.num_cpus:
        assert plan.reduce_memory(0) == plan.reduce_memory_bytes
    else:
        # No task beside these has room.
        planned = plan.large_partition_bytes
        assert (cpus + 1) * (planned + plan.reduce_memory(planned)) > given.budget_bytes
    running = min(cpus, plan.num_partitions)
    waiting = min(ahead, plan.num_partitions - running)
    assert (running + waiting) * limit + running * plan.reduce_memory(limit) <= given.budget_bytes
    assert whole + plan.reduce_memory(whole) <= given.budget_bytes


@given(workloads, resources, strategies)
def test_splits_and_partitions_cover_everything(
    workload: Workload, given: Resources, strategy: str
) -> None:
    plan = try_plan(workload, given, strategy)
    if plan is None:
        return
    assert plan.num_splits * plan.split_bytes >= workload.total_bytes
    assert plan.num_partitions * plan.partition_bytes >= workload.total_bytes
    assert plan.num_rounds * plan.round_size >= plan.num_splits
    assert plan.merge_factor >= 1
    assert plan.num_slices >= plan.num_partitions
    blocks = plan.num_copies
    assert blocks == (2 if plan.strategy == "pre_shuffle_merge" else 1)
    blocks += workload.results == "blocks"
    blocks += plan.num_rounds if plan.strategy == "streaming" else 0
    headers = memory.SLICE_BYTES * plan.num_splits * plan.num_partitions
    assert 0 <= plan.spilled_bytes <= blocks * (max(workload.total_bytes, 1) + headers)
    assert plan.costs[0].traffic.written_bytes == plan.spilled_bytes


@given(workloads, resources)
def test_the_smallest_limit_that_is_named_works(workload: Workload, given: Resources) -> None:
    if try_plan(workload, given, "auto") is not None:
        return
    smallest = smallest_budget(workload, given, Auto().alternatives)
    assert try_plan(workload, Resources(smallest, given.num_cpus), "auto") is not None
    assert smallest > given.budget_bytes


@given(workloads, resources, st.integers(2, 8))
def test_more_memory_needs_no_more_spilling_but_for_more_tasks_at_once(
    workload: Workload, given: Resources, times: int
) -> None:
    small = try_plan(workload, given, "simple")
    large = try_plan(workload, Resources(given.budget_bytes * times, given.num_cpus), "simple")
    if small is not None:
        assert large is not None
        more = most_header_bytes(workload)
        if large.idle_cpus < small.idle_cpus:
            # Tasks take memory of blocks, so that more of them run at once.
            more += (given.num_cpus - large.idle_cpus) * large.map_memory_bytes
        assert large.spilled_bytes <= small.spilled_bytes + more


def test_tasks_with_little_memory_do_not_fill_the_disk_with_headers_of_slices() -> None:
    """Twelve tasks at once had 49 GB of headers for 29.6 GB of rows, and six have 2."""
    workload = Workload(2_961_717 * 9_999, 2_961_717, 9_999, results="blocks")
    small, large = (
        plan_shuffle(workload, Resources(49_875_044 * times, 12), "simple") for times in (1, 8)
    )
    assert large.spilled_bytes < small.spilled_bytes
    assert large.spilled_bytes < 2.1 * workload.total_bytes


@given(workloads, resources, strategies, st.integers(0, 10**9))
def test_whatever_fits_fits_with_more_memory(
    workload: Workload, given: Resources, strategy: str, more: int
) -> None:
    if try_plan(workload, given, strategy) is not None:
        larger = Resources(given.budget_bytes + more, given.num_cpus)
        assert try_plan(workload, larger, strategy) is not None


@pytest.mark.parametrize("cpus", [1, 2, 4, 16])
@pytest.mark.parametrize("strategy", ["simple", "push", "streaming"])
def test_ten_times_the_memory_fits_on_any_number_of_cpus(cpus: int, strategy: str) -> None:
    budget = Resources(60_000_000 * cpus, cpus)
    ordinary = Workload(10 * budget.budget_bytes, budget.budget_bytes // 10, 100)
    narrow = Workload(10 * budget.budget_bytes, 10 * budget.budget_bytes // 8, 8)
    assert try_plan(ordinary, budget, strategy) is not None
    assert try_plan(narrow, budget, strategy) is not None


def test_small_slices_are_merged_and_large_ones_are_not() -> None:
    terabyte = Workload(10**12, 10**10, 100)
    gigabytes = Workload(5 * 10**9 // 2, 25 * 10**6, 100)
    budget = Resources(2 * 10**9, 2)
    assert plan_shuffle(terabyte, budget).strategy == "push"
    assert plan_shuffle(gigabytes, budget).strategy == "simple"


def test_maps_that_leave_little_are_cut_by_what_they_read() -> None:
    resources = Resources(10**9, 2)
    read = 200_000_000
    everything = plan_shuffle(Workload(read, 10**7, 20), resources)
    little = plan_shuffle(Workload(10_000, 100, 100, read_bytes=read), resources)
    assert little.split_bytes == everything.split_bytes > 20_000_000
    assert little.num_splits == everything.num_splits < 16
    assert little.num_partitions == 1


def test_workers_leave_less_room_for_blocks() -> None:
    workload, resources = Workload(10**9, 10**7, 100), Resources(400_000_000, 2)
    beside = replace(resources, workers_bytes=50_000_000)
    for strategy in ("simple", "push", "pre_shuffle_merge"):
        alone, together = (plan_shuffle(workload, given, strategy) for given in (resources, beside))
        # Spilling begins at four fifths of all that there is, workers included.
        assert together.spilled_bytes == alone.spilled_bytes + 10_000_000
        assert together.peak_bytes == alone.peak_bytes


def test_data_that_fits_is_not_spilled() -> None:
    plan = plan_shuffle(Workload(10**8, 10**6, 100), Resources(10**9, 2))
    assert plan.spilled_bytes == 0
    assert plan.strategy == "simple"


def test_driver_counts_do_not_multiply() -> None:
    plan = plan_shuffle(Workload(10**13, 10**11, 100), Resources(4 * 10**9, 2), "push")
    assert plan.num_slices < plan.num_splits * plan.num_partitions


@pytest.mark.parametrize("round_size", [1, 3, 7, 10_000])
def test_rounds_are_as_large_as_they_were_asked_to_be(round_size: int) -> None:
    workload, resources = Workload(4 * 10**9, 4 * 10**7, 100), Resources(10**9, 2)
    plan = plan_shuffle(workload, resources, Streaming(round_size=round_size))
    assert plan.num_rounds == -(-plan.num_splits // round_size)
    assert plan.num_folds == plan.num_rounds * plan.num_partitions


def test_more_rounds_spill_more() -> None:
    workload, resources = Workload(4 * 10**9, 4 * 10**7, 100), Resources(10**9, 2)
    plans = [plan_shuffle(workload, resources, Streaming(round_size=size)) for size in (2, 8, 32)]
    spilled = [plan.spilled_bytes for plan in plans]
    assert spilled == sorted(spilled, reverse=True)
    assert len({*spilled}) == 3


@pytest.mark.parametrize("partitions", [0, -1])
def test_no_partitions_are_refused(partitions: int) -> None:
    with pytest.raises(OptionsError, match=str(partitions)):
        plan_shuffle(Workload(1000, 10, 100), Resources(10**9, 2), num_partitions=partitions)


def test_memory_decides_how_many_partitions_there_may_be() -> None:
    """The blocks of the maps that run have a header for each."""
    workload = Workload(1000, 10, 100)
    assert plan_shuffle(workload, Resources(10**9, 2), num_partitions=10**6).num_partitions == 10**6
    with pytest.raises(
        MemoryLimitError, match=r"in 100,000,000 partitions does not fit .* fewer partitions"
    ):
        plan_shuffle(workload, Resources(10**9, 2), num_partitions=10**8)


@pytest.mark.parametrize(("terabytes", "num_nodes"), [(100, 40), (1000, 400)])
def test_plans_of_a_cluster(terabytes: int, num_nodes: int) -> None:
    """As many tasks as the program has memory for, and no merge or slice so small that its overhead counts."""
    total, node_bytes = terabytes * 10**12, 82 * 10**9
    given = Resources(num_nodes * node_bytes, num_nodes * 16, num_nodes=num_nodes)
    plan = plan_shuffle(Workload(total, total // 100, 100), given)
    assert plan.strategy == "push"
    assert plan.peak_bytes <= given.budget_bytes
    tasks = plan.num_splits + plan.num_merges + plan.num_partitions
    assert tasks * memory.TASK_BYTES < node_bytes // 8
    assert total // plan.num_slices >= 100_000
    assert plan.round_size >= given.num_cpus
    # Each CPU of each node has a merge of each round.
    assert plan.round_size // plan.merge_factor >= 16


@given(st.integers(0, 10**18), st.integers(1, 2_000), st.integers(1, 64), strategies)
def test_plans_of_any_cluster_take_no_loops(
    total: int, num_nodes: int, cpus: int, strategy: str
) -> None:
    """Up to a million maps and partitions: the lists that a plan makes do not grow with either."""
    given = Resources(num_nodes * 64 * 10**9, num_nodes * cpus, num_nodes=num_nodes)
    plan = try_plan(Workload(total, total // 100, 100), given, strategy)
    if plan is None:
        # 32 million tasks, or 2 TB a node.
        assert total > num_nodes * 2 * 10**12
        return
    assert plan.num_splits * plan.split_bytes >= total
    assert plan.num_partitions * plan.partition_bytes >= total
    assert plan.peak_bytes <= given.budget_bytes
    assert len(plan.costs) <= 64


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_million_maps_and_a_million_partitions(num_items: int, num_partitions: int) -> None:
    workload = Workload(10**15, 10**13, 100, num_items=num_items)
    given = Resources(400 * 82 * 10**9, 6400, num_nodes=400)
    try:
        plan = plan_shuffle(workload, given, "simple", num_partitions)
    except MemoryLimitError:
        # Two partitions beside each of the tasks that run do not fit.
        assert 10**15 // num_partitions * 6400 > given.budget_bytes // 8
        return
    assert (plan.num_splits, plan.num_partitions) == (num_items, num_partitions)
    assert plan.num_slices == num_items * num_partitions


def test_too_few_partitions_for_the_memory_are_refused() -> None:
    with pytest.raises(MemoryLimitError, match="more partitions"):
        plan_shuffle(Workload(10**10, 10**8, 100), Resources(10**9, 2), num_partitions=2)


@pytest.mark.parametrize("strategy", ["auto", "simple", "push"])
def test_a_row_larger_than_any_partition_is_refused_or_planned_for(strategy: str) -> None:
    row = 5 * memory.MAX_PARTITION_BYTES
    workload = Workload(2 * row, 2, row)
    with pytest.raises(MemoryLimitError, match="the smallest that works is"):
        plan_shuffle(workload, Resources(row, 2), strategy)
    plan = plan_shuffle(workload, Resources(40 * row, 2), strategy)
    assert plan.split_bytes >= row


@given(workloads, resources, st.integers(0, 10**9), st.integers(0, 20_000))
def test_a_map_has_room_for_what_it_decodes(
    workload: Workload, given: Resources, decoding_bytes: int, num_columns: int
) -> None:
    reading = replace(workload, decoding_bytes=decoding_bytes, num_columns=num_columns)
    plan = try_plan(reading, given, "auto")
    if plan is not None:
        assert plan.map_memory_bytes >= decoding_bytes
        assert plan.map_memory_bytes + plan.split_bytes <= given.budget_bytes


def test_splits_do_not_shrink_because_a_page_is_large() -> None:
    """Each map decodes all of it: fewer run at once instead."""
    workload = Workload(300_000_000, 10**7, 30, decoding_bytes=200_000_000)
    assert plan_shuffle(workload, Resources(400_000_000, 2)).split_bytes > 10_000_000


def test_a_refusal_names_the_number_of_columns() -> None:
    with pytest.raises(MemoryLimitError, match="200 kB of 10,000 columns does not fit"):
        plan_shuffle(Workload(200_000, 1, num_columns=10_000), Resources(100_000_000, 2))


def test_many_columns_take_one_task_at_a_time_where_there_is_no_memory_for_two() -> None:
    """10,000 columns of a row within 300 MB, of which the program leaves 185."""
    workload = Workload(58_884, 1, 83_473, num_columns=10_000)
    plan = plan_shuffle(workload, Resources(185_000_000, 2))
    assert (plan.num_splits, plan.num_partitions) == (1, 1)
    assert plan.map_memory_bytes + plan.split_bytes <= 148_000_000
    assert plan.reduce_memory_bytes <= 148_000_000


def test_many_columns_are_not_cut_into_rows() -> None:
    workload = Workload(7_849_221, 100, 78_493, num_columns=10_000)
    plan = plan_shuffle(workload, Resources(10**9, 2))
    assert (plan.num_splits, plan.num_partitions) == (1, 1)
    narrow = plan_shuffle(replace(workload, num_columns=100), Resources(10**9, 2))
    assert narrow.num_splits > 1


def test_rows_that_are_decoded_together_are_cut_only_for_memory() -> None:
    workload = Workload(48_000_000, 2_000, 24_000, num_columns=3_000)
    together = replace(workload, decoded_bytes=48_000_000)
    assert plan_shuffle(workload, Resources(4 * 10**9, 2)).num_splits > 1
    assert plan_shuffle(together, Resources(4 * 10**9, 2)).num_splits == 1
    tight = plan_shuffle(together, Resources(250_000_000, 2))
    assert tight.num_splits > 1
    assert tight.peak_bytes <= 200_000_000


@given(workloads, resources, strategies, st.integers(0, 10**10))
def test_what_is_decoded_together_refuses_no_plan(
    workload: Workload, given: Resources, strategy: str, decoded: int
) -> None:
    plan = try_plan(workload, given, strategy)
    together = try_plan(replace(workload, decoded_bytes=decoded), given, strategy)
    assert (plan is None) == (together is None)
    if together is not None:
        assert together.peak_bytes <= given.budget_bytes


def test_a_group_alone_may_take_most_of_the_budget() -> None:
    plan = plan_shuffle(Workload(10**9, 10**6, 1000), Resources(250_000_000, 2))
    assert 0.7 * 250_000_000 <= plan.alone_bytes <= 0.9 * 250_000_000
