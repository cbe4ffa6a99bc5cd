"""Runs all experiments, or those named, each in its own process: ``python -m benchmarks.experiments``."""

from __future__ import annotations

import argparse
import subprocess
import sys

EXPERIMENTS = (
    "pinning",
    "inlining",
    "spilling",
    "sharing",
    "recovery",
    "killing",
    "noop",
    "pipelines",
    "partitions",
)


def main() -> None:
    """Runs them; an experiment that fails does not keep the others from running."""
    parser = argparse.ArgumentParser(
        description="The experiments of the papers on engines, run small."
    )
    parser.add_argument(
        "experiments", nargs="*", metavar="NAME", help=f"of {', '.join(EXPERIMENTS)}; default: all"
    )
    names = parser.parse_args().experiments or EXPERIMENTS
    unknown = sorted(set(names) - set(EXPERIMENTS))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    failed = [name for name in names if not _succeeds(name)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _succeeds(name: str) -> bool:
    print(f"{name} ...", flush=True)
    command = [sys.executable, "-m", f"benchmarks.experiments.{name}"]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    main()
