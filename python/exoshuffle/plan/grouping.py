"""Groups neighbours into groups of a bounded size."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def neighbours(sizes: Sequence[int], most_bytes: int, most: int = sys.maxsize) -> list[range]:
    """Returns groups of neighbours, as ranges of their positions; each group takes as many as fit, from the first on.

    Args:
        sizes: Bytes of each member, in order.
        most_bytes: A group has at most so many bytes, unless a single member has more.
        most: A group has at most so many members.
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
