"""Exoshuffle by its own command, as a user would call it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.engines.job import NOT_INSTALLED, SortJob, run


def command() -> Path:
    """The ``exoshuffle`` program of this environment."""
    return Path(sys.executable).with_name("exoshuffle")


def sort(job: SortJob) -> None:
    """See ``SortJob``. Becomes the command, so that nothing but it is measured."""
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


if __name__ == "__main__":
    run(sort)
