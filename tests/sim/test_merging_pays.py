"""Where a merge beside the maps pays in time: on turning disks, for many small partitions within little memory."""

from __future__ import annotations

import pytest

from exoshuffle.engines.sim import Cluster, Disk, Machine, Scenario, simulate
from exoshuffle.plan.cost import DISKS
from exoshuffle.plan.workload import Resources, Workload
from exoshuffle.strategies import MergeOptions, PreShuffleMerge
from exoshuffle.strategies.library import Auto, plan_shuffle

GB = 10**9
NUM_PARTITIONS = 1000
#: CPU seconds for a gigabyte, as ``plan/cost.py`` has them.
CPU = {"map": 2.2, "merge": 0.4, "reduce": 2.2}


def _resources(memory_bytes: int, num_cpus: int) -> Resources:
    return Resources(memory_bytes, num_cpus, disk="rotational")


def _simulated_seconds(strategy: str, total_bytes: int, resources: Resources) -> float:
    plan = plan_shuffle(_workload(total_bytes), resources, strategy, NUM_PARTITIONS)
    disk = DISKS[resources.disk]
    disks = Disk(disk.read_rate, disk.write_rate, disk.request_seconds)
    scenario = Scenario(
        Cluster((Machine(resources.num_cpus, resources.budget_bytes, disks),)),
        strategy,
        total_bytes,
        plan.num_splits,
        NUM_PARTITIONS,
        CPU,
        round_size=plan.round_size,
        merge_factor=plan.merge_factor,
        map_memory_bytes=plan.map_memory_bytes,
        reduce_memory_bytes=plan.reduce_memory_bytes,
    )
    return simulate(scenario).seconds


def _workload(total_bytes: int) -> Workload:
    return Workload(total_bytes, total_bytes // 100)


@pytest.mark.parametrize(
    ("total_bytes", "memory_bytes", "num_cpus"),
    [(1 * GB, GB // 2, 16), (2 * GB, GB // 2, 64), (4 * GB, 1 * GB, 64)],
)
def test_it_is_chosen_where_it_is_faster(
    total_bytes: int, memory_bytes: int, num_cpus: int
) -> None:
    resources = _resources(memory_bytes, num_cpus)
    plan = plan_shuffle(_workload(total_bytes), resources, "auto", NUM_PARTITIONS)
    assert plan.strategy == "pre_shuffle_merge"
    merged = _simulated_seconds("pre_shuffle_merge", total_bytes, resources)
    assert merged < 0.85 * _simulated_seconds("push", total_bytes, resources)
    assert merged < 0.2 * _simulated_seconds("simple", total_bytes, resources)
    assert merged == pytest.approx(plan.costs[0].seconds, rel=0.25)


def test_merges_that_are_given_up_are_in_its_costs() -> None:
    """Reduces read what they would have merged, slice by slice."""
    resources = _resources(1 * GB, 64)
    hasty = PreShuffleMerge(MergeOptions(percent=90))
    plan = plan_shuffle(_workload(4 * GB), resources, hasty, NUM_PARTITIONS)
    num_groups = -(-plan.num_splits // plan.merge_factor)
    num_given_up = num_groups // 10
    num_read = num_groups + num_given_up * (plan.merge_factor - 1)
    assert num_given_up > 0
    assert plan.num_slices == num_read * NUM_PARTITIONS
    chosen = plan_shuffle(_workload(4 * GB), resources, Auto(hasty), NUM_PARTITIONS)
    assert chosen.strategy == "push"
