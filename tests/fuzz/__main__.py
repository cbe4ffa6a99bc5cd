"""``python -m tests.fuzz`` runs cases of consecutive seeds, or of one; prints those worth a look, and counts."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.cases import Case
from tests.fuzz.found import FOUND
from tests.fuzz.parent import FINE, Parent

#: How often a run reports its progress.
PROGRESS_CASES = 500


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--cases", type=int, default=1, help="how many seeds")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="no further case after so long"
    )
    parser.add_argument("--engine", choices=["local", "ray"], help="default: as the seed says")
    parser.add_argument("--only", default="", help="seeds whose description has this text")
    parser.add_argument("--found", action="store_true", help="seeds that once found something")
    parser.add_argument("--all", action="store_true", help="print every case")
    parser.add_argument(
        "--folder", type=Path, help="for files, which stay where a case is worth a look"
    )
    return parser.parse_args()


def main() -> int:
    """Runs the cases; returns 1 if any is worth a look."""
    arguments = _arguments()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="exoshuffle-fuzz-"))
    parent, counts = Parent(folder, arguments.engine), Counter[str]()
    end = time.monotonic() + arguments.seconds
    is_told = arguments.all or arguments.cases == 1
    seeds: Iterable[int] = range(arguments.seed, arguments.seed + arguments.cases)
    if arguments.found:
        seeds = [found.seed for found in FOUND]
    try:
        for seed in seeds:
            if arguments.only not in str(Case.draw(seed)):
                continue
            outcome = parent.run(seed)
            counts[outcome.verdict] += 1
            if outcome.verdict not in FINE or is_told:
                _say(f"{outcome.verdict}: {outcome.case}\n  {outcome.detail}")
            if counts.total() % PROGRESS_CASES == 0:
                _say(f"until seed {seed}: {_told(counts)}")
            if time.monotonic() > end:
                break
    finally:
        parent.close()
    _say(_told(counts))
    return int(any(verdict not in FINE for verdict in counts))


def _told(counts: Counter[str]) -> str:
    """Returns how many cases had which outcome."""
    each = ", ".join(f"{verdict}: {count}" for verdict, count in sorted(counts.items()))
    return f"{counts.total()} cases: {each}"


if __name__ == "__main__":
    sys.exit(main())
