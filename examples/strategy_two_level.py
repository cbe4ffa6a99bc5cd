"""A strategy of your own: a shuffle in two levels, run by the library's sort.

Run it: ``python examples/strategy_two_level.py``. See docs/writing-a-strategy.md.

M maps and R reduces exchange M x R slices, and the reads of small slices are what a shuffle waits for. Here the R
partitions are divided into about sqrt(R) groups. First level: for every group one merge takes its range of slices from
every map. Second level: every reduce takes its one slice from the merge of its group. That is M x sqrt(R) reads of
longer ranges, then R reads of one slice.

What it needs: memory for the largest group, about total / sqrt(R) bytes, in one merge.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import exoshuffle as xs
from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.strategies import ShufflePlan, TaskSet
from exoshuffle.strategies.strategy import stage


class TwoLevel:
    """Partitions in groups, groups one after the other."""

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[xs.Ref]:
        """See ``exoshuffle.strategies.Strategy``."""
        count = plan.num_partitions
        run_map = stage(tasks, "map", num_returns=count, memory=plan.map_memory_bytes)
        run_reduce = stage(tasks, "reduce", memory=plan.reduce_memory_bytes)
        blocks = [run_map.remote(index, split) for index, split in enumerate(splits)]
        width = math.isqrt(count - 1) + 1
        for start in range(0, count, width):
            stop = min(start + width, count)
            run_merge = stage(tasks, "merge", num_returns=stop - start)
            group = run_merge.remote(*(block[start:stop] for block in blocks))
            for partition in range(start, stop):
                # A reduce gets a list of slices: here it is a list of one.
                place = partition - start
                yield run_reduce.remote(partition, group[place : place + 1])


def main() -> None:
    """Sorts a million records by this strategy and checks the result."""
    xs.init(memory_limit="1GB")
    with tempfile.TemporaryDirectory() as folder:
        records, output = Path(folder, "records"), Path(folder, "sorted")
        gensort(records, 1_000_000)
        dataset = xs.read_records(records).sort(strategy=TwoLevel(), num_partitions=10)
        result = dataset.write_records(output)
        checked = valsort(output)
        assert checked.is_sorted
        assert checked.checksum == valsort(records).checksum
        print(f"{result.rows} records in {len(result.files)} files, sorted")
    xs.shutdown()


if __name__ == "__main__":
    main()
