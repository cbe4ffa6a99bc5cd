"""What a task hands over while it runs: the items of a generator, and one of its own arguments as its result."""

from __future__ import annotations

from exoshuffle.engines.local.objects import arguments
from exoshuffle.engines.local.objects.table import ObjectTable
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.errors import TaskCancelledError
from exoshuffle.futures.refs import Ref


class Results:
    """Takes what running tasks hand over."""

    def __init__(self, table: ObjectTable) -> None:
        self._table = table

    def returned(self, task: Task, number: int) -> StoredValue:
        """A worker returned one of the task's references as it got it: the value stays where it is."""
        with self._table.lock:
            if task.args is None:
                raise TaskCancelledError(f"task {task.name} was cancelled")
            ((state, index),) = arguments.wanted(task.args[number])
            assert not isinstance(index, range)
            return StoredValue(None, None, True, (Ref(state),), same_as=index or 0)

    def add_item(self, task: Task, stored: StoredValue) -> bool:
        """A generator yielded; returns whether anybody wants more, once it is not too far ahead of who takes items."""
        stream = task.stream
        assert stream is not None
        with self._table.lock:
            is_wanted = stream.add(stored)
        self._table.settle()
        if is_wanted and stream.is_far_ahead:
            stream.await_taker()
            is_wanted = not stream.dropped
        return is_wanted
