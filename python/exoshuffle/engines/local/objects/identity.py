"""Carries references between processes as numbers, and notes them, so that their holders can be counted.

Guarantee: a reference can be pickled only where an engine writes an argument, a result or a message. Only there the
engine notes which references are inside, and keeps their objects alive until they are read.
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

    #: Other processes know the handle by this number; it is below 0 before the handle has travelled.
    number: int


_numbers = itertools.count()
_objects: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()


class _Writing(threading.local):
    """The list in which a thread notes the references that it pickles, while it pickles."""

    captured: list[Handle] | None = None


_writing = _Writing()


class Capturing:
    """A context around pickling: gives a list, and adds the handle of every pickled reference to it."""

    __slots__ = ("_outer",)

    def __enter__(self) -> list[Handle]:
        self._outer = _writing.captured
        captured: list[Handle] = []
        _writing.captured = captured
        return captured

    def __exit__(self, *_: object) -> None:
        _writing.captured = self._outer


def handle_of(ref: Ref) -> Handle:
    """Returns the handle behind a reference of this engine."""
    return ref._object  # type: ignore[return-value]


def number_of(handle: Handle) -> int:
    """Returns the number by which other processes know a handle."""
    if handle.number < 0:
        handle.number = next(_numbers)
        _objects[handle.number] = handle
    return handle.number


def know(handle: Handle) -> None:
    """Registers a handle whose number comes from another process."""
    _objects[handle.number] = handle


def find(number: int) -> Handle:
    """Returns the handle with this number; a pickled handle is loaded by this function.

    Raises:
        EngineError: No object with this number lives: its last reference has gone, or the engine was closed.
    """
    handle = _objects.get(number)
    if handle is None:
        raise EngineError(
            f"object {number} is gone: keep a reference while others are on their way"
        )
    return handle


def reduce(handle: Handle) -> tuple[Callable[[int], Handle], tuple[int]]:
    """Implements ``__reduce__`` of a handle."""
    captured = _writing.captured
    if captured is None:
        raise EngineError(
            "a reference travels inside arguments, results and put() only; pickle the value that get() returns"
        )
    captured.append(handle)
    return find, (number_of(handle),)
