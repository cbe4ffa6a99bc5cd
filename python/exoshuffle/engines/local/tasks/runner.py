"""Gives a task its memory, its arguments, and a thread or a worker process, and runs it.

Guarantee: a task that can never have its memory and its arguments at once is refused, and does not wait (``room``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from exoshuffle._native import Store
from exoshuffle.engines.local.memory.budget import Budget
from exoshuffle.engines.local.memory.impatience import Impatience
from exoshuffle.engines.local.objects import arguments, loading
from exoshuffle.engines.local.objects.loading import Loaded
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
        impatience: Impatience,
        threads: Threads,
        pool: ProcessPool,
    ) -> None:
        self._table = table
        self._store = store
        self._budget = budget
        self._impatience = impatience
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

    def light_bytes(self, task: Task) -> int | None:
        """Returns the bytes of a task's arguments; None if it takes more than these, or only the store knows them."""
        if task.cancelled or task.options.memory or (task.needs_worker and task.hold is None):
            return None
        return arguments.known_bytes(task)

    def prepare_together(self, tasks: Sequence[Task]) -> bool:
        """Fetches the arguments of tasks that take nothing else, all at once.

        Returns:
            Whether they have them; False if there is no room for all now, or some cannot be fetched.
        """
        wanted = [_wanted(task) for task in tasks]
        try:
            with self._impatience.here():
                loaded = iter(loading.load(self._store, list(itertools.chain(*wanted))))
        except Exception:  # noqa: BLE001  whatever it is, the task finds it alone that it belongs to
            return False
        for task, own in zip(tasks, wanted, strict=True):
            task.values = self._filled(task, list(itertools.islice(loaded, len(own))))
        return True

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
        self._table.check_open()
        return self._filled(task, loading.load(self._store, _wanted(task)))

    def _filled(self, task: Task, loaded: list[Loaded]) -> object:
        args, kwargs = task.args or (), task.kwargs or {}
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


def _wanted(task: Task) -> list[arguments.Wanted]:
    """Returns the objects that a task's arguments are, or slices of objects."""
    args = (*(task.args or ()), *(task.kwargs or {}).values())
    return [one for arg in args for one in arguments.wanted(arg)]
