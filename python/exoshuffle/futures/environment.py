"""Options of ``init`` from environment variables, for programs whose code does not name them.

An option that the program gives counts, and the variable does not. An empty variable counts as none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from exoshuffle.errors import OptionsError, nearest_names, shown
from exoshuffle.units import parse_bytes


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionsError(f"{shown(text)} is no whole number") from None


def _size(text: str) -> str:
    parse_bytes(text)
    return text


def _paths(text: str) -> list[str]:
    return [os.path.expanduser(path) for path in text.split(os.pathsep) if path]


#: The options that variables may give, and how to read them. A variable is named EXOSHUFFLE_ and the option.
_READ: dict[str, Callable[[str], object]] = {
    "memory_limit": _size,
    "spill_dirs": _paths,
    "num_cpus": _number,
}


#: Beginning of the names of all variables.
_PREFIX = "EXOSHUFFLE_"
#: The variable that says whether progress is shown, which is no option of ``init``.
_PROGRESS = "progress"


def variable_of(option: str) -> str:
    """Returns the name of the environment variable that gives an option."""
    return f"{_PREFIX}{option.upper()}"


def from_environment(options: Mapping[str, object]) -> dict[str, Any]:
    """Returns values for options that the program has not given, from those variables that are set.

    Raises:
        OptionsError: A variable has a value that the option cannot have, or a name of none; the message names it.
    """
    _check_names()
    found: dict[str, object] = {}
    for option, read in _READ.items():
        text = os.environ.get(variable_of(option), "")
        if text and options.get(option) is None:
            try:
                found[option] = read(text)
            except OptionsError as error:
                raise OptionsError(
                    f"environment variable {variable_of(option)}: {error}; correct it, or unset it"
                ) from None
    return found


def _check_names() -> None:
    """Raises ``OptionsError`` for a variable that begins as ours do and gives no option: it would do nothing."""
    known = [variable_of(option) for option in (*_READ, _PROGRESS)]
    for name in sorted(os.environ):
        if name.startswith(_PREFIX) and name not in known:
            raise OptionsError(
                f"environment variable {name} gives no option; the nearest is {nearest_names(name, known)[0]}, so "
                "rename it, or unset it"
            )


def progress_asked() -> bool | None:
    """Returns whether ``EXOSHUFFLE_PROGRESS`` asks for progress (``1``) or for none (``0``); None if it is not set.

    Raises:
        OptionsError: The variable is neither ``0`` nor ``1``.
    """
    variable = variable_of(_PROGRESS)
    text = os.environ.get(variable, "")
    if text not in ("", "0", "1"):
        raise OptionsError(
            f"environment variable {variable} is {text!r}; set it to 0 or 1, or unset it"
        )
    return text == "1" if text else None


def named(error: OptionsError, found: Mapping[str, object]) -> OptionsError:
    """Returns the error of an engine that did not start, with the variables that gave it options."""
    if not found:
        return error
    given = ", ".join(
        f"{option} by the environment variable {variable_of(option)}" for option in found
    )
    return type(error)(f"{error}; given {given}")
