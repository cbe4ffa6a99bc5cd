"""Checks that a user's function can be run as it is: that calling it does not only make a coroutine or a generator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from exoshuffle.errors import OptionsError


def name_of(function: object) -> str:
    """Returns the name that messages give the function."""
    return getattr(function, "__qualname__", None) or repr(function)


def is_generator(function: object) -> bool:
    """Returns whether a call of the function only makes a generator."""
    return _is(inspect.isgeneratorfunction, function)


def check_not_async(what: str, function: object) -> None:
    """Raises ``OptionsError`` if a call of the function only makes a coroutine or an asynchronous generator."""
    if _is(inspect.iscoroutinefunction, function) or _is(inspect.isasyncgenfunction, function):
        name = name_of(function)
        raise OptionsError(
            f"{what} got {name}, which is asynchronous, and nobody would await it; give a plain function, for example "
            f"one that calls asyncio.run({name}(...))"
        )


def check_plain(what: str, function: object, remedy: str) -> None:
    """Does what ``check_not_async`` does, and refuses generators with a remedy."""
    check_not_async(what, function)
    if is_generator(function):
        raise OptionsError(f"{what} got {name_of(function)}, which is a generator; {remedy}")


def check_arguments(what: str, function: Callable[..., object], names: Sequence[str]) -> None:
    """Raises ``OptionsError`` if a function, known to Python, cannot be called with so many values.

    Args:
        what: The argument of ours that it is, for the message.
        function: The function.
        names: The names of these values, for the message.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # of C, without a signature
    try:
        signature.bind(*names)
    except TypeError as error:
        raise OptionsError(
            f"{what} is called as {what}({', '.join(names)}), and {name_of(function)} cannot be: {error}"
        ) from None


def _is(asks: Callable[[object], bool], function: object) -> bool:
    if isinstance(function, type):
        return False
    return asks(function) or asks(getattr(function, "__call__", None))  # noqa: B004  an object that can be called
