"""All experiments, one after the other, each in a process of its own: ``python -m benchmarks.engine``."""

from __future__ import annotations

import subprocess
import sys

EXPERIMENTS = ("pinning", "inlining", "spilling", "sharing", "recovery", "killing", "noop")


def main() -> None:
    """Runs them; an experiment that fails does not keep the others from running."""
    failed = [name for name in EXPERIMENTS if not _succeeds(name)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _succeeds(name: str) -> bool:
    print(f"{name} ...", flush=True)
    command = [sys.executable, "-m", f"benchmarks.engine.{name}"]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    main()
