"""Which functions of users can be run as they are: not those that only make a coroutine or a generator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from exoshuffle.errors import OptionsError


def name_of(function: Any) -> str:
    """What messages call it."""
    return getattr(function, "__qualname__", None) or repr(function)


def is_generator(function: Any) -> bool:
    """Whether calling it only makes a generator."""
    return _is(inspect.isgeneratorfunction, function)


def check_not_async(what: str, function: Any) -> None:
    """Raises ``OptionsError`` for a function that calling only makes a coroutine, or an asynchronous generator."""
    if _is(inspect.iscoroutinefunction, function) or _is(inspect.isasyncgenfunction, function):
        name = name_of(function)
        raise OptionsError(
            f"{what} got {name}, which is asynchronous, and nobody would await it; give a plain function, for example "
            f"one that calls asyncio.run({name}(...))"
        )


def check_plain(what: str, function: Any, remedy: str) -> None:
    """``check_not_async``; and generators are refused with a remedy."""
    check_not_async(what, function)
    if is_generator(function):
        raise OptionsError(f"{what} got {name_of(function)}, which is a generator; {remedy}")


def _is(asks: Callable[[Any], bool], function: Any) -> bool:
    if isinstance(function, type):
        return False
    return asks(function) or asks(getattr(function, "__call__", None))  # noqa: B004  an object that can be called
