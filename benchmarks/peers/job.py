"""The job that every engine gets, and how its program starts."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

NOT_INSTALLED = 69  # EX_UNAVAILABLE of sysexits.h


@dataclass(frozen=True)
class Job:
    """A job on Parquet files; its output is uncompressed Parquet.

    Attributes:
        operator: ``sort`` sorts by the column ``key``, and writes. ``random_shuffle`` puts the rows into random order
            and reads them all as Arrow record batches (``benchmarks.peers.consume``). ``group_by`` groups by the
            remainder ``k`` of ``key`` divided by ``num_keys`` (with the sign of ``key``). It writes ``k``, the number
            ``n`` of rows, and the sum ``total`` and the minimum ``lowest`` of the column ``row``. ``join`` joins the
            tables ``lineitem`` and ``orders``, folders in the input, by order, and writes all their columns.
            ``benchmarks.db_questions`` describes its questions, and ``benchmarks.shapes`` its shapes.
        input: The folder.
        output: File or folder to create.
        scratch: Folder for temporary files.
        num_threads: CPUs to use.
        memory_limit_bytes: The engine's own limit; None: its default.
        num_keys: Number of keys of ``group_by``.
        scale: Scale factor of TPC-H's tables in ``benchmarks.shapes``, whose queries have constants that go by it.
        written_as: The output of a shape: one of ``benchmarks.shapes.shape.OUTPUTS``.
    """

    operator: str
    input: str
    output: str
    scratch: str
    num_threads: int
    memory_limit_bytes: int | None = None
    num_keys: int = 0
    scale: float = 1
    written_as: str = "parquet"

    def to_json(self) -> str:
        """Returns the job as one command-line argument."""
        return json.dumps(dataclasses.asdict(self))


def run(*programs: Callable[[Job], None]) -> None:
    """Runs the job of the command line, confined to as many CPUs as it may have.

    Args:
        *programs: The abilities of the engine; the name of each is that of an operator.
    """
    run_named({program.__name__: program for program in programs})


def run_named(programs: Mapping[str, Callable[[Job], None]]) -> None:
    """Does the same as ``run``, with programs by the name of the operator."""
    job = Job(**json.loads(sys.argv[1]))
    program = programs[job.operator]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job.num_threads])
    try:
        program(job)
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_INSTALLED)
