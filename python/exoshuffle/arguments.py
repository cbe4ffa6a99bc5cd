"""Checks what an argument may be, in one place, so that all options refuse the same things.

``True`` is a number to Python. As a number it would be a mistake, so no check here takes it for one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TypeGuard

from exoshuffle.errors import OptionsError, shown


def is_whole(value: object) -> TypeGuard[int]:
    """Returns whether a value is a whole number, of any type that says so."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Returns whether a value is a number with an order, which NaN is too."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_flag(name: str, value: object) -> None:
    """Raises ``OptionsError`` unless an argument of this name is True or False."""
    if not isinstance(value, bool):
        raise OptionsError(f"{name} is {shown(value)}; write True or False")


def check_function(name: str, value: object) -> None:
    """Raises ``OptionsError`` unless an argument of this name can be called."""
    if not callable(value):
        raise OptionsError(f"{name} is {shown(value)}; it must be a function")


def check_instance(name: str, value: object, kind: type) -> None:
    """Raises ``OptionsError`` unless an argument of this name is of a class; the class needs no arguments."""
    if not isinstance(value, kind):
        made = kind.__name__
        raise OptionsError(f"{name} is {shown(value)}; give a {made}, such as {made}()")


def repeated(names: Iterable[str]) -> list[str]:
    """Returns the names that are there more than once, each once, in their order.

    Why not ``count`` for each: for 3,000 names that takes 30 ms, and every step of a tree looks.
    """
    return [name for name, count in Counter(names).items() if count > 1]
