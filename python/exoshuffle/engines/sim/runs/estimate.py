"""Plans a shuffle for a cluster that a file describes, and says what it would take at least, without running anything.

The planner decides the strategy and the sizes, as for a real shuffle. Times are arithmetic: in each of the two phases
the busiest device decides, with the figures of the machine and ``[cpu]``. So nothing waits for anything else, which
makes them bounds from below. ``simulate`` runs the shuffle, at a cost that grows with its tasks; this takes
milliseconds for a petabyte.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exoshuffle.engines.sim.cluster.prices import Use, bill
from exoshuffle.engines.sim.runs.plan_file import question as question_of
from exoshuffle.engines.sim.runs.question import Question
from exoshuffle.engines.sim.runs.scenario import FILE_PIECE_BYTES, Bought
from exoshuffle.errors import OptionsError
from exoshuffle.plan.cost import Traffic
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import Resources, Workload, ceil_div
from exoshuffle.strategies.library import plan_shuffle
from exoshuffle.units import counted, format_bytes

#: Of the sort benchmark; how long rows are matters little.
_ROW_BYTES = 100


@dataclass(frozen=True)
class Estimate:
    """A plan, and what it takes at least.

    Attributes:
        plan: The plan.
        num_objects: Tasks, each of which makes an object.
        disk_requests: Requests of the disks.
        storage_reads, storage_writes: Requests to the object storage.
        map_seconds, reduce_seconds: By device: what it takes in the phase of maps and merges, and of reduces.
        costs: The price of each part at that time; empty without prices.
        currency: Of the costs.
    """

    plan: ShufflePlan
    num_objects: int
    disk_requests: int
    storage_reads: int
    storage_writes: int
    map_seconds: Mapping[str, float]
    reduce_seconds: Mapping[str, float]
    costs: Mapping[str, float]
    currency: str

    @property
    def seconds(self) -> float:
        """The time of both phases, if their busiest devices never wait."""
        return max(self.map_seconds.values()) + max(self.reduce_seconds.values())

    def as_dict(self) -> dict[str, object]:
        """Returns the numbers, for JSON."""
        found = dataclasses.asdict(self)
        numbers = ("seconds", self.seconds), ("program_bytes", self.plan.program_bytes)
        return found | dict(numbers)

    def __str__(self) -> str:
        plan = self.plan
        rows = [
            ("strategy", f"{plan.strategy}: {plan.why}"),
            ("maps", f"{plan.num_splits:,} of {format_bytes(plan.split_bytes)}"),
            ("merges", f"{plan.num_merges:,} of {counted(plan.merge_factor, 'block')}"),
            ("reduces", f"{plan.num_partitions:,} of {format_bytes(plan.partition_bytes)}"),
            ("slices", f"{plan.num_slices:,}"),
            ("objects of the program", f"{self.num_objects:,}"),
            ("memory of the program", format_bytes(plan.program_bytes)),
            ("memory of the nodes", f"{format_bytes(plan.peak_bytes)} at most"),
            ("spilled", format_bytes(plan.spilled_bytes)),
            ("requests of disks", f"{self.disk_requests:,}"),
            (
                "requests of storage",
                f"{self.storage_reads:,} reads, {self.storage_writes:,} writes",
            ),
            ("maps and merges", _told(self.map_seconds)),
            ("reduces", _told(self.reduce_seconds)),
            ("time", f"{self.seconds:,.0f} s at least"),
        ]
        if self.costs:
            parts = ", ".join(f"{name} {cost:,.2f}" for name, cost in self.costs.items())
            rows.append(("cost", f"{sum(self.costs.values()):,.2f} {self.currency} ({parts})"))
        return "\n".join(f"{name:<24}{value}" for name, value in rows)


def estimate(question: Question | str | Path) -> Estimate:
    """Plans a shuffle and computes what it takes at least; nothing runs.

    Args:
        question: The shuffle, or the path of a TOML file with it.

    Raises:
        OptionsError: A step of the planned strategy has no figure in ``cpu``, or there is no disk where one is needed.
        MemoryLimitError: The shuffle does not fit; the message names the memory that would do.
    """
    if not isinstance(question, Question):
        question = question_of(question)
    plan = _planned(question)
    traffic = plan.costs[0].traffic
    mapping, reducing = _mapping(question, traffic), _reducing(question, traffic)
    total = question.total_bytes
    reads, writes = (
        ceil_div(total, size) if place == "storage" else 0
        for place, size in (
            (question.reads, question.read_request_bytes),
            (question.writes, question.write_request_bytes),
        )
    )
    found = Estimate(
        plan=plan,
        num_objects=traffic.num_tasks,
        disk_requests=_disk_requests(question, traffic),
        storage_reads=reads,
        storage_writes=writes,
        map_seconds=mapping,
        reduce_seconds=reducing,
        costs={},
        currency="",
    )
    return found if question.bought is None else _billed(found, question, question.bought)


def _planned(question: Question) -> ShufflePlan:
    machines = question.cluster.machines
    total = question.total_bytes
    given = Resources(
        sum(machine.memory_bytes for machine in machines),
        sum(machine.num_cpus for machine in machines),
        num_nodes=len(machines),
    )
    workload = Workload(total, ceil_div(total, _ROW_BYTES), _ROW_BYTES)
    return plan_shuffle(workload, given, question.strategy, question.num_partitions)


def _cpu_seconds(question: Question, step: str, num_bytes: int) -> float:
    if not num_bytes:
        return 0.0
    if step not in question.cpu:
        raise OptionsError(
            f"there is no cost model for {step}, which the planned strategy runs; add the seconds of a CPU that a "
            f"gigabyte takes: [cpu] {step} = 1.5"
        )
    return question.cpu[step] * num_bytes / 1e9


def _mapping(question: Question, traffic: Traffic) -> dict[str, float]:
    """Returns seconds by device: rows are read and pushed, some are spilled."""
    total = question.total_bytes
    cpu = _cpu_seconds(question, "map", total)
    merging = "fold" if traffic.strategy == "streaming" else "merge"
    cpu += _cpu_seconds(question, merging, traffic.merged_bytes)
    read = traffic.merge_read_bytes + (total if question.reads == "disk" else 0)
    network = _crossing(question, traffic.pushed_bytes)
    network += total if question.reads == "storage" else 0
    return _by_device(question, cpu, (read, traffic.written_bytes), network)


def _reducing(question: Question, traffic: Traffic) -> dict[str, float]:
    """Returns seconds by device: slices are read and pulled, results are written."""
    total = question.total_bytes
    cpu = _cpu_seconds(question, "reduce", total)
    written = total if question.writes == "disk" else 0
    stored = total if question.writes == "storage" else 0
    # Results leave by the other direction of a network than slices come.
    network = max(_crossing(question, traffic.pulled_bytes), stored)
    requests = traffic.num_spilled_slices
    return _by_device(question, cpu, (traffic.reduce_read_bytes, written), network, requests)


def _crossing(question: Question, num_bytes: int) -> int:
    """Returns the bytes that change their node, of those that may."""
    nodes = len(question.cluster.machines)
    return num_bytes * (nodes - 1) // nodes


def _by_device(
    question: Question, cpu: float, disk: tuple[int, int], network: int, slices: int = 0
) -> dict[str, float]:
    """Returns seconds by device; ``disk`` are bytes read and written in large requests, beside those of slices."""
    machines = question.cluster.machines
    found = {
        "CPU": cpu / sum(machine.num_cpus / machine.slowness for machine in machines),
        "network": network / sum(machine.network_bytes_per_second for machine in machines),
    }
    disks = [machine.disk for machine in machines if machine.disk is not None]
    read, written = disk
    if (read or written) and not disks:
        raise OptionsError("rows have to go to a disk, and no node has one; describe it in [disk]")
    if disks:
        requests = slices + ceil_div(read + written, FILE_PIECE_BYTES)
        found["disk"] = sum(
            (
                read / sum(each.read_bytes_per_second * each.num_disks for each in disks),
                written / sum(each.write_bytes_per_second * each.num_disks for each in disks),
                requests / sum(each.num_disks / each.request_seconds for each in disks)
                if all(each.request_seconds for each in disks)
                else 0.0,
            )
        )
    return found


def _disk_requests(question: Question, traffic: Traffic) -> int:
    files = [question.reads, question.writes].count("disk") * question.total_bytes
    pieces = traffic.merge_read_bytes + traffic.written_bytes + files
    return traffic.num_spilled_slices + ceil_div(pieces, FILE_PIECE_BYTES)


def _billed(found: Estimate, question: Question, bought: Bought) -> Estimate:
    stored = []
    if question.reads == "storage":
        stored.append((question.total_bytes, found.seconds))
    if question.writes == "storage":
        stored.append((question.total_bytes, max(found.reduce_seconds.values())))
    use = Use(
        found.seconds,
        bought.machines,
        bought.volume_gigabytes,
        found.storage_reads,
        found.storage_writes,
        tuple(stored),
    )
    costs = bill(bought.prices, use)
    return dataclasses.replace(found, costs=costs, currency=bought.prices.currency)


def _told(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {found:,.0f} s" for name, found in seconds.items())
