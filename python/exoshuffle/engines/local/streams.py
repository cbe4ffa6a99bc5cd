"""The items of a generator task.

Guarantee: item i is the same object whichever attempt of the task made it; an item that nobody has taken yet is kept
alive by the stream, one that was taken by its references.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle.engines.local.objects import ObjectState, Status, Task
from exoshuffle.engines.local.values import StoredValue
from exoshuffle.errors import BlockLostError
from exoshuffle.futures.refs import Ref

if TYPE_CHECKING:
    from exoshuffle.engines.local.engine import LocalEngine
    from exoshuffle.engines.local.table import ObjectTable


class Stream:
    """What is behind a ``RefStream``. All but ``next_ref`` and ``drop`` are called with the engine's lock held."""

    def __init__(self, engine: LocalEngine, table: ObjectTable, task: Task) -> None:
        self._engine = engine
        self._table = table
        self._task = task
        self._items: list[ObjectState] = []
        self._untaken: dict[int, Ref] = {}
        #: Items made by the attempt that runs.
        self._made = 0
        self.ended = False
        self.dropped = False
        #: Keeps the task wanted for as long as the stream is.
        self._output = Ref(task.output) if task.output is not None else None

    def add(self, stored: StoredValue) -> bool:
        """The task yielded another item; returns whether anybody wants more."""
        if self.dropped or self._task.cancelled:
            self._table.discard(stored)
            return False
        index = self._made
        self._made += 1
        if index == len(self._items):
            state = ObjectState(self._table, 1, self._task)
            self._items.append(state)
            self._untaken[index] = Ref(state)
        self._table.fulfil(self._items[index], stored)
        if self.dropped:  # meanwhile: that needs no lock
            self._untaken.clear()
        return True

    def restart(self) -> None:
        """Another attempt begins."""
        self._made = 0
        self.ended = False

    def end(self) -> None:
        """The task is over."""
        self.ended = True
        for state in self._items[self._made :]:
            if state.status is Status.PENDING:
                error = BlockLostError(
                    f"{state!r}: its bytes are lost and the generator ended before"
                )
                self._table.reject(state, error)
        self._table.notify()

    def take(self, index: int) -> Ref | None:
        """Item ``index``, if it has been made."""
        if index >= len(self._items):
            return None
        return self._untaken.pop(index, None) or Ref(self._items[index])

    @property
    def error(self) -> BaseException | None:
        """What ended the stream early."""
        return None if self._task.output is None else self._task.output.error

    def next_ref(self, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle``."""
        return self._engine.next_item(self, index, timeout)

    def cancel(self) -> bool:
        """See ``StreamHandle``."""
        output = self._output
        return output is not None and self._engine.cancel(output)

    def drop(self) -> None:
        """See ``StreamHandle``."""
        self.dropped = True
        self._untaken.clear()
        self._output = None
