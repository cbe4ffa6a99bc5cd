"""The error for a value that a task returned, or that was put, and that cannot be pickled."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import TypeVar

from exoshuffle.errors import EngineError

_Pickle = TypeVar("_Pickle")


def pickled(dumps: Callable[[object], _Pickle], value: object) -> _Pickle:
    """Returns the pickle of a value.

    Raises:
        EngineError: The value cannot be pickled; the error says what to return instead.
    """
    try:
        return dumps(value)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise EngineError(_message(value, error)) from error


def _message(value: object, error: Exception) -> str:
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that nobody has awaited it
        return (
            "the function returned a coroutine, which nobody awaits; return asyncio.run(...) of it"
        )
    if inspect.isgenerator(value):
        return (
            'the function returned a generator; return a list, or declare num_returns="streaming"'
        )
    name = type(value).__qualname__
    return f"a value of type {name} cannot be pickled ({error}); return, or put, what it is made of"
