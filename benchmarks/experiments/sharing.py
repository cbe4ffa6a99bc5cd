"""Sharing: a table that two worker processes read, through one shared store or through pipes.

The original (Exoshuffle, §5.6.1, Fig 7) sorts with Dask's processes, and with Ray's shared store. Each of Dask's
processes has objects of its own and gets those of others by copy. The processes run out of memory at larger sizes, the
store does not.

Here one Arrow table goes from the driver to two processes, which add up a column, keep the table, and give it back. *By
reference*: it is put into the store once, the processes map it and return it, which leaves it where it is. (The process
that returns a new table would copy it into the store once.) *Through pipes*: two ``multiprocessing`` processes get it
pickled and send it back pickled. The figure is the number of copies at the end, when every process still holds its
table. It is the growth of the memory of all processes together (PSS, which counts a shared page once) in sizes of the
table.

    python -m benchmarks.experiments.sharing --mb 100
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc

import exoshuffle as xs
from benchmarks.experiments.experiment import Finding, engine, in_turn, parser, ratio, show
from benchmarks.rounds import spread

NUM_WORKERS = 2
#: Memory beside the table, for the worker processes themselves.
RESERVE_BYTES = 300_000_000
#: The original's words about each way.
SAYS = {
    "by reference": "completes at all sizes",
    "through pipes": "fails at larger sizes: too many copies",
}


def table_of(num_bytes: int) -> pa.Table:
    """Returns a table of one column of int64."""
    return pa.table({"value": pa.array(range(num_bytes // 8), pa.int64())})


def total(table: pa.Table) -> int:
    """Returns the sum of the column: reads every byte."""
    found: int = pc.sum(table["value"]).as_py()
    return found


@dataclass(frozen=True)
class Exchange:
    """The way of the table to the workers and back: seconds, and the growth of memory meanwhile."""

    seconds: float
    grown_bytes: int


class Reader:
    """A worker that reads by reference."""

    def start(self) -> int:
        """Returns its process, which is up then."""
        return os.getpid()

    def read(self, table: pa.Table) -> pa.Table:
        """Adds up the column, and gives the table back."""
        self.table, self.found = table, total(table)
        return table

    def total(self) -> int:
        """Returns the sum that it found."""
        return self.found


def by_reference(table: pa.Table, options: argparse.Namespace) -> Exchange:
    """Exchanges the table through the shared store."""
    with engine(options.root, 4 * table.nbytes + RESERVE_BYTES):
        readers = [xs.remote(Reader).remote() for _ in range(NUM_WORKERS)]
        processes = xs.get([reader.start.remote() for reader in readers])
        before = memory_bytes(processes)
        started = time.perf_counter()
        ref = xs.put(table)
        returned = xs.get([reader.read.remote(ref) for reader in readers])
        totals = xs.get([reader.total.remote() for reader in readers])
        seconds = time.perf_counter() - started
        grown = memory_bytes(processes) - before
        _check(table, totals, returned)
    return Exchange(seconds, grown)


def through_pipes(table: pa.Table, _options: argparse.Namespace) -> Exchange:
    """Exchanges the table through pickles, with nothing shared."""
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(NUM_WORKERS)]
    workers = [context.Process(target=serve, args=(theirs,)) for _, theirs in pipes]
    for worker in workers:
        worker.start()
    try:
        processes = [pipe.recv() for pipe, _ in pipes]
        before = memory_bytes(processes)
        started = time.perf_counter()
        for pipe, _ in pipes:
            pipe.send(table)
        answers = [pipe.recv() for pipe, _ in pipes]
        seconds = time.perf_counter() - started
        grown = memory_bytes(processes) - before
        _check(table, [found for found, _ in answers], [back for _, back in answers])
    finally:
        for (pipe, _), worker in zip(pipes, workers, strict=True):
            pipe.close()
            worker.join()
    return Exchange(seconds, grown)


def serve(pipe: Any) -> None:
    """Runs in a process that reads from a pipe: says that it is up, answers once, holds on until the pipe closes."""
    total(table_of(8))  # Arrow's own memory is not growth
    pipe.send(os.getpid())
    table = pipe.recv()
    pipe.send((total(table), table))
    pipe.poll(None)


def memory_bytes(processes: Sequence[int]) -> int:
    """Returns the memory of this process and others together, shared pages once."""
    everybody = [psutil.Process(pid) for pid in (os.getpid(), *processes)]
    return sum(process.memory_full_info().pss for process in everybody)


def _check(table: pa.Table, totals: Sequence[int], returned: Sequence[pa.Table]) -> None:
    assert totals == [total(table)] * NUM_WORKERS
    assert all(back.equals(table) for back in returned)


def main() -> None:
    """Runs both ways in turn and prints the table."""
    made = parser("Sharing: one store or a pipe to each.", num_rounds=3)
    made.add_argument("--mb", type=int, default=100, help="size of the table")
    options = made.parse_args()
    table = table_of(options.mb * 1_000_000)
    results = in_turn(
        options.rounds,
        {
            "by reference": functools.partial(by_reference, table, options),
            "through pipes": functools.partial(through_pipes, table, options),
        },
    )
    show(
        f"Sharing: a table of {options.mb} MB to {NUM_WORKERS} processes and back",
        "Exoshuffle, §5.6.1, Fig 7 (sorting by Dask on Ray and by Dask's processes, 32 CPUs)",
        _findings(results, table.nbytes),
    )


def _findings(results: Mapping[str, Sequence[Exchange]], num_bytes: int) -> list[Finding]:
    rows = []
    for way, runs in results.items():
        copies = spread([one.grown_bytes / num_bytes for one in runs], 2)
        seconds = spread([one.seconds for one in runs], 3)
        rows.append(
            Finding(way, f"{copies} copies beside the driver's table, {seconds} s", SAYS[way])
        )
    pipes, references = (
        [one.seconds for one in results[way]] for way in ("through pipes", "by reference")
    )
    rows.append(Finding("time of pipes / references", ratio(pipes, references)))
    return rows


if __name__ == "__main__":
    main()
