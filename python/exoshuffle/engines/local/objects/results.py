"""Takes what a task hands over while it runs: the items of a generator, and one of its own arguments as its result."""

from __future__ import annotations

from exoshuffle.engines.local.objects import arguments
from exoshuffle.engines.local.objects.table import ObjectTable
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.errors import TaskCancelledError
from exoshuffle.futures.refs import Ref


class Results:
    """Takes items and returned arguments of running tasks."""

    def __init__(self, table: ObjectTable) -> None:
        self._table = table

    def returned(self, task: Task, number: int) -> StoredValue:
        """Makes a result of one of the task's references that a worker returned as it got it; no value moves."""
        with self._table.lock:
            if task.args is None:
                raise TaskCancelledError(f"task {task.name} was cancelled")
            ((state, index),) = arguments.wanted(task.args[number])
            assert not isinstance(index, range)
            return StoredValue(None, None, True, (Ref(state),), same_as=index or 0)

    def add_item(self, task: Task, stored: StoredValue) -> bool:
        """Adds an item that a generator yielded, and returns whether anybody wants more.

        Waits first while the generator is too far ahead of its consumers.
        """
        stream = task.stream
        assert stream is not None
        with self._table.lock:
            is_wanted = stream.add(stored)
        self._table.settle()
        if is_wanted and stream.is_far_ahead:
            stream.await_taker()
            is_wanted = not stream.dropped
        return is_wanted
