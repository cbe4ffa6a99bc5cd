"""Counts what DuckDB takes in worker processes, beside the memory that is set apart for workers.

The program's own DuckDB is taken off the budget when it is loaded. In workers nobody saw it: a group-by behind a
function took 208 MB within 180, and where pandas is installed 268 within 250.
"""

from __future__ import annotations

from exoshuffle.engines.local.workers import preloading
from exoshuffle.engines.local.workers.room import GROWING_PART
from exoshuffle.errors import MemoryLimitError
from exoshuffle.plan.workload import Resources, Workload
from exoshuffle.strategies.library import AUTO, limit_to_plan, plan_shuffle
from exoshuffle.units import format_bytes

#: Workers have its code in common, 40 MB, of which the engine counts a part with other libraries. Each also has some 12
#: MB of its own. Within 180 MB two workers took 28 too many.
DATABASE_BYTES = 30_000_000
#: Where memory is short, most of pandas has to do with the slack, and DuckDB leaves none of that. Within 250 MB two
#: workers took 18 too many, and within 280 they took 276.
BESIDE_PANDAS_BYTES = 40_000_000


def database_bytes() -> int:
    """Returns the bytes by which a plan's budget is smaller if its tasks use DuckDB in workers."""
    beside = BESIDE_PANDAS_BYTES if preloading.pandas_bytes() else 0
    return DATABASE_BYTES + beside


def check_room(resources: Resources) -> None:
    """Raises ``MemoryLimitError`` if workers have no room for DuckDB, however few the rows are.

    Why before anything is measured: measuring uses DuckDB in workers, too. The refusal of a plan came at 231 of 230 MB.
    """
    least = Workload(1, 1, 1)
    try:
        plan_shuffle(least, resources)
    except MemoryLimitError:
        limit = resources.budget_bytes + resources.other_bytes
        enough = _beside_workers(limit, limit_to_plan(least, resources, AUTO, None))
        raise MemoryLimitError(
            f"a memory limit of {format_bytes(limit)} has no room for groups or joins in worker processes, where "
            f"functions run; the smallest that works is {format_bytes(enough)}"
        ) from None


def _beside_workers(limit: int, enough: int) -> int:
    """Returns a limit that does even if workers take their part of what it is larger by.

    With pandas, 331 MB were named within 200. They were refused for 355, and these for 359.
    """
    if not preloading.pandas_bytes():
        return enough
    return limit + round((enough - limit) / (1 - GROWING_PART))
