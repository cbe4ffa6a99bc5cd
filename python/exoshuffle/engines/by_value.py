"""Pickles values with the functions and classes that other processes cannot import, as cloudpickle does.

Cached functions (``functools.cache``, ``lru_cache``) are among them, without what they have cached. cloudpickle leaves
these to their names, under which no worker finds one of the program's main module.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle

#: The class of cached functions.
_Cached = type(functools.lru_cache(len))


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Pickles cached functions by value, too."""

    def reducer_override(self, obj: object) -> object:
        """See ``pickle.Pickler``."""
        if isinstance(obj, _Cached) and not _is_importable(obj):
            return _cached, (obj.__wrapped__, *obj.cache_parameters().values())
        return super().reducer_override(obj)


class TooLargeError(Exception):
    """A pickle has more bytes than were asked for."""


def dumps(
    value: object,
    keep: Callable[[pickle.PickleBuffer], Any] | None = None,
    most_bytes: int | None = None,
) -> bytes:
    """Returns the pickle of a value; ``keep`` gets the large buffers instead, if it is given.

    Raises:
        TooLargeError: It has more than ``most_bytes``; the rest was not pickled.
    """
    out = io.BytesIO() if most_bytes is None else _Bounded(most_bytes)
    Pickler(out, protocol=5, buffer_callback=keep).dump(value)
    return out.getvalue()


def size(value: object) -> int:
    """Returns the size of the pickle of a value, of which no copy is made."""
    out = _Counted()
    Pickler(out, protocol=5).dump(value)
    return out.num_bytes


def is_larger(value: object, num_bytes: int) -> bool:
    """Returns whether the pickle of a value is larger than that. Cost: it is made up to that size."""
    try:
        dumps(value, None, num_bytes)
    except TooLargeError:
        return True
    return False


class _Bounded(io.BytesIO):
    """A file in memory that takes so many bytes."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._left = most_bytes

    def write(self, data: Any) -> int:
        """Writes these bytes, if they are not too many."""
        self._left -= memoryview(data).nbytes
        if self._left < 0:
            raise TooLargeError
        return super().write(data)


class _Counted:
    """A file that only counts what is written to it."""

    def __init__(self) -> None:
        self.num_bytes = 0

    def write(self, data: Any) -> None:
        """Counts these bytes."""
        self.num_bytes += memoryview(data).nbytes


def _is_importable(cached: Any) -> bool:
    """Whether other processes find the function by its name."""
    if cached.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(cached.__module__)
    for name in cached.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is cached


def _cached(function: Callable[..., object], maxsize: int | None, typed: bool) -> object:
    return functools.lru_cache(maxsize, typed)(function)
