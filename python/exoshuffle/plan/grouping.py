"""Neighbours in groups of a bounded size."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def neighbours(sizes: Sequence[int], most_bytes: int, most: int = sys.maxsize) -> list[range]:
    """Groups of neighbours, as ranges of their positions; each takes what fits, from the first to the last.

    Args:
        sizes: Bytes of each, in order.
        most_bytes: A group has so many at most, unless a single one has more.
        most: A group has so many members at most.
    """
    groups: list[range] = []
    room = 0
    for index, size in enumerate(sizes):
        if not groups or size > room or len(groups[-1]) == most:
            groups.append(range(index, index))
            room = most_bytes
        groups[-1] = range(groups[-1].start, index + 1)
        room -= size
    return groups
