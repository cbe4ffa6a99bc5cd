"""The GPUs that a worker process may see, in the variable that CUDA and its libraries read when they begin."""

from __future__ import annotations

import os
from collections.abc import Sequence

from exoshuffle.futures.gpus import set_process_gpus

_VARIABLE = "CUDA_VISIBLE_DEVICES"
#: The value that the program gave the process.
_given = os.environ.get(_VARIABLE)


def show_gpus(numbers: Sequence[int]) -> None:
    """Shows a task the GPUs of these numbers; all that the program sees to a task without GPUs.

    Why not none: a program that declares no GPUs may use them all the same.
    """
    set_process_gpus(numbers)
    if numbers:
        os.environ[_VARIABLE] = ",".join(map(_device, numbers))
    elif _given is None:
        os.environ.pop(_VARIABLE, None)
    else:
        os.environ[_VARIABLE] = _given


def _device(number: int) -> str:
    """Returns the name of a GPU: if the program sees only some devices, number 0 is the first of these."""
    seen = [device.strip() for device in (_given or "").split(",") if device.strip()]
    return seen[number] if number < len(seen) else str(number)
