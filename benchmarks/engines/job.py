"""The job that every engine gets, and how its program starts."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

NOT_INSTALLED = 69  # EX_UNAVAILABLE of sysexits.h


@dataclass(frozen=True)
class SortJob:
    """Sort the Parquet files of a folder by their column ``key`` and write them uncompressed.

    Attributes:
        input: The folder.
        output: File or folder to create.
        scratch: Folder for temporary files.
        num_threads: CPUs to use.
        memory_limit_bytes: The engine's own limit; None: its default.
    """

    input: str
    output: str
    scratch: str
    num_threads: int
    memory_limit_bytes: int | None = None

    def to_json(self) -> str:
        """The job as one command-line argument."""
        return json.dumps(dataclasses.asdict(self))


def run(sort: Callable[[SortJob], None]) -> None:
    """Runs one engine's sort on the job of the command line, confined to as many CPUs as it may have."""
    job = SortJob(**json.loads(sys.argv[1]))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job.num_threads])
    try:
        sort(job)
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_INSTALLED)
