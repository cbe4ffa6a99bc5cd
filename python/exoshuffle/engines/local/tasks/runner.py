"""Gives a task its memory, its arguments, and a thread or a worker process, and runs it.

Guarantee: a task that can never have its memory and its arguments at once is refused, and does not wait (``room``).
"""

from __future__ import annotations

from collections.abc import Callable

from exoshuffle._native import Store
from exoshuffle.engines.local.memory.budget import Budget
from exoshuffle.engines.local.objects import arguments, loading
from exoshuffle.engines.local.objects.table import ObjectTable
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.engines.local.tasks import room
from exoshuffle.engines.local.tasks.threads import Threads, function_of
from exoshuffle.engines.local.workers.pool import ProcessPool
from exoshuffle.futures.gpus import GpusOfThread


class Runner:
    """Prepares tasks and runs them."""

    def __init__(
        self,
        table: ObjectTable,
        store: Store,
        budget: Budget,
        threads: Threads,
        pool: ProcessPool,
    ) -> None:
        self._table = table
        self._store = store
        self._budget = budget
        self._threads = threads
        self._pool = pool

    def prepare(self, task: Task) -> None:
        """Takes working memory and the values of arguments; waits until there is room.

        Raises:
            MemoryLimitError: There never will be room.
        """
        memory = task.options.memory
        if task.needs_worker and task.hold is None:
            task.hold = self._pool.hold()
        self.check_room(task, memory)
        if memory:
            task.reservation = self._budget.reserve(memory)
        task.values = self.resolve(task)

    def check_room(self, task: Task, memory: int) -> None:
        """See ``room.check``."""
        room.check(self._budget, self._store, task, memory)

    def interrupt_of(self, task: Task) -> Callable[[], None] | None:
        """Returns a function that stops a task, from now until it is over; None if nothing can stop it."""
        return self._pool.interrupt_of(task)

    def has_references(self, task: Task) -> bool:
        """Whether the task has arguments to fetch."""
        return bool(arguments.targets(task))

    def takes_memory(self, task: Task) -> bool:
        """Whether ``prepare`` would take anything for a task; waits for nothing."""
        if self.has_references(task) or task.options.memory > 0:
            return True
        if task.needs_worker and task.hold is None:
            task.hold = self._pool.hold_at_once()
            return task.hold is None
        return False

    def resolve(self, task: Task) -> object:
        """Fetches the values of a task's arguments all at once, and restores spilled ones.

        Returns:
            Positional and keyword arguments; for a packed task, ``Loaded`` or a list of these per reference.
        """
        args, kwargs = task.args or (), task.kwargs or {}
        wanted: list[arguments.Wanted] = []
        for arg in (*args, *kwargs.values()):
            wanted.extend(arguments.wanted(arg))
        self._table.check_open()
        loaded = loading.load(self._store, wanted)
        found = iter(loaded if task.call is not None else [one.value() for one in loaded])
        filled = tuple(arguments.filled(arg, found) for arg in args)
        if task.call is not None:
            return list(filled)
        return filled, {name: arguments.filled(arg, found) for name, arg in kwargs.items()}

    def execute(self, task: Task) -> StoredValue:
        """Runs a task on this thread, or in a worker process that this thread serves."""
        assert task.output is not None
        if task.output.actor is not None:
            return task.output.actor.begin()
        if task.options.executor == "process":
            return self._pool.run(task)
        with GpusOfThread(task.gpus):
            return self._threads.run(task, function_of(task))
