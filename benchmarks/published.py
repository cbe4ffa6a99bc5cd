"""Holds the engine in virtual time against times that others measured: what is fitted, and to which bars, is said.

    python -m benchmarks.published                 # all of it: about three minutes of a CPU
    python -m benchmarks.published cloudsort riffle

Sources:

* F. Luan's dissertation (UCB/EECS-2024-219), figure 3.4, table 4.1 and section 4.1
* ``exoshuffle/raysort``: its configurations with the bars' numbers (``scripts/plotting/plot_shuffle_comparison.py``),
  and the times of the ladder (``raysort/config/aws.py``)
* Riffle (EuroSys '18), section 6.2

The machines are the files of the package.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import exoshuffle as xs
from exoshuffle.engines.sim import (
    Call,
    Cluster,
    Cost,
    Machine,
    ObjectStorage,
    Report,
    Scenario,
    SimEngine,
    simulate,
)
from exoshuffle.engines.sim.cluster.library import machine, with_store
from exoshuffle.engines.sim.runs.simulate import ModelledTasks
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies import MergeOptions, PreShuffleMerge, Push, Simple, Strategy

TB = 10**12


@dataclass(frozen=True)
class Row:
    """A time that was measured, and the same simulated.

    Attributes:
        name: The thing that was measured.
        measured, simulated: Seconds.
        is_fitted: Whether figures of the cluster were fitted to it.
    """

    name: str
    measured: float
    simulated: float
    is_fitted: bool = False

    @property
    def error(self) -> float:
        """The error, as a share of the measured time."""
        return self.simulated / self.measured - 1

    def __str__(self) -> str:
        fitted = "  fitted" if self.is_fitted else ""
        return f"{self.name:<44}{self.measured:>8,.0f} s{self.simulated:>8,.0f} s{100 * self.error:>+7.1f} %{fitted}"


def summary(rows: list[Row]) -> str:
    """Returns the errors of rows that were not fitted, and the pairs of rows that are in the wrong order."""
    free = [row for row in rows if not row.is_fitted]
    errors = [100 * abs(row.error) for row in free]
    pairs = [
        (a, b)
        for a, b in itertools.combinations(free, 2)
        if max(a.measured, b.measured) > 1.15 * min(a.measured, b.measured)
    ]
    wrong = [(a, b) for a, b in pairs if (a.measured < b.measured) != (a.simulated < b.simulated)]
    return (
        f"not fitted: median error {statistics.median(errors):.1f} %, largest {max(errors):.1f} %; "
        f"of {len(pairs)} pairs that differ by more than 15 %, {len(wrong)} in the wrong order"
    )


# --- CloudSort ---------------------------------------------------------------------------------------------------

#: Nodes, terabytes and seconds of runs on i4i.4xlarge with 12 maps at a time, as they were noted.
LADDER = [
    (10, 2, 402),
    (20, 4, 418),
    (30, 6, 454),
    (40, 8, 458),
    (10, 8, 1550),
]
#: Seconds of maps and merges, and of reduces: 100 TB on 40 nodes, mean of three runs.
TABLE_4_1 = (3508, 1870)


def cloudsort(num_nodes: int, terabytes: int) -> Scenario:
    """Returns the sort of section 4.1; its tasks take as long as published, and nothing is fitted.

    A map of 2 GB takes 24 s, 15 of them for reading and 7 for sending. The latter are computed here: what its slices
    take on the network. A merge of as much takes 17 s, a reduce of 4 GB 22 s. Each CPU has a task, and a task has it
    while it fetches, since reduces were counted from there on.
    """
    storage = ObjectStorage(
        connection_bytes_per_second=2e9 / 15, connections=1, write_connections=16
    )
    cluster = Cluster((machine("i4i.4xlarge"),) * num_nodes, storage, fetches_ahead=False)
    num_maps = terabytes * TB // 2_000_000_000
    return Scenario(
        cluster,
        "push",
        terabytes * TB,
        num_maps,
        num_maps // 2,
        {"map": (24 - 15 - 7) / 2, "merge": 17 / 2, "reduce": 22 / 4},
        reads="storage",
        writes="storage",
        round_size=num_nodes * cluster.machines[0].num_cpus,
        merge_factor=num_nodes,
        reduce_memory_bytes=1_000_000_000,
    )


def cloudsort_rows() -> Iterator[Row]:
    """Simulates the stages of table 4.1, with as much for each node on a quarter of them, and the ladder."""
    stages = {stage.name: stage for stage in simulate(cloudsort(10, 25)).stages}
    merged = stages["merge"].end
    yield Row("table 4.1: map and shuffle (of 10 nodes)", TABLE_4_1[0], merged)
    yield Row("table 4.1: reduce (of 10 nodes)", TABLE_4_1[1], stages["reduce"].end - merged)
    for num_nodes, terabytes, measured in LADDER:
        report = simulate(cloudsort(num_nodes, terabytes))
        yield Row(f"{terabytes} TB on {num_nodes} nodes", measured, report.seconds)


# --- figure 3.4 --------------------------------------------------------------------------------------------------

PARTITIONS = (500, 1000, 2000)
BARS = {
    "d3.2xlarge": {
        "simple": (1297, 1929, 2799),
        "merge": (1409, 1334, 2163),
        "push": (761, 700, 748),
        "push*": (702, 634, 743),
    },
    "i3.2xlarge": {
        "simple": (570, 628, 1085),
        "merge": (711, 660, 728),
        "push": (602, 580, 626),
        "push*": (596, 533, 553),
    },
}
#: Gigabytes in memory, in 100 partitions.
SMALL_BARS = {
    "simple": {100: 39, 200: 96},
    "merge": {100: 66, 200: 160},
    "push": {100: 53, 200: 143},
    "push*": {100: 50, 200: 130},
}
#: The bars that the figures below were fitted to, by coordinate descent on the squares of logarithms.
FITTED_TO = {("simple", 500), ("simple", 2000), ("merge", 1000), ("push*", 1000)}


@dataclass(frozen=True)
class Fitted:
    """The numbers of a kind of nodes that were fitted.

    Attributes:
        share: Share of the disks' rate.
        slice_seconds: The time that a slice takes of the node that fetches it.
        request_seconds: The time that it takes of the disk; default: that of the file of the nodes.
        remote: Bytes per second that a disk reads for other nodes; default: as for its own.
    """

    share: float
    slice_seconds: float = 0.0
    request_seconds: float | None = None
    remote: float | None = None


FITTED = {
    "d3.2xlarge": Fitted(0.57, slice_seconds=0.0065, remote=19.5e6),
    "i3.2xlarge": Fitted(1.66, request_seconds=0.0021),
}


def _strategy(name: str) -> Strategy:
    if name == "merge":
        return PreShuffleMerge(MergeOptions(percent=95))
    return Push(keep_map_outputs=name == "push")


def sort(kind: str, strategy: str, num_partitions: int, total_bytes: int = TB) -> Report:
    """Simulates a bar: ten nodes, whose store has 60 % of the memory as in the authors' configuration."""
    fitted = FITTED[kind]
    node = with_store(machine(kind), 60)
    assert node.disk is not None
    disk = replace(
        node.disk,
        read_bytes_per_second=node.disk.read_bytes_per_second * fitted.share,
        write_bytes_per_second=node.disk.write_bytes_per_second * fitted.share,
        remote_read_bytes_per_second=fitted.remote,
        request_seconds=fitted.request_seconds or node.disk.request_seconds,
    )
    cluster = Cluster((replace(node, disk=disk),) * 10, slice_seconds=fitted.slice_seconds)
    scenario = Scenario(
        cluster,
        strategy if strategy == "simple" else _strategy(strategy),
        total_bytes,
        num_partitions,
        num_partitions,
        {"map": 5, "merge": 1, "reduce": 5},
        round_size=80,
        merge_factor=8,
    )
    return simulate(scenario)


def bars_of(kind: str) -> Iterator[Row]:
    """Simulates 1 TB on ten nodes of a kind."""
    for strategy, times in BARS[kind].items():
        for num_partitions, measured in zip(PARTITIONS, times, strict=True):
            found = sort(kind, strategy, num_partitions).seconds
            is_fitted = (strategy, num_partitions) in FITTED_TO
            yield Row(
                f"{kind}, {strategy}, {num_partitions:,} partitions", measured, found, is_fitted
            )


def small_bars() -> Iterator[Row]:
    """Simulates what fits into memory, on the nodes with flash disks; the source does not name the nodes."""
    for strategy, times in SMALL_BARS.items():
        for gigabytes, measured in times.items():
            found = sort("i3.2xlarge", strategy, 100, gigabytes * 10**9).seconds
            yield Row(f"in memory, {strategy}, {gigabytes} GB", measured, found)


# --- Riffle ------------------------------------------------------------------------------------------------------

RIFFLE_MAPS, RIFFLE_MERGED = 8_000, 40
#: All merges are awaited: how many of them come late is nothing that requests could be counted by.
COMPLETE = PreShuffleMerge(MergeOptions(percent=100))


def riffle_reads(strategy: Strategy) -> int:
    """Returns the slices that each reduce reads, counted in a run of 8,000 maps and 10 reduces."""
    reads: list[int] = []

    def small(call: Call) -> Cost:
        if call.name == "reduce":
            reads.append(call.num_inputs)
        return Cost((), 1_000 if call.name == "map" else call.input_bytes)

    plan = ShufflePlan(
        strategy="riffle",
        why="asked for",
        num_splits=RIFFLE_MAPS,
        num_partitions=10,
        split_bytes=1_000,
        partition_bytes=1_000,
        row_group_bytes=0,
        round_size=RIFFLE_MAPS,
        merge_factor=RIFFLE_MERGED,
        map_memory_bytes=0,
        reduce_memory_bytes=0,
        peak_bytes=0,
        spilled_bytes=0,
    )
    models = dict.fromkeys(("map", "merge", "reduce"), small)
    with xs.init(SimEngine(Cluster((Machine(40, TB),)), models=models)):
        results = list(strategy.shuffle(ModelledTasks(), range(RIFFLE_MAPS), plan))
        xs.wait(results, num_ready=len(results))
    assert len({*reads}) == 1, "reduces read different numbers of slices"
    return reads[0]


def main() -> None:
    """Prints the parts that were asked for."""
    parts = {
        "cloudsort": cloudsort_rows,
        "ssd": lambda: bars_of("i3.2xlarge"),
        "hdd": lambda: bars_of("d3.2xlarge"),
        "memory": small_bars,
    }
    parser = argparse.ArgumentParser(prog="python -m benchmarks.published", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(parts)} and riffle; default: all")
    asked = parser.parse_args().parts or [*parts, "riffle"]
    for name, part in parts.items():
        if name in asked:
            rows = []
            for row in part():
                rows.append(row)
                _say(str(row))
            _say(summary(rows) + "\n")
    if "riffle" in asked:
        plain, merged = riffle_reads(Simple()), riffle_reads(COMPLETE)
        _say(f"Riffle, reads of a reduce: 8,000 and 200 published, {plain:,} and {merged:,} here")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
