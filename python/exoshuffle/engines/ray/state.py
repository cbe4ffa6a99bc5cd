"""Asks Ray about an object: whether it is made, where it lies, how large its slices are.

Guarantee: no value is brought to the program. One exception: objects that no task has made, whose values alone tell
their sizes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import ray

from exoshuffle.engines.ray.failures import cancelled, fetch
from exoshuffle.engines.ray.objects import RayObject
from exoshuffle.engines.ray.values import STORED_BYTES


def is_made(status: ray.ObjectRef) -> bool:
    """Whether the task with this status has ended."""
    done, _ = ray.wait([status], timeout=0, fetch_local=False)
    return bool(done)


def await_made(
    statuses: Sequence[ray.ObjectRef | None], num_ready: int, timeout: float | None
) -> list[bool]:
    """Waits until so many objects are made, or the time is over; returns for each whether it is made.

    Args:
        statuses: The statuses of the tasks that make the objects; None for an object that is there already.
        num_ready: How many objects to wait for.
        timeout: In seconds; default: as long as it takes.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    pending = {status for status in statuses if status is not None}
    # First all statuses that are there are found at once; then each wait is for as many as may be enough.
    number = len(pending)
    left: float | None = 0
    all_differ = number == sum(status is not None for status in statuses)
    while pending:
        done, _ = ray.wait(list(pending), num_returns=number, timeout=left, fetch_local=False)
        pending.difference_update(done)
        missing = num_ready - sum(status not in pending for status in statuses)
        now = time.monotonic()
        if missing <= 0 or (deadline is not None and now >= deadline):
            break
        # One object may stand for several of the references.
        number = missing if all_differ else 1
        left = None if deadline is None else deadline - now
    return [status not in pending for status in statuses]


def places(found: RayObject) -> list[str]:
    """Returns the nodes that have the object; none while it does not exist."""
    if found.status is not None and not is_made(found.status):
        return []
    told = ray.experimental.get_object_locations(list(found.parts))
    names = {name for place in told.values() for name in place["node_ids"]}
    if names:
        return sorted(names)
    # Ray learns where a result is a moment after the task has ended.
    is_stored = any((place["object_size"] or 0) >= STORED_BYTES for place in told.values())
    if is_stored and found.status is not None:
        return [ray.get(found.status).node]
    # Small objects are with the program that asked for them.
    return [ray.get_runtime_context().get_node_id()]


def slice_bytes(found: RayObject) -> list[int]:
    """Waits for the object, and returns the bytes of each slice.

    Raises:
        TaskError: The task has failed.
        TaskCancelledError: The task was cancelled.
    """
    if found.cancelled:
        raise cancelled(found.origin)
    if found.status is None:
        return [
            size for part in fetch(list(found.parts), found.origin) for size in part.slice_bytes
        ]
    (status,) = fetch([found.status], found.origin)
    sizes: list[int] = status.slice_bytes()
    return sizes
