"""The use of each resource over time, in as many pieces as a picture can show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

#: Pieces of time; when there are more, two become one.
NUM_PIECES = 512


class History:
    """Units of resources over time.

    Attributes:
        width: Seconds of a piece.
    """

    def __init__(self) -> None:
        self.width = 1e-3
        self._pieces: dict[Hashable, dict[int, float]] = defaultdict(dict)

    def add(self, resource: Hashable, start: float, end: float, units: float) -> None:
        """Notes units that were used evenly between two times."""
        while end >= self.width * NUM_PIECES:
            self.halve()
        pieces = self._pieces[resource]
        first, last = int(start / self.width), int(end / self.width)
        if first == last:
            pieces[first] = pieces.get(first, 0.0) + units
            return
        rate = units / (end - start)
        for number in range(first, last + 1):
            begin = max(start, number * self.width)
            share = rate * max(0.0, min(end, (number + 1) * self.width) - begin)
            pieces[number] = pieces.get(number, 0.0) + share

    def used(self, resource: Hashable) -> list[float]:
        """Returns the units of each piece of time, from 0 on."""
        pieces = self._pieces.get(resource, {})
        return [pieces.get(number, 0.0) for number in range(max(pieces, default=-1) + 1)]

    def halve(self) -> None:
        """Makes two pieces of time one."""
        self.width *= 2
        for resource, pieces in self._pieces.items():
            fewer: dict[int, float] = {}
            for number, units in pieces.items():
                fewer[number // 2] = fewer.get(number // 2, 0.0) + units
            self._pieces[resource] = fewer
