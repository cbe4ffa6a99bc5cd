"""``python -m tests.sim --cases 1000`` searches seeds for faults that make rows wrong; ``--seed N`` replays one."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.sim.search import Case, run


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Runs the cases; returns 1 if the rows of any are wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--cases", type=int, default=1, help="how many seeds")
    arguments = parser.parse_args()
    began, counts = time.monotonic(), Counter[str]()
    for seed in range(arguments.seed, arguments.seed + arguments.cases):
        case, outcome = Case.draw(seed), run(seed)
        counts[case.operator] += 1
        counts["wrong"] += bool(outcome.wrong)
        for name in ("num_deaths", "num_lost", "num_made_again", "num_tasks"):
            counts[name] += outcome.counts[name]
        counts["spilled"] += outcome.counts["spilled_bytes"] > 0
        if outcome.wrong:
            _say(f"{case}\n  {outcome.wrong}\n  again: python -m tests.sim --seed {seed}")
        elif arguments.cases == 1:
            _say(f"{case}\n  rows are right; trace {outcome.trace_hash}")
    told = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
    _say(f"{arguments.cases} cases in {time.monotonic() - began:.1f} s; {told}")
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
