"""Memory limits that leave as much as a test wants, whatever pytest has resident."""

from __future__ import annotations

from exoshuffle.engines.local.memory import limits

#: Budget of the small engine: two tasks fit, 100 MB do not.
SMALL_BUDGET_BYTES = 90_000_000
#: Beside two worker processes, which take half of the small one.
ROOMY_BUDGET_BYTES = 160_000_000
#: The budget of a program within a gigabyte.
LARGE_BUDGET_BYTES = 700_000_000


def small_memory_limit() -> int:
    """A memory limit that leaves the small budget to blocks and tasks, whatever pytest has resident."""
    return limits.limit_for(SMALL_BUDGET_BYTES)


def large_memory_limit() -> int:
    """One that leaves a gigabyte or so; a fixed one is used up by what pytest has resident after thousands of tests."""
    return limits.limit_for(LARGE_BUDGET_BYTES)
