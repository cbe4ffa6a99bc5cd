"""The memory and the CPUs that this process may use, and the memory that it uses already."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass, replace

from exoshuffle import _native
from exoshuffle.arguments import is_whole
from exoshuffle.engines.local.memory.libraries import NEEDED_BYTES
from exoshuffle.engines.machine import check_limit, machine_bytes
from exoshuffle.engines.taking_more import WORKER_SLACK_BYTES
from exoshuffle.errors import MemoryLimitError, OptionsError
from exoshuffle.observe.disks import file_system
from exoshuffle.observe.memory import current_resident_bytes
from exoshuffle.units import format_bytes, parse_bytes

#: Share of the machine's memory that is used when no limit is given.
DEFAULT_SHARE = 0.7
#: Kept out of the budget: thread stacks, allocator slack, Python objects of the control plane.
SLACK_BYTES = 40_000_000
#: This part of the limit is kept out, too: memory that is freed and not yet returned grows with the buffers in use.
#: Without it, sorts of 4 GB under 2 GB peaked at 1.95-2.02 GB.
SLACK_PART = 40
#: The part of libraries that is in use once they are loaded. It is 30 to 37 MB of the 80 to 150 MB of pyarrow and
#: DuckDB.
CODE_BYTES = 32_000_000
#: The same for all processes together, at most: workers use other parts of the libraries than the program.
SHARED_CODE_BYTES = 42_000_000
#: A worker that takes more memory than is set apart for it is stopped when this share of the slack is left.
STOP_PERCENT = 55
#: No plan works with less; two tasks need two input windows, two output buffers and a block each.
MIN_BUDGET_BYTES = 48_000_000


def resident_bytes() -> int:
    """Returns the resident memory of this process, with the part of its libraries that will come back into use."""
    code_bytes = min(CODE_BYTES, _native.release_libraries())
    return current_resident_bytes() + code_bytes


def default_spill_dir() -> str:
    """Returns the system's temporary directory, or ``/var/tmp`` where the former is memory in disguise (tmpfs)."""
    if file_system(tempfile.gettempdir()) == "tmpfs" and os.access("/var/tmp", os.W_OK):  # noqa: S108  meant
        return "/var/tmp"  # noqa: S108
    return tempfile.gettempdir()


def check_num_cpus(num_cpus: object) -> None:
    """Raises ``OptionsError`` unless so many tasks can run at once; None stands for the default."""
    if num_cpus is not None and not (is_whole(num_cpus) and int(num_cpus) >= 1):
        raise OptionsError(f"num_cpus is {num_cpus!r}; it must be a whole number, at least 1")


@dataclass(frozen=True)
class Limits:
    """The memory and the CPUs that an engine may take.

    Attributes:
        memory_limit: The limit of the whole program.
        budget_bytes: The part for blocks and tasks: the limit less what the program has already, and less the slack.
        num_cpus: How many tasks run at once.
    """

    memory_limit: int
    budget_bytes: int
    num_cpus: int

    @property
    def before_bytes(self) -> int:
        """The resident bytes of the program when these limits were made. Asking again would take 5 ms."""
        return self.memory_limit - slack_bytes(self.memory_limit) - self.budget_bytes

    def without(self, num_bytes: int) -> Limits:
        """Returns the limits of a program that has taken so much more.

        Raises:
            MemoryLimitError: The limit is too small for that.
        """
        budget = self.budget_bytes - num_bytes
        if budget < MIN_BUDGET_BYTES:
            raise too_small(self.memory_limit, self.memory_limit - budget, self.num_cpus)
        return replace(self, budget_bytes=budget)

    @classmethod
    def of(cls, memory_limit: int | str | None, num_cpus: int) -> Limits:
        """Returns the limits of this program, by what it has resident now.

        Raises:
            OptionsError: The limit is more than the machine has.
            MemoryLimitError: The limit is too small.
        """
        if memory_limit is None:
            limit = int(machine_bytes() * DEFAULT_SHARE)
        else:
            limit = parse_bytes(memory_limit)
            check_limit(limit)
        budget = limit - slack_bytes(limit) - resident_bytes()
        if budget < MIN_BUDGET_BYTES:
            raise too_small(limit, limit - budget, num_cpus)
        return cls(limit, budget, num_cpus)


def too_small(limit: int, taken_bytes: int, num_cpus: int) -> MemoryLimitError:
    """Returns the error for a limit of which the program itself takes too much.

    The error names limits that work for shuffles by any strategy. Shuffles need more than an engine that has nothing
    to do, and they load libraries. Only a plan can tell what rows need that are larger than others.
    """
    from exoshuffle.plan.planner import smallest_budget
    from exoshuffle.plan.workload import Resources, Workload
    from exoshuffle.strategies.library import get_strategy, strategy_names

    missing = {name: size for name, size in NEEDED_BYTES.items() if name not in sys.modules}
    work, resources = Workload(1, 1, 1), Resources(MIN_BUDGET_BYTES, num_cpus)
    strategies = map(get_strategy, strategy_names())
    least = max(smallest_budget(work, resources, [strategy]) for strategy in strategies)
    least += taken_bytes - slack_bytes(limit)
    plain = _with_slack(least + missing.get("pyarrow", 0)) * 1.02
    every = _with_slack(least + sum(missing.values())) * 1.02
    relational = f", and {format_bytes(every)} for groups, joins and expressions"
    return MemoryLimitError(
        f"memory limit {format_bytes(limit)} is too small: the program itself takes {format_bytes(taken_bytes)}; "
        f"the smallest that works is {format_bytes(plain)} on {num_cpus} CPUs{relational if every > plain else ''}"
    )


def slack_bytes(limit: int) -> int:
    """Returns the bytes that are kept out of the budget beside what the program has already."""
    return SLACK_BYTES + limit // SLACK_PART


def stop_bytes(limit: int) -> int:
    """Returns how much the program may have resident before the worker that is to blame is stopped."""
    return limit - slack_bytes(limit) * STOP_PERCENT // 100


def before_releasing(set_apart: int, share: int) -> int:
    """Returns how much a worker may have before it gives back memory that lies idle in its allocators.

    That is half of the way to being to blame, and half of its share of what nobody needs: new memory costs time.
    """
    return set_apart + (WORKER_SLACK_BYTES + share) // 2


def limit_for(budget_bytes: int) -> int:
    """Returns the memory limit that leaves so much to blocks and tasks now."""
    return _with_slack(resident_bytes() + budget_bytes)


def _with_slack(num_bytes: int) -> int:
    return (num_bytes + SLACK_BYTES) * SLACK_PART // (SLACK_PART - 1) + SLACK_PART


def raised(limit: int, more_bytes: int) -> float:
    """Returns a limit that leaves so much more to blocks and tasks, plus a hundredth, since users see three digits."""
    return (limit + more_bytes * SLACK_PART / (SLACK_PART - 1)) * 1.01
