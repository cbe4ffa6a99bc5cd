"""Runs a function on the calling thread, with its arguments as they are: for code that releases the GIL.

Tasks and actors that a worker process asks for come packed, and are unpacked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from exoshuffle.engines.local.objects import calls, values
from exoshuffle.engines.local.objects.loading import Arguments
from exoshuffle.engines.local.objects.results import Results
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.objects.values import StoreBlocks, StoredValue


class Threads:
    """Runs functions where they are called.

    Args:
        blocks: Stores results.
        results: Takes the items of generators.
    """

    def __init__(self, blocks: StoreBlocks, results: Results) -> None:
        self._blocks = blocks
        self._results = results

    def run(self, task: Task, fn: Callable[..., object]) -> StoredValue:
        """Calls ``fn`` with the task's arguments, and stores its result, or each item that it yields."""
        args, kwargs = arguments_of(task)
        task.values = None
        value = fn(*args, **kwargs)
        if task.options.is_streaming:
            for item in cast("Iterable[object]", value):
                if not self._results.add_item(task, values.encode(self._blocks, item, 1)):
                    break
            value = None
        # The arguments go before the result is announced: a consumer may need their memory.
        del args, kwargs
        task.release_memory()
        return values.encode(self._blocks, value, task.options.num_slices)


def function_of(task: Task) -> Callable[..., object]:
    """Returns the function of a task, or the class of an actor."""
    if task.call is None or task.call.code is None:
        assert task.fn is not None
        return task.fn
    return task.call.code.load()


def arguments_of(task: Task) -> tuple[tuple[object, ...], dict[str, object]]:
    """Returns positional and keyword arguments, with values in place of references."""
    if task.call is not None:
        loaded = cast("list[Arguments] | None", task.values)
        return calls.unpack(task.call.data, [_value(entry) for entry in loaded or []])
    values = cast("tuple[tuple[object, ...], dict[str, object]] | None", task.values)
    return values or (task.args or (), task.kwargs or {})


def _value(entry: Arguments) -> object:
    return [one.value() for one in entry] if isinstance(entry, list) else entry.value()
