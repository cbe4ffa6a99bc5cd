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


def dumps(value: object, keep: Callable[[pickle.PickleBuffer], Any] | None = None) -> bytes:
    """Returns the pickle of a value; ``keep`` gets the large buffers instead, if it is given."""
    out = io.BytesIO()
    Pickler(out, protocol=5, buffer_callback=keep).dump(value)
    return out.getvalue()


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
