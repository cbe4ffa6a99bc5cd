"""A strategy of your own: a shuffle in two levels, run by the library's sort.

Run it: ``python examples/strategy_two_level.py``. See docs/writing-a-strategy.md.

M maps and R reduces exchange M x R slices, and a shuffle waits for the reads of small slices. Here the R partitions are
divided into about sqrt(R) groups. First level: for every group one merge takes its range of slices from every map.
Second level: every reduce takes its one slice from the merge of its group. That is M x sqrt(R) reads of longer ranges,
then R reads of one slice.

The strategy needs memory for the largest groups, about total / sqrt(R) bytes each, one for every merge that runs at
once. ``candidates`` tells this memory and the bytes that are moved. So the strategy is planned and billed like those of
the library, and ``strategy=Auto(TwoLevel())`` compares it with them.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import exoshuffle as xs
from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.strategies import (
    Auto,
    Basis,
    Candidate,
    PlannedStrategy,
    ShufflePlan,
    TaskSet,
    stage,
)

#: Results that a dataset asks for before they are made.
AHEAD = 64


class TwoLevel(PlannedStrategy):
    """Merges partitions in groups, one group after the other."""

    name = "two_level"
    steps = ("map", "merge", "reduce")

    def candidates(self, basis: Basis) -> list[Candidate]:
        """See ``exoshuffle.strategies.PlannedStrategy``."""
        total, count = basis.total_bytes, basis.num_partitions
        num_groups = len(groups(count))
        group_bytes = basis.sizes.large_partition_bytes * math.ceil(count / num_groups)
        # A merge holds its inputs and its output.
        running = min(num_groups, basis.resources.num_cpus)
        if 2 * running * group_bytes > basis.sizes.usable_bytes:
            return []
        # Few partitions are mostly merged when the first is reduced: both copies of rows may be spilled and read.
        is_early = count <= 2 * AHEAD
        return [
            Candidate(
                num_slices=basis.num_splits * num_groups + count,
                num_merges=num_groups,
                num_copies=2 if is_early else 1,
                merged_bytes=total,
                # All merges but the first run beside reduces.
                tail_bytes=min(total, group_bytes),
                moved_again_bytes=total,
                reread_bytes=total if is_early else 0,
            )
        ]

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[xs.Ref]:
        """See ``exoshuffle.strategies.Strategy``."""
        count = plan.num_partitions
        run_map = stage(tasks, "map", num_returns=count, memory=plan.map_memory_bytes)
        run_reduce = stage(tasks, "reduce", memory=plan.reduce_memory_bytes)
        blocks = [run_map.remote(index, split) for index, split in enumerate(splits)]
        for group in groups(count):
            run_merge = stage(tasks, "merge", num_returns=len(group))
            merged = run_merge.remote(*(block[group.start : group.stop] for block in blocks))
            for place, partition in enumerate(group):
                # A reduce gets a list of slices: here it is a list of one.
                yield run_reduce.remote(partition, merged[place : place + 1])


def groups(num_partitions: int) -> list[range]:
    """Divides partitions into groups; there are about as many groups as a group has members."""
    width = math.isqrt(num_partitions - 1) + 1
    return [
        range(start, min(start + width, num_partitions))
        for start in range(0, num_partitions, width)
    ]


def main() -> None:
    """Sorts a million records by this strategy and checks the result."""
    xs.init(memory_limit="1GB")
    with tempfile.TemporaryDirectory() as folder:
        records, output = Path(folder, "records"), Path(folder, "sorted")
        gensort(records, 1_000_000)
        read = xs.read_records(records)
        print(read.sort(strategy=Auto(TwoLevel()), num_partitions=10).explain())
        result = read.sort(strategy=TwoLevel(), num_partitions=10).write_records(output)
        checked = valsort(output)
        assert checked.is_sorted
        assert checked.checksum == valsort(records).checksum
        print(f"{result.rows} records in {len(result.files)} files, sorted")
    xs.shutdown()


if __name__ == "__main__":
    main()
