"""Measures B: the bandwidth of the disk for a program that reads and writes at the same time.

An out-of-core sort of D bytes moves 4 D: it reads the input, writes runs, reads them back and writes the output. Half
of that is reads and half writes throughout. So no such sort can take less than 4 D / B, if B is the bandwidth of
exactly that mix, reads and writes added.

Method: two readers and two writers, each with one 4 MiB request in flight and its own file. All use ``O_DIRECT``, so
that the page cache has no part in it. Written files are new but preallocated, and hold random bytes, since some disks
and hypervisors are faster with zeros. The clock stops after ``fdatasync`` of the written files.

    python -m benchmarks.disk --gb 2 bench-data
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REQUEST_BYTES = 4 * 1024 * 1024
NUM_READERS = 2
NUM_WRITERS = 2


def mixed_bandwidth(folder: Path, total_bytes: int) -> float:
    """Returns bytes per second, reads and writes added.

    Args:
        folder: Where to measure; needs ``total_bytes`` of free space, given back at the end.
        total_bytes: How much to move, half read and half written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    requests = max(1, total_bytes // (NUM_READERS + NUM_WRITERS) // REQUEST_BYTES)
    with contextlib.ExitStack() as stack:
        sources = [stack.enter_context(_unlinked(folder, requests)) for _ in range(NUM_READERS)]
        targets = [stack.enter_context(_unlinked(folder, requests)) for _ in range(NUM_WRITERS)]
        pool = stack.enter_context(ThreadPoolExecutor(NUM_READERS + NUM_WRITERS))
        list(pool.map(lambda target: _write(target, requests), sources))
        jobs: list[tuple[Callable[[int, int], None], int]] = [
            *((_read, source) for source in sources),
            *((_write, target) for target in targets),
        ]
        started = time.perf_counter()
        list(pool.map(lambda job: job[0](job[1], requests), jobs))
        seconds = time.perf_counter() - started
    return requests * REQUEST_BYTES * len(jobs) / seconds


@contextlib.contextmanager
def _unlinked(folder: Path, requests: int) -> Iterator[int]:
    """Yields a preallocated file for direct I/O that no crash can leave behind."""
    path = folder / f"disk-{os.getpid()}-{time.monotonic_ns()}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)
    path.unlink()
    try:
        os.posix_fallocate(descriptor, 0, requests * REQUEST_BYTES)
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int, requests: int) -> None:
    with mmap.mmap(-1, REQUEST_BYTES) as buffer:
        for index in range(requests):
            _check(os.preadv(descriptor, [buffer], index * REQUEST_BYTES))


def _write(descriptor: int, requests: int) -> None:
    with mmap.mmap(-1, REQUEST_BYTES) as buffer:
        buffer.write(os.urandom(REQUEST_BYTES))
        for index in range(requests):
            _check(os.pwritev(descriptor, [buffer], index * REQUEST_BYTES))
    os.fdatasync(descriptor)


def _check(moved_bytes: int) -> None:
    if moved_bytes != REQUEST_BYTES:
        raise OSError(f"a request of {REQUEST_BYTES} bytes moved {moved_bytes}")


def main() -> None:
    """Prints B of one folder."""
    parser = argparse.ArgumentParser(description="Measure the mixed direct-I/O bandwidth.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gb", type=float, default=2, help="how much to move")
    options = parser.parse_args()
    bandwidth = mixed_bandwidth(options.folder, round(options.gb * 1e9))
    print(f"{bandwidth / 1e9:.2f} GB/s read + write")


if __name__ == "__main__":
    main()
