"""``python -m tests.fuzz``: cases of consecutive seeds, or of one; prints what is worth a look, and counts."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.parent import Parent

#: A refusal that names a limit is an answer; what the writer or the oracle cannot do is no case.
FINE = {"same", "refused", "no oracle"}


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Runs the cases; 1 if any is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--cases", type=int, default=1, help="how many seeds")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="no further case after so long"
    )
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    parser.add_argument(
        "--folder", type=Path, help="for files, which stay where a case is worth a look"
    )
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="exoshuffle-fuzz-"))
    parent, counts, end = (
        Parent(folder, arguments.engine),
        Counter[str](),
        time.monotonic() + arguments.seconds,
    )
    try:
        for seed in range(arguments.seed, arguments.seed + arguments.cases):
            outcome = parent.run(seed)
            counts[outcome.verdict] += 1
            if outcome.verdict not in FINE or arguments.cases == 1:
                _say(f"{outcome.verdict}: {outcome.case}\n  {outcome.detail}")
            if time.monotonic() > end:
                break
    finally:
        parent.close()
    _say(", ".join(f"{verdict}: {count}" for verdict, count in sorted(counts.items())))
    # How long a case takes is up to what else the machine does.
    return int(any(verdict not in FINE | {"slow"} for verdict in counts))


if __name__ == "__main__":
    sys.exit(main())
