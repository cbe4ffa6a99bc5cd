"""The memory that groups take for each row, beside the rows: DuckDB keeps states for each aggregate of each group.

Why not one number for all groups: rows may be as many as groups, and 100 maxima of each took 2.7 kB, not 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle.operators.core.at_once import ROW_BYTES
from exoshuffle.operators.core.shuffle import COMBINE_ROW_BYTES
from exoshuffle.operators.group_by.columns import Aggregate
from exoshuffle.operators.group_by.pairs import PAIR_FUNCTIONS

#: For a group without aggregates, and for a row while maps combine rows.
_KEY_BYTES, _ROW_BYTES = 70, 20
#: For each aggregate, beside two copies of the columns that travel for it. 50,000 groups of a row each and 20
#: aggregates of integers were measured. ``max`` and ``count`` took 9, ``sum`` 9 to 21, ``first`` 18, and
#: ``approx_count_distinct`` 22.
_STATE_BYTES = 22
#: For those that take more: measured likewise, 88 for ``std``, 30 to 37 for the others.
_LARGE_STATES = {
    "std": 90,
    "var": 90,
    "count_distinct": 40,
    "top_k": 40,
    "median": 40,
    "quantile": 40,
    "approx_quantile": 40,
    **dict.fromkeys(PAIR_FUNCTIONS, 250),
}
#: Bytes that combining takes per row, for functions that take much.
_ROW_COSTS = {"count_distinct": 150, "approx_count_distinct": 230}


def finish_row_bytes(aggregates: Sequence[Aggregate], most_at_once: int) -> int:
    """Returns the bytes per row of finishing a partition, if one query computes so many aggregates at most.

    Two copies of the partition come on top.
    """
    return max(COMBINE_ROW_BYTES, _KEY_BYTES + _states(aggregates, most_at_once))


def combine_row_bytes(aggregates: Sequence[Aggregate], most_at_once: int) -> int:
    """Returns the bytes per row of combining the rows of a map, if one query computes so many aggregates at most."""
    each = max((_ROW_COSTS.get(item.function, ROW_BYTES) for item in aggregates), default=ROW_BYTES)
    return max(each, _ROW_BYTES + _states(aggregates, most_at_once))


def _states(aggregates: Sequence[Aggregate], most_at_once: int) -> int:
    states = [_LARGE_STATES.get(item.function, _STATE_BYTES) for item in aggregates]
    return sum(sorted(states, reverse=True)[:most_at_once])
