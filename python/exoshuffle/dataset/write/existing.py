"""Decides what becomes of an output that exists: the arguments ``overwrite`` and ``mode`` of ``write_*``."""

from __future__ import annotations

from typing import Literal

from exoshuffle.errors import OptionsError, shown

#: Says what an output may replace: nothing, an unchanged output that was written here, or anything.
Overwrite = bool | Literal["anything"]
#: The values of ``mode``, as Spark names them.
MODES = ("error", "overwrite", "append", "ignore")
#: The same as ``Overwrite``; or that files are added to what is there, or that nothing is done if something is.
Existing = Overwrite | Literal["append", "ignore"]


def existing_of(overwrite: Overwrite, mode: str | None) -> Existing:
    """Returns what happens to an output that is there already.

    Raises:
        OptionsError: An argument is something else, or they contradict each other.
    """
    check_overwrite(overwrite)
    if mode is None:
        return overwrite
    if mode not in MODES:
        raise OptionsError(f"mode is {shown(mode)}; write {', '.join(map(repr, MODES))}")
    if overwrite and mode != "overwrite":
        raise OptionsError(f"overwrite is {overwrite!r} and mode is {mode!r}; give one of them")
    if mode == "append":
        return "append"
    if mode == "ignore":
        return "ignore"
    return overwrite or mode == "overwrite"


def check_overwrite(overwrite: object) -> None:
    """Raises ``OptionsError`` unless ``overwrite`` says what may be replaced."""
    if not isinstance(overwrite, bool) and overwrite != "anything":
        raise OptionsError(f"overwrite is {shown(overwrite)}; write True, False or 'anything'")
