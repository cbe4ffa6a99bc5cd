"""How references travel between processes: as numbers, and who still holds them is counted.

Guarantee: a reference can be pickled only where an engine is writing an argument, a result or a message, because only
there somebody notes which references are inside and keeps their objects alive until they are read.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from exoshuffle.errors import EngineError
from exoshuffle.futures.refs import ObjectHandle, Ref


class Handle(ObjectHandle, Protocol):
    """A handle of this engine, in its own process or in a worker."""

    #: What it is known by in other processes; below 0 before it has travelled.
    number: int


_numbers = itertools.count()
_objects: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()


class _Writing(threading.local):
    """Of a thread: where it notes the references that it pickles, while it does."""

    captured: list[Handle] | None = None


_writing = _Writing()


class Capturing:
    """Around pickling: gives the list to which the handle of every reference that is pickled is added."""

    __slots__ = ("_outer",)

    def __enter__(self) -> list[Handle]:
        self._outer = _writing.captured
        captured: list[Handle] = []
        _writing.captured = captured
        return captured

    def __exit__(self, *_: object) -> None:
        _writing.captured = self._outer


def handle_of(ref: Ref) -> Handle:
    """What is behind a reference of this engine."""
    return ref._object  # type: ignore[return-value]


def number_of(handle: Handle) -> int:
    """The number that a handle is known by in other processes."""
    if handle.number < 0:
        handle.number = next(_numbers)
        _objects[handle.number] = handle
    return handle.number


def know(handle: Handle) -> None:
    """Makes a handle that has its number already, from another process, known in this one."""
    _objects[handle.number] = handle


def find(number: int) -> Handle:
    """The handle with this number; what a pickled handle becomes.

    Raises:
        EngineError: No object of this number lives: its last reference has gone, or the engine was closed.
    """
    handle = _objects.get(number)
    if handle is None:
        raise EngineError(
            f"object {number} is gone: keep a reference while others are on their way"
        )
    return handle


def reduce(handle: Handle) -> tuple[Callable[[int], Handle], tuple[int]]:
    """``__reduce__`` of a handle."""
    captured = _writing.captured
    if captured is None:
        raise EngineError(
            "a reference travels inside arguments, results and put() only; pickle the value that get() returns"
        )
    captured.append(handle)
    return find, (number_of(handle),)
