"""Decides how long merges are worth waiting for while their inputs are kept: late ones are given up, inputs read.

Source: Exoshuffle §3.5, listing 5; Riffle §4.3 ("Riffle: Optimized Shuffle Service for Large-Scale Data Analytics").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from exoshuffle.arguments import is_number, is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.futures import Ref, cancel, wait


@dataclass(frozen=True)
class BestEffort:
    """When to stop waiting for merges: ``strategy=Push(keep_map_outputs=True, best_effort=BestEffort(...))``.

    Attributes:
        percent: Share of the merges; once so many have ended, and all maps, the others are cancelled. 100 waits for
            all.
        timeout_seconds: So long after the last map, all merges that have not ended are cancelled. Default: no limit.

    Raises:
        OptionsError: A value cannot work.
    """

    percent: int = 100
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        if not (is_whole(self.percent) and 0 <= self.percent <= 100):
            raise OptionsError(
                f"percent is {shown(self.percent)}; choose between 0 and 100, a whole number"
            )
        timeout = self.timeout_seconds
        if timeout is not None and not (
            is_number(timeout) and math.isfinite(timeout) and timeout >= 0
        ):
            raise OptionsError(
                f"timeout_seconds is {shown(timeout)}; it must be a number from 0 on"
            )

    def enough(self, num_merges: int) -> int:
        """Returns how many of so many merges have to end. Failed merges count, since nothing more will come of them."""
        return -(-num_merges * self.percent // 100)

    def finish(self, merges: Sequence[Ref]) -> None:
        """Waits for running merges whose maps are done, and cancels late ones."""
        enough = self.enough(len(merges))
        _, late = wait(merges, num_ready=enough, timeout=self.timeout_seconds)
        for ref in late:
            cancel(ref)
