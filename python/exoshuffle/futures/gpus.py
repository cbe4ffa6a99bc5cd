"""The GPUs of a running task, by number: engines tell them, and functions ask for them.

A task in a worker process also has them in ``CUDA_VISIBLE_DEVICES``, so that libraries see no others.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

_of_thread = threading.local()
_of_process: list[int] = []


def get_gpu_ids() -> list[int]:
    """Returns the numbers of the GPUs that the running task or actor occupies, from 0; none outside of these.

    A task with ``num_gpus=2`` has two that no other task has meanwhile; one with 0.5 may share its GPU. Numbers count
    the GPUs that were declared in ``init``. Where ``CUDA_VISIBLE_DEVICES`` limits the program, number 0 is the first
    device that it names. On Ray these are the numbers of ``ray.get_gpu_ids``.
    """
    return list(getattr(_of_thread, "ids", _of_process))


def set_process_gpus(ids: Sequence[int]) -> None:
    """Tells the GPUs of what runs in this process from now on; worker processes call it."""
    _of_process[:] = ids


class GpusOfThread:
    """A context for a task on a thread of the engine's process: the GPUs that it occupies."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = ids

    def __enter__(self) -> None:
        _of_thread.ids = self._ids

    def __exit__(self, *error: object) -> None:
        del _of_thread.ids
