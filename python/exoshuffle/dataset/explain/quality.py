"""The quality of an order by windows: how hard it is to foretell where in the files the next row comes from.

The measure is the entropy of the distance, in rows of the files, between two rows that come one after the other. A
quality is that entropy by the one of a uniform order: 0 for the order of the files, 1 for a uniform order. Source: the
simulator of MosaicML's Streaming (``get_entropy`` in ``simulation/core/shuffle_quality.py``).

Why a formula and no count: the simulator counts the distances of one order. In a large dataset most of them occur once,
so its number for a uniform order is too small. Here the distances have their true chances. Between two rows that are
drawn from n, distance d has the chance 2(n - d) / n², whose entropy is log2(n) - 0.28 bits. Of two rows of an epoch
that follow each other, one pair in w goes from a window of w rows to another one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

#: Bits by which distances are less evenly spread than rows: 1 - 1 / (2 ln 2).
_UNEVEN_BITS = 1 - 1 / (2 * math.log(2))
#: Fewer rows have their chances added up, because the formula is for many.
_FEW_ROWS = 100


def order_quality(windows: Sequence[int]) -> float:
    """Returns the quality of the order in which windows of so many rows come, each in random order, from 0 to 1.

    Cost: a logarithm for each window. Windows of one size had the entropy of a drawn order to 2 %.
    """
    windows = [rows for rows in windows if rows]
    num_rows = sum(windows)
    if len(windows) <= 1 or num_rows <= 2:
        return 1.0
    within = sum(rows * _distance_bits(rows) for rows in windows) / num_rows
    # Of all pairs, so many go from window to window.
    leaving = (len(windows) - 1) / (num_rows - 1)
    which = -sum(share * math.log2(share) for share in (leaving, 1 - leaving) if share)
    whole = _distance_bits(num_rows)
    return min(1.0, ((1 - leaving) * within + leaving * whole + which) / whole)


@functools.lru_cache(maxsize=1000)
def _distance_bits(num_rows: int) -> float:
    """Returns the entropy of the distance between two of so many rows."""
    if num_rows > _FEW_ROWS:
        return math.log2(num_rows) - _UNEVEN_BITS
    pairs = num_rows * (num_rows - 1) / 2
    chances = [(num_rows - distance) / pairs for distance in range(1, num_rows)]
    return -sum(chance * math.log2(chance) for chance in chances)
