"""The declared GPUs of the engine, one by one: which of them a task gets.

Guarantee: whole GPUs are given to one task at a time. Shares of less than one go to one GPU together, as far as it has
room: so others stay whole.
"""

from __future__ import annotations

import math

#: Shares such as 0.1 do not add up exactly.
_TOLERANCE = 1e-9


class Gpus:
    """The free part of each GPU."""

    def __init__(self, total: float) -> None:
        whole = math.floor(total + _TOLERANCE)
        rest = total - whole
        self._free = [1.0] * whole + ([rest] if rest > _TOLERANCE else [])

    def fits(self, amount: float) -> bool:
        """Whether there are so many: whole ones, and one with room for a share."""
        return self._found(amount) is not None

    def take(self, amount: float) -> tuple[int, ...]:
        """Gives so many out, and returns their numbers; the caller has asked ``fits``."""
        found = self._found(amount)
        assert found is not None
        for number, share in zip(found, _shares(amount), strict=True):
            self._free[number] -= share
        return found

    def give_back(self, amount: float, numbers: tuple[int, ...]) -> None:
        """Ends ``take``."""
        for number, share in zip(numbers, _shares(amount), strict=True):
            self._free[number] += share

    def _found(self, amount: float) -> tuple[int, ...] | None:
        """Returns the GPUs for an amount: for a share the fullest one that has room for it."""
        found: list[int] = []
        for share in _shares(amount):
            able = [
                number
                for number, free in enumerate(self._free)
                if free + _TOLERANCE >= share and number not in found
            ]
            if not able:
                return None
            found.append(min(able, key=lambda number: (self._free[number], number)))
        return tuple(found)


def _shares(amount: float) -> list[float]:
    """Returns what an amount takes of each GPU, the whole ones first."""
    whole = math.floor(amount + _TOLERANCE)
    rest = amount - whole
    return [1.0] * whole + ([rest] if rest > _TOLERANCE else [])
