"""Exoshuffle as a user would call it: sorting by its own command, other operators as programs of a few lines."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.peers.consume import consume
from benchmarks.peers.job import NOT_INSTALLED, Job, run_named


def command() -> Path:
    """Returns the ``exoshuffle`` program of this environment."""
    return Path(sys.executable).with_name("exoshuffle")


def sort(job: Job) -> None:
    """See ``Job``. Becomes the command, so that only the command is measured."""
    if not command().exists():
        print(f"{command()} does not exist; run make build", file=sys.stderr)
        sys.exit(NOT_INSTALLED)
    arguments = [
        str(command()),
        "sort",
        job.input,
        job.output,
        "--by",
        "key",
        "--json",
        "--spill-dir",
        job.scratch,
    ]
    arguments += ["--num-cpus", str(job.num_threads), "--compression", "none", "--overwrite"]
    if job.memory_limit_bytes is not None:
        arguments += ["--memory-limit", str(job.memory_limit_bytes)]
    os.execv(arguments[0], arguments)


def random_shuffle(job: Job) -> None:
    """See ``Job``; runs on the engine that was started."""
    import exoshuffle as xs

    consume(xs.read_parquet(job.input).random_shuffle(1).iter_batches())


def group_by(job: Job) -> None:
    """See ``Job``; runs on the engine that was started."""
    import exoshuffle as xs

    groups = xs.read_parquet(job.input).with_columns(k=f"key % {job.num_keys}").group_by("k")
    result = groups.agg(n="count", total=("row", "sum"), lowest=("row", "min"))
    result.write_parquet(job.output, compression="none")


def join(job: Job) -> None:
    """See ``Job``; runs on the engine that was started."""
    import exoshuffle as xs

    lineitem, orders = (xs.read_parquet(f"{job.input}/{name}") for name in ("lineitem", "orders"))
    joined = lineitem.join(orders, left_on="l_orderkey", right_on="o_orderkey")
    joined.write_parquet(job.output, compression="none")


@contextlib.contextmanager
def started(job: Job) -> Iterator[None]:
    """Starts the embedded engine within the limits of the job."""
    import exoshuffle as xs

    xs.init(memory_limit=job.memory_limit_bytes, spill_dirs=job.scratch, num_cpus=job.num_threads)
    yield
    xs.shutdown()


def within(
    start: Callable[[Job], AbstractContextManager[None]], *programs: Callable[[Job], None]
) -> dict[str, Callable[[Job], None]]:
    """Returns the programs by their names, each on the engine that ``start`` starts for its job."""

    def on_engine(program: Callable[[Job], None], job: Job) -> None:
        with start(job):
            program(job)

    return {one.__name__: functools.partial(on_engine, one) for one in programs}


if __name__ == "__main__":
    run_named({"sort": sort, **within(started, random_shuffle, group_by, join)})
