"""References to objects that may not exist yet.

Guarantee: an object lives as long as a handle to it: a ``Ref`` that the program holds, or one inside the arguments of a
task that has not finished. The last one gone frees memory and spilled bytes.

Why not one reference per slice: a shuffle has M x R slices. ``refs[i]`` and ``Refs.column(i)`` are an index beside a
shared handle, so the driver holds O(M + R).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol


class ObjectHandle(Protocol):
    """What an engine puts behind a ``Ref``; all that this module asks of it is to count its handles."""

    num_slices: int

    def add_handle(self) -> None:
        """A ``Ref`` was made."""

    def drop_handle(self) -> None:
        """A ``Ref`` is gone. Called from ``__del__``: must not block."""


class Ref:
    """A reference to one immutable object, returned by ``remote`` functions and ``put``.

    A task with ``num_returns=k`` makes one object of k slices: ``ref[i]`` refers to one of them, which is fetched or
    restored without the rest, and ``len(ref)`` is k.
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

    def __getitem__(self, index: int) -> SliceRef:
        if not 0 <= index < self._object.num_slices:
            raise IndexError(f"slice {index} of an object of {self._object.num_slices} slices")
        return SliceRef(self, index)

    def __iter__(self) -> Iterator[SliceRef]:
        return (SliceRef(self, index) for index in range(len(self)))

    def __copy__(self) -> Ref:
        return Ref(self._object)

    def __repr__(self) -> str:
        return f"Ref({self._object!r})"


class SliceRef:
    """One slice of an object; keeps the whole object alive."""

    __slots__ = ("index", "ref")

    def __init__(self, ref: Ref, index: int) -> None:
        self.ref = ref
        self.index = index

    def __repr__(self) -> str:
        return f"{self.ref!r}[{self.index}]"


class Refs:
    """An immutable sequence of ``Ref`` that many tasks share as an argument.

    A task that gets a ``Refs`` sees the list of values; one that gets ``refs.column(i)`` sees slice i of every object.
    Either costs the caller O(1), whatever the length.
    """

    __slots__ = ("_refs", "engine_state")

    def __init__(self, refs: Iterable[Ref]) -> None:
        self._refs = tuple(refs)
        #: Scratch space of the engine (what it knows of the sequence as a whole).
        self.engine_state: Any = None

    def column(self, index: int) -> Column:
        """Slice ``index`` of every object, as one argument."""
        return Column(self, index)

    def __len__(self) -> int:
        return len(self._refs)

    def __iter__(self) -> Iterator[Ref]:
        return iter(self._refs)

    def __getitem__(self, index: int) -> Ref:
        return self._refs[index]


class Column:
    """Slice ``index`` of every object of a ``Refs``; resolves to a list of values."""

    __slots__ = ("index", "refs")

    def __init__(self, refs: Refs, index: int) -> None:
        self.refs = refs
        self.index = index
