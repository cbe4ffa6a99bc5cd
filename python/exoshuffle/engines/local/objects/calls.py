"""A call as it travels to a worker process: the function and its arguments as bytes, and the references inside.

Guarantee: an argument or function that cannot be pickled is refused, by name, when the task is submitted. A function is
pickled once, however often it is called, and sent to each worker once. References among the arguments are taken out,
so that they can be waited for and resolved. References inside containers keep their objects alive until the task is
over.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

from exoshuffle.engines import by_value
from exoshuffle.engines.local.objects import identity, values
from exoshuffle.engines.local.objects.identity import Handle
from exoshuffle.errors import EngineError, OptionsError
from exoshuffle.futures.refs import Column, ObjectHandle, Ref, Refs, SliceRef

#: All that can stand for a value among arguments.
Reference = Ref | SliceRef | Refs | Column


class Code:
    """A pickled function or class.

    Attributes:
        data: The pickle.
        digest: Workers know the code by this digest.
        inside: The handles of references that the function closes over; each call of it holds the references.
    """

    __slots__ = ("__weakref__", "data", "digest", "inside")

    def __init__(self, data: bytes, digest: bytes, inside: tuple[Handle, ...]) -> None:
        self.data = data
        self.digest = digest
        self.inside = inside

    def load(self) -> Callable[..., object]:
        """Returns the function, unpickled in this process."""
        fn: Callable[..., object] = pickle.loads(self.data)  # noqa: S301  written by this application
        return fn


#: Functions up to this size are sent without a look at the memory.
SMALL_CODE_BYTES = 1_000_000

_codes: weakref.WeakKeyDictionary[Callable[..., object], Code] = weakref.WeakKeyDictionary()
_codes_lock = threading.Lock()


def _after_in_child() -> None:
    """Replaces the lock in a forked child: a thread of the parent may have held it."""
    global _codes_lock
    _codes_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_in_child)


def code_of(
    fn: Callable[..., object], name: str, allow: Callable[[str, int], None] | None = None
) -> Code:
    """Returns the function as bytes.

    Args:
        fn: The function.
        name: The name of its task.
        allow: Gets the name and the size of a large function before its pickle takes memory, and may refuse it.

    Raises:
        OptionsError: The function cannot be pickled.
    """
    import hashlib  # 2 ms of a start

    with contextlib.suppress(TypeError), _codes_lock:  # not everything callable can be a key
        found = _codes.get(fn)
        if found is not None:
            return found
    with identity.Capturing() as captured:
        data = _code(fn, name, allow)
    code = Code(data, hashlib.sha256(data).digest(), tuple(captured))
    if not code.inside:
        # A cached pickle outlives the function; it must not keep alive what the function closes over.
        with contextlib.suppress(TypeError), _codes_lock:
            _codes[fn] = code
    return code


def _code(fn: Callable[..., object], name: str, allow: Callable[[str, int], None] | None) -> bytes:
    what = f"the function of task {name}"
    if allow is not None:
        try:
            return _pickled(fn, what, SMALL_CODE_BYTES)
        except by_value.TooLargeError:
            allow(name, by_value.size(fn))
    return _pickled(fn, what)


class Call:
    """The arguments of one call.

    Attributes:
        code: The function; None for a method.
        method: The method's name; empty for a function.
        data: Pickle of (positional, keyword) with a ``Hole`` where a reference was.
        inside: The references in containers and in the function, until the call is over.
    """

    __slots__ = ("_handles", "code", "data", "inside", "method")

    def __init__(
        self, code: Code | None, method: str, data: bytes, handles: Sequence[Handle]
    ) -> None:
        self.code = code
        self.method = method
        self.data = data
        self._handles = (*handles, *(() if code is None else code.inside))
        self.inside: tuple[Ref, ...] = ()
        self.restore()

    def release(self) -> None:
        """Drops the call's references, since it is over; their handles are remembered."""
        self.inside = ()

    def restore(self) -> None:
        """Takes references of the handles, since the call is made, for the first time or again."""
        self.inside = tuple(Ref(handle) for handle in self._handles)


class Hole:
    """Stands where a reference was among the arguments; the worker puts its value there."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __reduce__(self) -> tuple[type[Hole], tuple[int]]:
        return Hole, (self.index,)


class StoredArgument(Ref):
    """A large argument that was given by value. Nobody else can keep it, so its call does while it may be repeated."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[Ref], tuple[ObjectHandle]]:
        return StoredArgument, (self._object,)


#: The pickle, the references taken out of it, and the handles of the references inside.
Packed = tuple[bytes, tuple[Reference, ...], list[Handle]]


class Packer(Protocol):
    """The part of an engine that packing needs."""

    inline_bytes: int

    def put(self, value: object) -> Ref:
        """Stores a value."""


def pack(engine: Packer, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> Packed:
    """Returns arguments as bytes, the references taken out of them, and the handles of those inside containers.

    Large arguments are stored first, so that they count against the budget, and are mapped rather than sent.

    Raises:
        OptionsError: An argument cannot be pickled; the error names it.
    """
    packed = _pack(name, args, kwargs)
    if len(packed[0]) <= engine.inline_bytes:
        return packed
    del packed  # it may have hundreds of megabytes

    def stored(value: object) -> object:
        if isinstance(value, Reference):
            return value
        with identity.Capturing():
            is_large = by_value.is_larger(value, engine.inline_bytes)
        if not is_large:
            return value
        ref = engine.put(value)
        return StoredArgument(ref._object)

    return _pack(
        name, tuple(stored(arg) for arg in args), {key: stored(arg) for key, arg in kwargs.items()}
    )


def _pack(name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> Packed:
    references: list[Reference] = []

    def hole(value: object) -> object:
        if not isinstance(value, Reference):
            return value
        references.append(value)
        return Hole(len(references) - 1)

    holed = tuple(hole(arg) for arg in args), {key: hole(arg) for key, arg in kwargs.items()}
    with identity.Capturing() as captured:
        try:
            data = values.dumps(holed)
        except Exception as error:
            _blame(name, holed)
            raise OptionsError(f"an argument of task {name} cannot be pickled: {error}") from error
    return data, tuple(references), captured


def unpack(data: bytes, found: Sequence[object]) -> tuple[tuple[object, ...], dict[str, object]]:
    """Returns the arguments again, with values in the holes."""
    args, kwargs = pickle.loads(data)  # noqa: S301  written by this application

    def fill(value: object) -> object:
        return found[value.index] if isinstance(value, Hole) else value

    return tuple(fill(arg) for arg in args), {key: fill(arg) for key, arg in kwargs.items()}


def _blame(name: str, holed: tuple[tuple[object, ...], dict[str, object]]) -> None:
    args, kwargs = holed
    for label, value in (*enumerate(args, start=1), *kwargs.items()):
        _pickled(value, f"argument {label} of task {name}")


def _pickled(value: object, what: str, most_bytes: int | None = None) -> bytes:
    try:
        return by_value.dumps(value, None, most_bytes)
    except (EngineError, by_value.TooLargeError):
        raise
    except Exception as error:
        raise OptionsError(
            f'{what} cannot be pickled ({error}); pass what it needs as values, or use executor="thread"'
        ) from error
