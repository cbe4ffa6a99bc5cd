"""Values at rest: pickled, so that no task sees what another does with its copy; and blocks, which are never copied."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence

from exoshuffle.engines import by_value
from exoshuffle.engines.returned import check_block, values_of
from exoshuffle.engines.sim.objects.state import Handle, Part, State
from exoshuffle.futures.refs import Value


class _Pickler(by_value.Pickler):
    """Keeps the handles of references as they are, in a list of their own."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.handles: list[Handle] = []

    def persistent_id(self, value: object) -> int | None:
        """Returns the place of a handle, which stays as it is; None for other values."""
        if not isinstance(value, Handle):
            return None
        self.handles.append(value)
        return len(self.handles) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, handles: Sequence[Handle]) -> None:
        super().__init__(file)
        self._handles = handles

    def persistent_load(self, index: int) -> Handle:
        """Returns the handle that stayed as it was."""
        return self._handles[index]


class Pickled:
    """A value at rest, which keeps the objects behind its references."""

    __slots__ = ("_data", "_handles", "_states")

    def __init__(self, value: object) -> None:
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(value)
        self._data = file.getvalue()
        self._handles: tuple[Handle, ...] | None = tuple(pickler.handles)
        self._states: tuple[State, ...] = ()

    def __len__(self) -> int:
        return len(self._data)

    @property
    def has_references(self) -> bool:
        """Whether references are inside, which a copy would keep."""
        return bool(self._handles or self._states)

    def load(self) -> Value:
        """Makes the value anew."""
        self.wake()
        assert self._handles is not None
        return _Unpickler(io.BytesIO(self._data), self._handles).load()

    def rest(self) -> None:
        """Lets the objects behind its references go; what is left is how to make them again."""
        if self._handles is not None and not any(each.state.is_inline for each in self._handles):
            self._states = tuple(handle.state for handle in self._handles)
            self._handles = None

    def wake(self) -> None:
        """Keeps them again."""
        if self._handles is None:
            self._handles = tuple(state.kept() for state in self._states)
            self._states = ()


class Block(bytearray):
    """A block that ``allocate_block`` returned."""

    def __init__(self, offsets: Sequence[int]) -> None:
        super().__init__(offsets[-1])
        self._offsets = list(offsets)

    def slices(self) -> list[memoryview]:
        """Returns read-only views of the slices."""
        view = memoryview(self).toreadonly()
        return [view[a:b] for a, b in zip(self._offsets, self._offsets[1:], strict=False)]


def at_rest(returned: object, num_slices: int, pickled: Callable[[object], Pickled]) -> list[Part]:
    """Returns the slices of what a task returned.

    Raises:
        EngineError: It returned another number of slices.
    """
    if isinstance(returned, Block):
        slices = returned.slices()
        check_block(len(slices), num_slices)
        return [*slices]
    return [pickled(value) for value in values_of(returned, num_slices)]


def loaded(part: Part) -> Value:
    """Returns the value of a slice."""
    return part.load() if isinstance(part, Pickled) else part
