"""Measures the memory of a program that drives a shuffle of 5,000 x 5,000 tiny slices, without the blocks themselves.

Twenty-five million slices would be gigabytes if each had an entry of its own. A program over the futures API holds one
reference per map and per reduce. The figure is the growth of the anonymous memory of the process (the heaps of Python
and of the engine). The blocks, 8 bytes a slice, lie in the engine's shared memory under its limit.

    python -m benchmarks.driver_memory --maps 5000 --reduces 5000
    python -m benchmarks.driver_memory --maps 2000 --reduces 2000 --engine ray --strategy push
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import re
import struct
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import exoshuffle as xs
from exoshuffle.futures.options import Executor
from exoshuffle.strategies import Resources, Workload, get_strategy, plan_shuffle

SLICE_BYTES = 8
#: Settings of the push strategy; as many blocks of this small size fit into a round.
ROUND_SIZE, MERGE_FACTOR = 100, 10
#: As in writing a sort: reduces are submitted as their results are taken.
REDUCES_AHEAD = 16


class NumberTasks:
    """Slice j of map i holds the number i * R + j; a reduce sums its own."""

    def __init__(self, num_reduces: int, executor: Executor) -> None:
        self.executor = executor
        self._num_reduces = num_reduces

    def map(self, index: int, _split: None) -> Any:
        """Returns a block of R numbers."""
        first = index * self._num_reduces
        numbers = range(first, first + self._num_reduces)
        return _block(SLICE_BYTES, struct.pack(f"<{self._num_reduces}q", *numbers))

    def merge(self, *blocks: Sequence[Any]) -> Any:
        """Returns the numbers of all blocks, slice by slice."""
        slices = (b"".join(column) for column in zip(*blocks, strict=True))
        return _block(SLICE_BYTES * len(blocks), b"".join(slices))

    def reduce(self, _partition: int, slices: list[Any]) -> int:
        """Returns the sum of a partition."""
        return sum(number for piece in slices for (number,) in struct.iter_unpack("<q", piece))


def _block(slice_bytes: int, data: bytes) -> Any:
    block: Any = xs.allocate_block(range(0, len(data) + 1, slice_bytes))
    with memoryview(block) as view:
        view[:] = data
    return block


def shuffle(
    num_maps: int, num_reduces: int, strategy: str = "simple", executor: Executor = "thread"
) -> int:
    """Returns the sum of all slices after each reduce has summed its own."""
    workload = Workload(num_maps * num_reduces * SLICE_BYTES, num_maps * num_reduces)
    plan = plan_shuffle(workload, Resources(10**12, 2), strategy, num_reduces)
    plan = dataclasses.replace(
        plan,
        num_splits=num_maps,
        round_size=ROUND_SIZE,
        merge_factor=MERGE_FACTOR,
        map_memory_bytes=0,
        reduce_memory_bytes=0,
    )
    tasks = NumberTasks(num_reduces, executor)
    total = 0
    waiting: collections.deque[xs.Ref] = collections.deque()
    for result in get_strategy(strategy).shuffle(tasks, [None] * num_maps, plan):
        waiting.append(result)
        if len(waiting) > REDUCES_AHEAD:
            total += int(xs.get(waiting.popleft()))
    return total + int(sum(xs.get(list(waiting))))


class HeapSampler(threading.Thread):
    """Finds the largest anonymous memory of this process, looked at every 20 ms."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.first_bytes = self.peak_bytes = anonymous_bytes()
        self._ended = threading.Event()

    def run(self) -> None:
        """Samples until ``stop``."""
        while not self._ended.wait(0.02):
            self.peak_bytes = max(self.peak_bytes, anonymous_bytes())

    def stop(self) -> int:
        """Ends sampling, and returns how far the memory grew."""
        self._ended.set()
        self.join()
        return self.peak_bytes - self.first_bytes


def anonymous_bytes(process: int | str = "self") -> int:
    """Returns the resident memory of a process, by default this one, that belongs to no file and is not shared."""
    match = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert match is not None
    return int(match.group(1)) * 1024


def main() -> None:
    """Runs one shuffle and prints its memory."""
    parser = argparse.ArgumentParser(description="Driver memory of a shuffle of many tiny slices.")
    parser.add_argument("--maps", type=int, default=5000)
    parser.add_argument("--reduces", type=int, default=5000)
    parser.add_argument("--memory-limit", default="2GB", help="for the whole program")
    parser.add_argument("--engine", default="local", choices=["local", "ray"])
    parser.add_argument("--strategy", default="simple", choices=["simple", "push"])
    options = parser.parse_args()
    xs.init(engine=options.engine, memory_limit=options.memory_limit, num_cpus=2)
    sampler = HeapSampler()
    sampler.start()
    started = time.perf_counter()
    found = shuffle(options.maps, options.reduces, options.strategy)
    seconds = time.perf_counter() - started
    grown = sampler.stop()
    xs.shutdown()
    num_slices = options.maps * options.reduces
    assert found == num_slices * (num_slices - 1) // 2, "slices got lost or mixed up"
    print(
        f"{options.maps} x {options.reduces} slices, {options.engine}, {options.strategy}: {seconds:.1f} s, "
        f"the driver has {(sampler.first_bytes + grown) / 1e6:.0f} MB; its heap grew by "
        f"{grown / 1e6:.0f} MB ({grown / num_slices:.2f} bytes a slice)"
    )


if __name__ == "__main__":
    main()
