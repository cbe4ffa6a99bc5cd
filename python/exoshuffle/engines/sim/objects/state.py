"""An object: its handle, which keeps it, and its state, which says what it is and how it can be made again.

Guarantee: the bytes of an object go when its handle goes. Its state stays as long as another object may have to be
made from it. Python's own counts say when: the states of finished tasks refer to states, never to handles.
"""

from __future__ import annotations

import collections
import enum
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from exoshuffle.futures.engine import RunningTask

#: Values up to this size that the program puts stay with it, as in the embedded engine: no node can lose them.
INLINE_BYTES = 100 << 10
#: A slice at rest: a pickled value, or a read-only view of a block (``values.Part``).
Part: TypeAlias = Any


class Maker(Protocol):
    """The task that makes an object."""

    name: str

    def running(self, now: float) -> RunningTask:
        """Returns since when, and where, the attempt that is under way runs."""


class Shared:
    """The facts that all objects of an engine share.

    Attributes:
        dropped: Objects whose handles have gone since the engine last looked.
        num_losses: How often objects were lost: who has seen all of many objects need not look again until it grows.
        num_moves: How often the bytes of objects went elsewhere.
    """

    def __init__(self) -> None:
        self.dropped: collections.deque[State] = collections.deque()
        self.num_losses = 0
        self.num_moves = 0


class Copy:
    """The bytes of an object on a node."""

    __slots__ = ("in_memory", "is_leaving", "node", "num_bytes", "num_pins", "state")

    def __init__(self, state: State, node: str, num_bytes: int, *, in_memory: bool) -> None:
        self.state = state
        self.node = node
        self.num_bytes = num_bytes
        self.in_memory = in_memory
        self.is_leaving = False
        self.num_pins = 0


class Status(enum.Enum):
    """The states of an object. ``LOST``: it was made, and all of its bytes are gone."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"


class State:
    """An object.

    Attributes:
        number: Its number, in the order in which objects were asked for.
        num_slices: How many slices it has.
        task: The task that makes it; None if the program has put it.
        item_index: Which item of the task's stream it is; None if it is the task's result.
        status: Its state at the moment.
        parts: Its slices; None where the object is modelled, or is not there.
        part_bytes: The size of each slice; of a modelled object one number, the size of all slices together.
        error: Why it failed.
        copy: Where its bytes lie.
    """

    __slots__ = (
        "__weakref__", "_handle", "_waiting", "copy", "error", "item_index", "num_slices", "number", "part_bytes",
        "parts", "shared", "status", "task",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        num_slices: int,
        task: Maker | None,
        shared: Shared,
        item_index: int | None = None,
    ) -> None:
        self.number = number
        self.num_slices = num_slices
        self.task = task
        self.item_index = item_index
        self.shared = shared
        self.status = Status.PENDING
        self.parts: Sequence[Part] | None = None
        self.part_bytes: Sequence[int] | int = 0
        self.error: BaseException | None = None
        self.copy: Copy | None = None
        self._waiting: list[Callable[[], None]] = []
        self._handle: weakref.ref[Handle] | None = None

    def kept(self) -> Handle:
        """Returns the handle that keeps the bytes of the object."""
        handle = None if self._handle is None else self._handle()
        if handle is None:
            handle = Handle(self)
            self._handle = weakref.ref(handle)
        return handle

    @property
    def is_wanted(self) -> bool:
        """Whether anybody can still ask for the object."""
        return self._handle is not None and self._handle() is not None

    @property
    def is_inline(self) -> bool:
        """Whether it is a small value that was put: what is made from it keeps it, for nothing could make it again."""
        return self.task is None and self.status is Status.DONE and self.copy is None

    @property
    def is_over(self) -> bool:
        """Whether its task has ended, and the object is there or has failed."""
        return self.status is Status.DONE or self.status is Status.FAILED

    @property
    def num_bytes(self) -> int:
        """The size of all slices together."""
        return self.part_bytes if isinstance(self.part_bytes, int) else sum(self.part_bytes)

    def slice_bytes(self, index: int | range | None) -> int:
        """Returns the size of a slice, of several, or of all of them."""
        if index is None:
            return self.num_bytes
        count = len(index) if isinstance(index, range) else 1
        if isinstance(self.part_bytes, int):
            return self.part_bytes * count // self.num_slices
        chosen = index if isinstance(index, range) else (index,)
        return sum(self.part_bytes[each] for each in chosen)

    def lose(self) -> None:
        """Notes that all bytes are gone."""
        self.parts = self.copy = None
        self.status = Status.LOST
        self.shared.num_losses += 1
        self.shared.num_moves += 1

    def when_over(self, action: Callable[[], None]) -> None:
        """Has something happen once the object is there or has failed."""
        self._waiting.append(action)

    def end(self, status: Status) -> None:
        """Sets what has become of it, and tells those that wait."""
        self.status = status
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()


class Handle:
    """Keeps the bytes of an object; what a ``Ref`` has inside. See ``futures.refs.ObjectHandle``."""

    __slots__ = ("__weakref__", "num_slices", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.num_slices = state.num_slices

    def add_handle(self) -> None:
        """Counts nothing: Python counts handles."""

    def drop_handle(self) -> None:
        """Counts nothing."""

    def __del__(self) -> None:
        # It may happen at any moment, in any thread; the engine looks there between events.
        self.state.shared.dropped.append(self.state)

    def __repr__(self) -> str:
        return f"object {self.state.number}"
