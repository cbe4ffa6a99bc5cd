"""The requirements of a benchmark for Exoshuffle: a share of a rival's time, and a peak of memory.

Guarantee: times are compared within a round, as in tables. The median over the rounds is judged, and so is the largest
peak of all runs, including warm-up rounds and failed runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.rounds import Run, spread


@dataclass(frozen=True)
class Requirement:
    """How long a contender may take.

    Attributes:
        at_most: The largest share of the time of the fastest rival.
        rivals: Names of the contenders that it is compared with.
    """

    at_most: float
    rivals: tuple[str, ...]

    def verdict(self, runs: Sequence[Run], contender: str) -> str:
        """Returns a line that says whether the requirement is met."""
        ratios = shares_of_fastest(runs, contender, self.rivals)
        fastest = f"the fastest of {'; '.join(self.rivals)}" if self.rivals[1:] else self.rivals[0]
        asked = f"required: at most {self.at_most:g} of the time of {fastest}"
        if not ratios:
            return f"{asked}: not compared"
        met = statistics.median(ratios) <= self.at_most
        return f"{asked}: {spread(ratios, 2)}: {_word(met)}"


def memory_verdict(runs: Sequence[Run], contender: str, limit_bytes: int) -> str:
    """Returns a line that says whether a contender kept to its limit."""
    peaks = [run.measurement.peak_bytes for run in runs if run.contender == contender]
    asked = f"required: at most {limit_bytes / 1e9:g} GB of memory at any time"
    if not peaks:
        return f"{asked}: not run"
    return f"{asked}: {max(peaks) / 1e9:.2f}: {_word(max(peaks) <= limit_bytes)}"


def shares_of_fastest(runs: Sequence[Run], contender: str, rivals: Sequence[str]) -> list[float]:
    """Returns time to disk of a contender over that of the fastest of its rivals, round by round."""
    seconds = {
        (run.contender, run.round): run.measurement.synced_seconds for run in runs if run.counts
    }
    shares = []
    for (name, number), own in seconds.items():
        others = [seconds[rival, number] for rival in rivals if (rival, number) in seconds]
        if name == contender and others:
            shares.append(own / min(others))
    return shares


def _word(met: bool) -> str:
    return "met" if met else "missed"
