"""A call as it travels to a worker: the function, the arguments, and Ray objects where references were.

Guarantee: an argument or function that cannot be pickled is refused, by name, when the task is submitted. The parts of
an object that an argument refers to are arguments of the Ray task. Ray waits for, fetches beforehand and schedules by
these alone. References inside containers stay references.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import ray

from exoshuffle.engines.ray.objects import MERGED_PARTS, RayObject, object_of, tasks_of
from exoshuffle.engines.ray.values import Packed, Part, pack
from exoshuffle.errors import OptionsError
from exoshuffle.futures.refs import Column, Ref, Refs, SliceRef

#: Larger functions travel once, as an object of their own, not inside every task that Ray keeps for recovery.
INLINE_CODE_BYTES = 4096


class Code(NamedTuple):
    """A pickled function or class.

    Attributes:
        digest: Workers know the code by this digest; empty if they must not keep it.
        argument: The pickle, or the Ray object that holds it.
    """

    digest: bytes
    argument: Packed | ray.ObjectRef


class Codes:
    """The functions that one engine has pickled: each once, however often it is called."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Callable[..., object], Code] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    def of(self, fn: Callable[..., object], name: str) -> Code:
        """Returns the function, ready to travel.

        Raises:
            OptionsError: The function cannot be pickled.
        """
        with contextlib.suppress(TypeError), self._lock:  # not everything callable can be a key
            found = self._known.get(fn)
            if found is not None:
                return found
        packed = _packed(fn, f"the function of task {name}")
        if packed.references:
            # To keep the function, here or in workers, would keep the objects that it closes over.
            return Code(b"", packed)
        digest = hashlib.sha256(packed.data)
        for buffer in packed.buffers:
            digest.update(buffer)
        small = packed.num_bytes <= INLINE_CODE_BYTES
        code = Code(digest.digest(), packed if small else ray.put(packed))
        with contextlib.suppress(TypeError), self._lock:
            self._known[fn] = code
        return code


class Span(NamedTuple):
    """Stands where a reference was: slices in a row of the object whose parts are these arguments.

    Attributes:
        first: The first part of the object among the arguments.
        stop: The argument after its last part.
        start: The first of the slices, counted from the beginning of the first part.
        length: How many slices are wanted, as a list; None for one slice, as it is.
    """

    first: int
    stop: int
    start: int
    length: int | None

    def fill(self, parts: Sequence[Part]) -> object:
        """Returns the value."""
        if self.length is None:
            return parts[self.first][self.start]
        wanted = range(self.start, self.start + self.length)
        found: list[object] = []
        before = 0
        for part in parts[self.first : self.stop]:
            inside = range(max(0, wanted.start - before), min(len(part), wanted.stop - before))
            found.extend(part[index] for index in inside)
            before += len(part)
        return found


class Spans(NamedTuple):
    """Stands where a ``Refs`` was."""

    spans: tuple[Span, ...]

    def fill(self, parts: Sequence[Part]) -> list[object]:
        """Returns the values."""
        return [span.fill(parts) for span in self.spans]


class Indices(NamedTuple):
    """Stands where a ``Column`` was: one slice of each of some parts.

    Attributes:
        first: The first of the parts among the arguments.
        inside: Which slice of each part.
    """

    first: int
    inside: tuple[int, ...]

    def fill(self, parts: Sequence[Part]) -> list[object]:
        """Returns the values."""
        return [parts[self.first + i][index] for i, index in enumerate(self.inside)]


class Arguments:
    """The arguments of a call, packed.

    Attributes:
        packed: Pickle of (positional, keyword), with holes where references were.
        parts: The parts whose values go into the holes.
        before: The tasks that the call depends on; see ``Origin``.
        whole_parts: The number of parts of sliced objects that the call takes whole; see ``Shape``. An object counts as
            ``MERGED_PARTS`` at least.

    Raises:
        OptionsError: An argument cannot be pickled; the error names it.
    """

    def __init__(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self.parts: list[ray.ObjectRef] = []
        self.before: frozenset[tuple[str, int]] = frozenset()
        self.whole_parts = 0
        holed = (
            tuple(self._holed(arg) for arg in args),
            {key: self._holed(arg) for key, arg in kwargs.items()},
        )
        try:
            self.packed = pack(holed)
        except Exception as error:
            for label, value in (*enumerate(holed[0], start=1), *holed[1].items()):
                _packed(value, f"argument {label} of task {name}")
            raise OptionsError(f"an argument of task {name} cannot be pickled: {error}") from error

    def _holed(self, value: object) -> object:
        if isinstance(value, Ref):
            found = object_of(value)
            self.before |= found.origin.tasks
            return self._whole(found)
        if isinstance(value, SliceRef):
            found = object_of(value.ref)
            self.before |= found.origin.tasks
            return self._span(found, value.index)
        if isinstance(value, Refs | Column):
            refs = value.refs if isinstance(value, Column) else value
            objects = [object_of(ref) for ref in refs]
            if refs.engine_state is None:
                refs.engine_state = tasks_of(objects)
            self.before |= cast("frozenset[tuple[str, int]]", refs.engine_state)
            if isinstance(value, Refs):
                return Spans(tuple(self._whole(found) for found in objects))
            return self._column(objects, value.slices())
        return value

    def _whole(self, found: RayObject) -> Span:
        if found.num_slices > 1:
            self.whole_parts += max(len(found.parts), MERGED_PARTS)
        return self._span(found, None)

    def _span(self, found: RayObject, index: int | range | None) -> Span:
        chosen, span = span_of(found, index, len(self.parts))
        self.parts += chosen
        return span

    def _column(self, objects: list[RayObject], slices: list[int]) -> Indices:
        first = len(self.parts)
        inside: list[int] = []
        for found, index in zip(objects, slices, strict=True):
            part = found.shape.part_of(index)
            self.parts.append(found.parts[part])
            inside.append(index - found.shape.starts[part])
        return Indices(first, tuple(inside))


def unpack(packed: Packed, parts: Sequence[Part]) -> tuple[tuple[object, ...], dict[str, object]]:
    """Returns the arguments again, with values in the holes."""
    args, kwargs = packed.load()

    def fill(value: object) -> object:
        return value.fill(parts) if isinstance(value, Span | Spans | Indices) else value

    return tuple(fill(arg) for arg in args), {key: fill(arg) for key, arg in kwargs.items()}


def span_of(
    found: RayObject, index: int | range | None, first: int = 0
) -> tuple[tuple[ray.ObjectRef, ...], Span]:
    """Returns the parts that hold a slice, some or all, and a span of these in arguments that begin at ``first``."""
    shape = found.shape
    if index is None:
        index = range(found.num_slices) if found.num_slices > 1 else 0
    wanted = index if isinstance(index, range) else range(index, index + 1)
    length = len(index) if isinstance(index, range) else None
    if not wanted:
        return (), Span(first, first, 0, length)
    begin = shape.part_of(wanted.start)
    chosen = found.parts[begin : shape.part_of(wanted.stop - 1) + 1]
    return chosen, Span(first, first + len(chosen), wanted.start - shape.starts[begin], length)


def _packed(value: object, what: str) -> Packed:
    try:
        return pack(value)
    except Exception as error:
        raise OptionsError(
            f"{what} cannot be pickled ({error}); pass what it needs as values"
        ) from error
