"""Refuses, instead of queueing it, a task or actor that declares more than the engine has.

Guarantee: an accepted task can start, once its arguments are done and others have given back what they occupy.
"""

from __future__ import annotations

from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.memory.budget import Budget
from exoshuffle.engines.local.objects.calls import SMALL_CODE_BYTES
from exoshuffle.engines.local.tasks.resources import Resources
from exoshuffle.engines.local.tasks.scheduler import Scheduler
from exoshuffle.errors import MemoryLimitError
from exoshuffle.futures.options import ActorOptions, TaskOptions
from exoshuffle.units import format_bytes

#: Copies of what a function closes over while it is sent: its own, its pickle, and two in each of two workers that load
#: it.
CODE_COPIES = 6


class Demands:
    """Compares declared demands with resources and budget."""

    def __init__(self, resources: Resources, budget: Budget, scheduler: Scheduler) -> None:
        self._resources = resources
        self._budget = budget
        self._scheduler = scheduler

    @property
    def budget_bytes(self) -> int:
        """The bytes that blocks and tasks may use, less workers that run and libraries loaded since the start."""
        if self._scheduler.current_task() is not None:
            return self._budget.inside_task()
        return self._budget.outside_tasks()

    def check(self, name: str, options: TaskOptions | ActorOptions, taken_bytes: int = 0) -> None:
        """Refuses a task or actor that declares more than there is.

        Args:
            name: The name of the task or actor.
            options: Declare its demand.
            taken_bytes: The bytes that its worker takes off the budget.

        Raises:
            OptionsError: It declares more of a resource than the engine has.
            MemoryLimitError: It declares more working memory than the budget, or there is none.
        """
        self._resources.check(f"task {name}", options.demand)
        # Workers that run now may be idle when the task begins.
        budget = self.budget_bytes + self._budget.workers_bytes - taken_bytes
        if budget < 0:
            # This task lacks less than the tasks behind it need.
            raise self._budget.too_small(budget)
        if options.memory > budget:
            memory_limit = self._budget.memory_limit
            limit = limits.raised(memory_limit, options.memory - budget)
            raise MemoryLimitError(
                f"task {name} declares {format_bytes(options.memory)} of working memory, and the memory limit of "
                f"{format_bytes(memory_limit)} leaves {format_bytes(budget)} for tasks; raise memory_limit to "
                f"{format_bytes(limit)}"
            )

    def check_code(self, name: str, num_bytes: int) -> None:
        """Refuses a task or actor whose pickled function or class is too large to be sent.

        Without it, 500 MB that a function closed over had 2.5 GB resident within 1 GB.

        Raises:
            MemoryLimitError: The budget has no room for its copies.
        """
        if num_bytes <= SMALL_CODE_BYTES:
            return
        budget = self.budget_bytes + self._budget.workers_bytes
        missing = CODE_COPIES * num_bytes - budget
        if missing > 0:
            memory_limit = self._budget.memory_limit
            raise MemoryLimitError(
                f"the function or class of task {name} has {format_bytes(num_bytes)} with the values that it closes "
                f"over. {CODE_COPIES} copies on its way to workers need {format_bytes(CODE_COPIES * num_bytes)}, and "
                f"the memory limit of {format_bytes(memory_limit)} leaves {format_bytes(budget)}. Give it large values "
                "as arguments, which put() keeps in the store for all calls, or raise memory_limit to "
                f"{format_bytes(limits.raised(memory_limit, missing))}"
            )
