"""References to objects that may not exist yet.

Guarantee: an object lives as long as a handle to it. A handle is a ``Ref`` that the application holds. It is also one
inside the arguments of a task that has not finished, or inside another living object. The last one gone frees memory
and spilled bytes.

Why not one reference per slice: a shuffle has M x R slices. ``refs[i]`` and ``Refs.column(i)`` are an index beside a
shared handle, so the program holds O(M + R).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Protocol, TypeAlias, overload

from exoshuffle.futures.awaiting import awaited

#: A user's value: a function returned it or ``put`` took it, and tasks get it for a reference. Only that user knows its
#: type, so whoever gets it says what it is.
Value: TypeAlias = Any


class ObjectHandle(Protocol):
    """The engine's object behind a ``Ref``; this module only asks it to count its handles.

    A ``Ref`` is pickled as its handle, so the engine decides how references travel.
    """

    num_slices: int

    def add_handle(self) -> None:
        """Counts a ``Ref`` that was made."""

    def drop_handle(self) -> None:
        """Uncounts a ``Ref`` that is gone. ``__del__`` calls it, so it must not block."""


class StreamHandle(Protocol):
    """The engine's object behind a ``RefStream``."""

    def next_ref(self, index: int, timeout: float | None) -> Ref | None:
        """Waits for item ``index``; returns None after the last; raises the error of a task that ended the stream."""

    def limit_ahead(self, count: int) -> None:
        """Makes the task wait from now on while ``count`` items are there that nobody has taken; not on Ray."""

    def cancel(self) -> bool:
        """Stops the task if it is not over and can be stopped; returns whether it was."""

    def drop(self) -> None:
        """Ends the stream: nobody takes items any more. ``__del__`` calls it, so it must not block."""


#: How a reference becomes its value; ``get`` comes here when its module, which knows engines, is imported.
_getters: list[Callable[[Ref | SliceRef], Value]] = []


def await_by(getter: Callable[[Ref | SliceRef], Value]) -> None:
    """Makes ``await ref`` call this function."""
    _getters[:] = [getter]


def _awaited(ref: Ref | SliceRef) -> Generator[object, None, Value]:
    (getter,) = _getters
    return awaited(lambda: getter(ref))


class Ref:
    """A reference to one immutable object, returned by ``remote`` functions and ``put``.

    A task with ``num_returns=k`` makes one object of k slices. ``ref[i]`` refers to one slice and ``ref[a:b]`` to some,
    which are fetched or restored without the rest; ``len(ref)`` is k.

    ``await ref`` gives its value in a coroutine, as ``get`` does elsewhere; cost: a thread while it waits.

    As an argument of a task, a reference stands for its value. Inside a container (a list, a dictionary, an object) it
    stays a reference, which the task may pass on, keep or ``get``.
    """

    __slots__ = ("_object",)

    def __init__(self, handle: ObjectHandle) -> None:
        self._object = handle
        handle.add_handle()

    def __del__(self) -> None:
        handle = getattr(self, "_object", None)
        if handle is not None:
            handle.drop_handle()

    def __len__(self) -> int:
        return self._object.num_slices

    @overload
    def __getitem__(self, index: int) -> SliceRef: ...
    @overload
    def __getitem__(self, index: slice) -> SliceRef: ...
    def __getitem__(self, index: int | slice) -> SliceRef:
        count = self._object.num_slices
        if isinstance(index, slice):
            chosen = range(count)[index]
            if chosen.step != 1:
                raise IndexError(
                    f"slices are taken in order, one after the other; step {chosen.step} is not"
                )
            return SliceRef(self, chosen)
        if not 0 <= index < count:
            raise IndexError(f"slice {index} of an object of {count} slices")
        return SliceRef(self, index)

    def __iter__(self) -> Iterator[SliceRef]:
        return (SliceRef(self, index) for index in range(len(self)))

    def __await__(self) -> Generator[object, None, Value]:
        return _awaited(self)

    def __copy__(self) -> Ref:
        return Ref(self._object)

    def __reduce__(self) -> tuple[type[Ref], tuple[ObjectHandle]]:
        return Ref, (self._object,)

    def __repr__(self) -> str:
        return f"Ref({self._object!r})"


class SliceRef:
    """One slice of an object, or some in a row; keeps the whole object alive.

    Attributes:
        ref: The object.
        index: The slice, whose value this stands for; or a range of slices, which stands for the list of their values.
    """

    __slots__ = ("index", "ref")

    def __init__(self, ref: Ref, index: int | range) -> None:
        self.ref = ref
        self.index = index

    def __await__(self) -> Generator[object, None, Value]:
        return _awaited(self)

    def __reduce__(self) -> tuple[type[SliceRef], tuple[Ref, int | range]]:
        return SliceRef, (self.ref, self.index)

    def __repr__(self) -> str:
        return f"{self.ref!r}[{self.index}]"


class Refs:
    """An immutable sequence of ``Ref`` that many tasks share as an argument.

    A task that gets a ``Refs`` sees the list of values. One that gets ``refs.column(i)`` sees slice i of every object.
    Either costs the caller O(1), whatever the length.

    Args:
        refs: The objects.
        firsts: The column that the first slice of each object belongs to, where objects have some of the columns only.
            So ``Refs([whole, part], [0, 4]).column(5)`` has slice 5 of one and slice 1 of the other. Default: 0 for
            all.
    """

    __slots__ = ("_refs", "engine_state", "firsts")

    def __init__(self, refs: Iterable[Ref], firsts: Iterable[int] = ()) -> None:
        self._refs = tuple(refs)
        self.firsts = tuple(firsts) or (0,) * len(self._refs)
        if len(self.firsts) != len(self._refs):
            raise ValueError(f"{len(self.firsts)} first columns for {len(self._refs)} references")
        #: Scratch space of the engine: what it knows of the sequence as a whole.
        self.engine_state: object = None

    def column(self, index: int) -> Column:
        """Returns the slice of column ``index`` of every object, as one argument."""
        return Column(self, index)

    def slice(self, number: int, index: int) -> SliceRef:
        """Returns the slice of column ``index`` of object ``number``."""
        return self._refs[number][index - self.firsts[number]]

    def __len__(self) -> int:
        return len(self._refs)

    def __iter__(self) -> Iterator[Ref]:
        return iter(self._refs)

    def __getitem__(self, index: int) -> Ref:
        return self._refs[index]

    def __reduce__(self) -> tuple[type[Refs], tuple[tuple[Ref, ...], tuple[int, ...]]]:
        return Refs, (self._refs, self.firsts)


class Column:
    """The slice of column ``index`` of every object of a ``Refs``; resolves to a list of values."""

    __slots__ = ("index", "refs")

    def __init__(self, refs: Refs, index: int) -> None:
        self.refs = refs
        self.index = index

    def slices(self) -> list[int]:
        """Returns which slice it takes of each object."""
        return [self.index - first for first in self.refs.firsts]

    def __reduce__(self) -> tuple[type[Column], tuple[Refs, int]]:
        return Column, (self.refs, self.index)


class RefStream:
    """The items of a generator task, each a ``Ref``, in order, while the task runs.

    Iterating waits for the next item. When the task fails, iterating raises its error after the items made before.
    Items that nobody takes stay in the store, which spills them: ``limit_ahead`` bounds them. Dropping the stream
    cancels the task.
    """

    __slots__ = ("_next", "_peeked", "handle")

    def __init__(self, handle: StreamHandle) -> None:
        #: The engine's side of the stream.
        self.handle = handle
        self._next = 0
        self._peeked: Ref | None = None

    def __iter__(self) -> RefStream:
        return self

    def __next__(self) -> Ref:
        ref = self.next()
        if ref is None:
            raise StopIteration
        return ref

    def next(self, timeout: float | None = None) -> Ref | None:
        """Returns the next item, or None after the last.

        Raises:
            TaskError: The task failed.
            TimeoutError: No item after ``timeout`` seconds; the stream can be asked again.
        """
        ref, self._peeked = self._peeked, None
        if ref is None:
            ref = self.handle.next_ref(self._next, timeout)
            if ref is not None:
                self._next += 1
        return ref

    def peek(self) -> None:
        """Waits for the next item, which stays the next one.

        Raises:
            TaskError: The task failed before it.
        """
        self._peeked = self.next()

    def limit_ahead(self, count: int) -> None:
        """Makes the task wait, without its CPUs, while ``count`` items are there that nobody has taken.

        The task goes on if other work cannot begin without the memory that it holds. Some engines cannot do this: Ray's
        tasks never wait, since they would keep their CPUs while waiting.
        """
        self.handle.limit_ahead(count)

    def __del__(self) -> None:
        handle = getattr(self, "handle", None)
        if handle is not None:
            handle.drop()
