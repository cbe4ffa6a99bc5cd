"""When a task is slow enough for a copy: speculative execution.

Source: Exoshuffle §3.5, listing 4. ``races`` makes the copies.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from exoshuffle.arguments import check_function, check_instance, is_number
from exoshuffle.errors import OptionsError, shown


@dataclass(frozen=True)
class Speculation:
    """When a task is slow enough for a copy: ``strategy=Simple(Speculation(...))``; other strategies take it, too.

    Attributes:
        multiple: A task is slow after this multiple of the median duration of the tasks that are done.
        fraction: This share of all tasks must be done first, so that there is a median to speak of.
        min_seconds: A task that takes less is never copied.
        clock: Returns seconds that only grow.

    Raises:
        OptionsError: A value cannot work.
    """

    multiple: float = 1.5
    fraction: float = 0.75
    min_seconds: float = 0.1
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        multiple, fraction, seconds = self.multiple, self.fraction, self.min_seconds
        if not (is_number(multiple) and math.isfinite(multiple) and multiple >= 1):
            raise OptionsError(f"multiple is {shown(multiple)}; it must be a number from 1 on")
        if not (is_number(fraction) and 0 < fraction <= 1):
            raise OptionsError(f"fraction is {shown(fraction)}; it must be above 0 and at most 1")
        if not (is_number(seconds) and seconds >= 0):
            raise OptionsError(f"min_seconds is {shown(seconds)}; it must be a number from 0 on")
        check_function("clock", self.clock)

    def slow_seconds(self, durations: Sequence[float], num_tasks: int) -> float | None:
        """Returns how long a task may take, from the ordered durations of done tasks; None if too few are done."""
        count = len(durations)
        if count < max(1, math.ceil(self.fraction * num_tasks)):
            return None
        median = (durations[(count - 1) // 2] + durations[count // 2]) / 2
        return max(self.min_seconds, self.multiple * median)


def check_speculation(speculation: object) -> None:
    """Raises ``OptionsError`` unless the value is a ``Speculation`` or None."""
    if speculation is not None:
        check_instance("speculation", speculation, Speculation)
