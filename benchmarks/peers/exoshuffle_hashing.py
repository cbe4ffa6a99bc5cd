"""Exoshuffle from the package that comes first on the path; says at last whether its native module hashes rows."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable

from benchmarks.peers.exoshuffle import group_by, random_shuffle, started, within
from benchmarks.peers.exoshuffle_on_ray import sort
from benchmarks.peers.job import Job, run_named


def hashes_rows() -> bool:
    """Returns whether the header of a map's slice has a sum of hashes (``crates/kernels/src/slices/sections.rs``)."""
    import pyarrow as pa

    from exoshuffle import _native

    rows = pa.table({"key": [1]})
    sorter = _native.Sorter.table(_native.ReadOptions(), rows.schema.serialize().to_pybytes(), [])
    scattered = sorter.scatter_batches(rows, 0, sorter.round_robin_assignment(1))
    block = bytearray(scattered.offsets[-1])
    scattered.write_into(block)
    return any(block[24:32])


def telling(program: Callable[[Job], None]) -> Callable[[Job], None]:
    """Returns the program with JSON as its last line, which says whether rows are hashed."""

    @functools.wraps(program)
    def run(job: Job) -> None:
        program(job)
        print(json.dumps({"hashes": hashes_rows()}))

    return run


if __name__ == "__main__":
    run_named(within(started, telling(sort), telling(random_shuffle), telling(group_by)))
