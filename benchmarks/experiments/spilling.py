"""Spilling: the worth of fusing small objects into large files, and of fetching arguments before their task starts.

The original is in Exoshuffle, §5.6.2, Fig 8, and Wang's dissertation, §5.5.3.2, Fig 5.7. There 16 GB in objects of 100
KB to 1 MB go through a store of 1 GB. They go to a hard disk and back to tasks that take one object each. With fusing
(files of 100 MB) the time is the same at all sizes. Without, it is a quarter more at 1 MB and 12 times as much at 100
KB. Fetching the arguments of tasks ahead cuts the time by 60 - 80 %.

Here the data is smaller, in the same proportion, and each task checks its object by CRC-32. (The smallest budget of an
engine is 48 MB. So less than 0.93 GB has a store of more than a sixteenth; the title names the size.) The counterparts:

* *Fused* is the engine as it is: files of 100 MiB. Its store has no setting for another size as seen from Python. So
  *unfused* is measured beside it and not through it ("no engine" in the table). The same bytes are written and read
  back by direct I/O. They go as a file per object, and as files of 100 MiB in pieces of 4 MiB. That is the disk's and
  the file system's share.
* *In memory* is the same program with room for all. It shows the cost of the two tasks per object, which is part of the
  time of small objects. The original had it too, but its disk was slow enough to hide it.
* *Ahead* is the engine as it is: the object is an argument, and one thread fetches for the tasks to come. *Late*: the
  task gets a list with the reference and asks for the object when it runs. A waiting task gives its CPU back. So a
  declared resource keeps the number of tasks at two, each of which fetches for itself. (*Ahead* declares none: tasks
  waiting for their fetch would hold the resource, and nothing would be fetched for tasks to come.) An SSD serves both
  at once, where a hard disk would have to turn from one to the other.

    python -m benchmarks.experiments.spilling --gb 1
"""

from __future__ import annotations

import argparse
import collections
import functools
import mmap
import os
import shutil
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import exoshuffle as xs
from benchmarks.experiments.experiment import (
    NUM_CPUS,
    Finding,
    engine,
    in_turn,
    parser,
    ratio,
    show,
)
from benchmarks.rounds import spread
from exoshuffle.engines.local.memory import limits

FUSED_BYTES = 100 * 1024 * 1024
PIECE_BYTES = 4 * 1024 * 1024
#: Direct I/O moves whole sectors.
SECTOR_BYTES = 4096
DATA_PER_STORE = 16
#: The original's ratio of files of one object to fused ones, by size.
UNFUSED = {100_000: "up to 12x", 1_000_000: "1.25x"}
#: Held while a task runs, also while it waits for an object.
SLOT = {"slot": 1}


@xs.remote(executor="thread")
def create(contents: bytes) -> Any:
    """Returns an object."""
    block: Any = xs.allocate_block([0, len(contents)])
    with memoryview(block) as view:
        view[:] = contents
    return block


@xs.remote(executor="thread")
def check(value: Any) -> int:
    """Returns the checksum of an object that was fetched before the task started."""
    return zlib.crc32(value)


@xs.remote(executor="thread", resources=SLOT)
def fetch_and_check(refs: list[xs.Ref]) -> int:
    """Returns the checksum of an object that is fetched now."""
    return zlib.crc32(xs.get(refs[0]))


@dataclass(frozen=True)
class Passage:
    """The way of all objects through the store: seconds to make them and to have them checked."""

    making: float
    checking: float
    num_objects: int
    num_files: int
    spilled_bytes: int

    @property
    def seconds(self) -> float:
        """Returns both together."""
        return self.making + self.checking


@dataclass(frozen=True)
class Case:
    """Objects of one size through a store of some size to one kind of task."""

    num_bytes: int
    size: int
    store_bytes: int
    consume: Callable[[xs.Ref], xs.Ref]

    def run(self, root: Path) -> Passage:
        """Makes all objects, then has a task check each, in the same order."""
        contents = os.urandom(self.size)
        num_objects = self.num_bytes // self.size
        slots = {"slot": NUM_CPUS}
        with engine(root, self.store_bytes, resources=slots) as started:
            begun = time.perf_counter()
            refs = collections.deque(create.remote(contents) for _ in range(num_objects))
            xs.wait(list(refs), num_ready=num_objects)
            made = time.perf_counter()
            num_files = started.stats()["spill_files"]
            # Taken out of the queue, so that each object goes when it has been checked.
            sums = [self.consume(refs.popleft()) for _ in range(num_objects)]
            assert set(xs.get(sums)) == {zlib.crc32(contents)}
            checked = time.perf_counter()
            spilled_bytes = started.stats()["spilled_bytes"]
        return Passage(made - begun, checked - made, num_objects, num_files, spilled_bytes)


def check_ahead(ref: xs.Ref) -> xs.Ref:
    """Submits a task whose object is fetched before it starts."""
    checked: xs.Ref = check.remote(ref)
    return checked


def check_late(ref: xs.Ref) -> xs.Ref:
    """Submits a task that fetches its object itself."""
    checked: xs.Ref = fetch_and_check.remote([ref])
    return checked


def passages(size: int, options: argparse.Namespace) -> dict[str, list[Passage]]:
    """Measures one size, in each of the ways."""
    num_bytes = round(options.gb * 1e9)
    small, large = store_bytes(num_bytes), 3 * num_bytes
    cases = {
        "ahead": Case(num_bytes, size, small, check_ahead),
        "late": Case(num_bytes, size, small, check_late),
        "in memory": Case(num_bytes, size, large, check_ahead),
    }
    runs = {name: functools.partial(case.run, options.root) for name, case in cases.items()}
    return in_turn(options.rounds, runs)


def store_bytes(num_bytes: int) -> int:
    """Returns a sixteenth of the objects, or somewhat more than the least: this process may still grow."""
    return max(num_bytes // DATA_PER_STORE, limits.MIN_BUDGET_BYTES + 10_000_000)


def disk_alone(size: int, objects_per_file: int, options: argparse.Namespace) -> float:
    """Returns the seconds to write objects by direct I/O, so many to a file, and to read each."""
    image = -(-size // SECTOR_BYTES) * SECTOR_BYTES
    num_objects = round(options.gb * 1e9) // size
    counts = [
        min(objects_per_file, num_objects - first)
        for first in range(0, num_objects, objects_per_file)
    ]
    folder = options.root / "scratch-files"
    folder.mkdir(parents=True)
    try:
        with mmap.mmap(-1, max(PIECE_BYTES, image)) as buffer, memoryview(buffer) as view:
            view[:] = os.urandom(len(view))
            started = time.perf_counter()
            for number, count in enumerate(counts):
                _write(folder / str(number), view[:PIECE_BYTES], count * image)
            for number, count in enumerate(counts):
                _read(folder / str(number), view[:image], count)
            return time.perf_counter() - started
    finally:
        shutil.rmtree(folder)


def _write(path: Path, piece: memoryview, num_bytes: int) -> None:
    descriptor = _open(path, os.O_CREAT | os.O_WRONLY)
    for start in range(0, num_bytes, len(piece)):
        os.write(descriptor, piece[: num_bytes - start])
    os.close(descriptor)


def _read(path: Path, image: memoryview, count: int) -> None:
    descriptor = _open(path, os.O_RDONLY)
    for _ in range(count):
        os.readv(descriptor, [image])
    os.close(descriptor)
    path.unlink()


def _open(path: Path, flags: int) -> int:
    """Opens a file with direct I/O where the file system has it, as the engine's spill files."""
    try:
        return os.open(path, flags | os.O_DIRECT, 0o600)
    except OSError:
        return os.open(path, flags, 0o600)


def main() -> None:
    """Runs all sizes and prints the table."""
    made = parser("Spilling: fused files and arguments fetched ahead.", num_rounds=1)
    made.add_argument("--gb", type=float, default=1, help="objects in all; the original has 16")
    made.add_argument("--sizes", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    options = made.parse_args()
    through_engine = {size: passages(size, options) for size in options.sizes}
    rows = [_engine_row(size, runs) for size, runs in through_engine.items()]
    rows += [_flatness_row(way, through_engine) for way in ("ahead", "in memory")]
    rows += [_disk_row(size, options) for size in options.sizes]
    rows += [_prefetch_row(size, runs) for size, runs in through_engine.items()]
    num_bytes = round(options.gb * 1e9)
    share = num_bytes / store_bytes(num_bytes)
    show(
        f"Spilling: {options.gb:g} GB of objects through a store of 1/{share:.3g} of that",
        "Exoshuffle, §5.6.2, Fig 8 (Ray, 16 GB through 1 GB, on a hard disk of AWS, sc1)",
        rows,
    )


def _engine_row(size: int, runs: Mapping[str, Sequence[Passage]]) -> Finding:
    first = runs["ahead"][0]
    return Finding(
        f"{size // 1000} KB: through the engine, fused",
        f"{spread(_seconds(runs['ahead']))} s, {first.spilled_bytes / 1e9:.2f} GB spilled, "
        f"{first.num_objects} objects in {first.num_files} files; "
        f"in memory {spread(_seconds(runs['in memory']))} s",
    )


def _flatness_row(
    way: str, through_engine: Mapping[int, Mapping[str, Sequence[Passage]]]
) -> Finding:
    sizes = min(through_engine), max(through_engine)
    smallest, largest = (_seconds(through_engine[size][way]) for size in sizes)
    name, original = ("fused", "1x") if way == "ahead" else (way, "")
    return Finding(
        f"{name}: time at {sizes[0] // 1000} KB / at {sizes[1] // 1000} KB",
        ratio(smallest, largest),
        original,
    )


def _disk_row(size: int, options: argparse.Namespace) -> Finding:
    times = in_turn(
        options.rounds,
        {
            "small": functools.partial(disk_alone, size, 1, options),
            "fused": functools.partial(disk_alone, size, FUSED_BYTES // size, options),
        },
    )
    return Finding(
        f"{size // 1000} KB: no engine, direct I/O: a file per object / files of 100 MiB",
        ratio(times["small"], times["fused"]),
        UNFUSED.get(size, ""),
    )


def _prefetch_row(size: int, runs: Mapping[str, Sequence[Passage]]) -> Finding:
    ahead, late = ([one.checking for one in runs[way]] for way in ("ahead", "late"))
    return Finding(
        f"{size // 1000} KB: fetching and checking, ahead / late", ratio(ahead, late), "0.2x - 0.4x"
    )


def _seconds(runs: Sequence[Passage]) -> list[float]:
    return [one.seconds for one in runs]


if __name__ == "__main__":
    main()
