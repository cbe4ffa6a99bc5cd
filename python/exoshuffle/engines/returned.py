"""The number of slices in what a task returned, which has to be that of ``num_returns``."""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle.errors import EngineError
from exoshuffle.units import counted


def values_of(returned: object, num_slices: int) -> Sequence[object]:
    """Returns the value of each slice of a task that made no block.

    Raises:
        EngineError: The task returned another number of values.
    """
    if num_slices == 1:
        return [returned]
    if (
        not isinstance(returned, Sequence)
        or isinstance(returned, str | bytes)
        or len(returned) != num_slices
    ):
        count = len(returned) if isinstance(returned, Sequence) else 1
        raise EngineError(
            f"the task returned {counted(count, 'value')}; num_returns is {num_slices}"
        )
    return returned


def check_block(found: int, num_slices: int) -> None:
    """Raises ``EngineError`` if a task returned a block of another number of slices."""
    if found != num_slices:
        raise EngineError(
            f"the task returned a block of {counted(found, 'slice')}; num_returns is {num_slices}"
        )
