"""What a shuffle of 5,000 x 5,000 tiny slices costs the program that drives it, beside the blocks themselves.

Twenty-five million slices would be gigabytes if each had an entry of its own; a program over the futures API holds one
reference per map and per reduce. Measured is the growth of the anonymous memory of the process (the heaps of Python
and of the engine), while blocks, 8 bytes a slice, lie in the engine's shared memory under its limit.

    python -m benchmarks.driver_memory --maps 5000 --reduces 5000
"""

from __future__ import annotations

import argparse
import re
import struct
import threading
import time
from pathlib import Path
from typing import Any

import exoshuffle as xs

SLICE = struct.Struct("<q")


def shuffle(num_maps: int, num_reduces: int) -> int:
    """The sum of all slices after each reduce has summed its own; slice j of map i holds i * R + j."""

    @xs.remote(num_returns=num_reduces, executor="thread")
    def scatter(index: int) -> Any:
        block: Any = xs.allocate_block(range(0, (num_reduces + 1) * SLICE.size, SLICE.size))
        first = index * num_reduces
        with memoryview(block) as view:
            struct.pack_into(f"<{num_reduces}q", view, 0, *range(first, first + num_reduces))
        return block

    @xs.remote(executor="thread")
    def add(slices: list[Any]) -> int:
        return sum(SLICE.unpack(piece)[0] for piece in slices)

    blocks = xs.Refs(scatter.remote(index) for index in range(num_maps))
    return sum(xs.get([add.remote(blocks.column(index)) for index in range(num_reduces)]))


class HeapSampler(threading.Thread):
    """The largest anonymous memory of this process, looked at every 20 ms."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.first_bytes = self.peak_bytes = anonymous_bytes()
        self._ended = threading.Event()

    def run(self) -> None:
        """Samples until ``stop``."""
        while not self._ended.wait(0.02):
            self.peak_bytes = max(self.peak_bytes, anonymous_bytes())

    def stop(self) -> int:
        """Ends sampling; how far the memory grew."""
        self._ended.set()
        self.join()
        return self.peak_bytes - self.first_bytes


def anonymous_bytes() -> int:
    """Resident memory of this process that belongs to no file and is not shared."""
    match = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match.group(1)) * 1024


def main() -> None:
    """Runs one shuffle and prints what it cost."""
    parser = argparse.ArgumentParser(description="Driver memory of a shuffle of many tiny slices.")
    parser.add_argument("--maps", type=int, default=5000)
    parser.add_argument("--reduces", type=int, default=5000)
    parser.add_argument("--memory-limit", default="2GB", help="for the whole program")
    options = parser.parse_args()
    xs.init(memory_limit=options.memory_limit)
    sampler = HeapSampler()
    sampler.start()
    started = time.perf_counter()
    found = shuffle(options.maps, options.reduces)
    seconds = time.perf_counter() - started
    grown = sampler.stop()
    xs.shutdown()
    num_slices = options.maps * options.reduces
    assert found == num_slices * (num_slices - 1) // 2, "slices got lost or mixed up"
    print(
        f"{options.maps} x {options.reduces} slices: {seconds:.1f} s, the driver's heap grew by "
        f"{grown / 1e6:.0f} MB ({grown / num_slices:.2f} bytes a slice)"
    )


if __name__ == "__main__":
    main()
