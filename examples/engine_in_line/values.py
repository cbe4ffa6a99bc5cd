"""Values at rest, and the handles of objects."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle

from exoshuffle.errors import EngineError
from exoshuffle.futures import Column, Ref, Refs, SliceRef


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Pickles a value, but keeps the handles of the references inside it as they are, in a list of their own."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.handles: list[Handle] = []

    def persistent_id(self, value: Any) -> int | None:
        """Returns the place of a handle, which stays as it is; None for other values."""
        if not isinstance(value, Handle):
            return None
        self.handles.append(value)
        return len(self.handles) - 1


class Unpickler(pickle.Unpickler):
    """Loads a value that ``Pickler`` has pickled."""

    def __init__(self, file: io.BytesIO, handles: list[Handle]) -> None:
        super().__init__(file)
        self._handles = handles

    def persistent_load(self, index: Any) -> Any:
        """Returns the handle that stayed as it was."""
        return self._handles[index]


class Pickled:
    """A value at rest: nobody can change it, and the objects behind its references live."""

    def __init__(self, value: Any) -> None:
        file = io.BytesIO()
        pickler = Pickler(file)
        pickler.dump(value)
        self._data, self._handles = file.getvalue(), pickler.handles

    def __len__(self) -> int:
        return len(self._data)

    def load(self) -> Any:
        """Makes the value anew."""
        return Unpickler(io.BytesIO(self._data), self._handles).load()


class Block(bytearray):
    """A block that ``allocate_block`` returns."""

    def __init__(self, offsets: Sequence[int]) -> None:
        super().__init__(offsets[-1])
        self._offsets = list(offsets)

    def slices(self) -> list[memoryview]:
        """Returns read-only views of the slices."""
        view = memoryview(self).toreadonly()
        return [view[a:b] for a, b in zip(self._offsets, self._offsets[1:], strict=False)]


class Handle:
    """One object: its slices, or the error of its task. Python's own reference counts say how long it lives."""

    def __init__(self, num_slices: int = 1) -> None:
        self.num_slices = num_slices
        self.slices: list[Any] = []
        self.error: BaseException | None = None

    def add_handle(self) -> None:
        """See ``ObjectHandle``. Nothing to count."""

    def drop_handle(self) -> None:
        """See ``ObjectHandle``. Nothing to count."""

    def fill(self, returned: Any) -> None:
        """Takes the value that a task returned."""
        if isinstance(returned, Block):
            self.slices = list(returned.slices())
        else:
            several = isinstance(returned, Sequence) and not isinstance(returned, str | bytes)
            values = returned if several and self.num_slices > 1 else [returned]
            self.slices = [Pickled(value) for value in values]
        if len(self.slices) != self.num_slices:
            raise EngineError(
                f"the task returned {len(self.slices)} values; num_returns is {self.num_slices}"
            )

    def slice_bytes(self) -> list[int]:
        """Returns the bytes of each slice."""
        if self.error is not None:
            raise self.error
        return [len(part) for part in self.slices]

    def value(self, index: int | range | None = None) -> Any:
        """Returns the value of a slice, of a range of slices or of the whole object."""
        if self.error is not None:
            raise self.error
        if index is None:
            index = range(self.num_slices) if self.num_slices > 1 else 0
        if isinstance(index, range):
            return [self.value(i) for i in index]
        stored = self.slices[index]
        return stored.load() if isinstance(stored, Pickled) else stored


def resolved(argument: Any) -> Any:
    """Returns the value that a reference stands for; anything else as it is."""
    if isinstance(argument, Ref):
        return handle_of(argument).value()
    if isinstance(argument, SliceRef):
        return handle_of(argument.ref).value(argument.index)
    if isinstance(argument, Refs):
        return [resolved(ref) for ref in argument]
    if isinstance(argument, Column):
        refs = argument.refs
        return [resolved(refs.slice(number, argument.index)) for number in range(len(refs))]
    return argument


def handle_of(ref: Ref) -> Handle:
    """Returns the handle that this engine put behind a reference."""
    handle = ref._object
    assert isinstance(handle, Handle)
    return handle
