"""Hands out the reduces of several nodes in the order of the partitions, while all of these nodes have some to run.

The partitions of a node are neighbours. If reduces were submitted in that order, one node would work while the others
wait. So each time the caller asks for the next result, the next reduce of every node is submitted.

Guarantee: no more than ``max_ahead`` reduces are submitted and not done, whatever the caller asks for. When the caller
gives up, those that it has not seen are cancelled.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence

from exoshuffle.errors import ExoshuffleError
from exoshuffle.futures import Ref, cancel, raise_errors, wait

#: Most reduces that are submitted and not done. A waiting task costs its engine memory for every argument (0.4 KB on
#: Ray, so 200 MB for 2,000 tasks that take 250 blocks each). This many keep the CPUs busy.
MIN_AHEAD = 64
AHEAD_PER_CPU = 4


def max_ahead(num_cpus: int) -> int:
    """Returns the most reduces that may be submitted and not done."""
    return max(MIN_AHEAD, AHEAD_PER_CPU * num_cpus)


def dealt(runs: Sequence[Iterator[Ref]], limit: int | None) -> Iterator[Ref]:
    """Yields the items of all runs, run by run; asking for one submits the next of this run and of those behind it.

    Args:
        runs: The reduces of each node, which are submitted when they are asked for.
        limit: The most items that may not be done; None if the caller sees to that.

    Raises:
        TaskError: A reduce has failed, while others were waited for.
    """
    taken: list[deque[Ref]] = [deque() for _ in runs]
    pending: list[Ref] = []
    try:
        for number in range(len(runs)):
            while True:
                if not taken[number]:
                    if limit is not None:
                        pending = _with_room(pending, limit, len(runs) - number)
                    found = _next_of_each(runs[number:], taken[number:])
                    if limit is not None:
                        pending += found
                if not taken[number]:
                    break
                yield taken[number].popleft()
    except BaseException:
        give_up([ref for queue in taken for ref in queue])
        raise


def give_up(refs: Sequence[Ref]) -> None:
    """Cancels tasks, the last one first, and waits until none runs."""
    with contextlib.suppress(ExoshuffleError):
        for ref in reversed(refs):
            cancel(ref)
        wait(refs, num_ready=len(refs))


def _next_of_each(runs: Sequence[Iterator[Ref]], taken: Sequence[deque[Ref]]) -> list[Ref]:
    """Takes an item of each run; returns them."""
    found: list[Ref] = []
    for run, queue in zip(runs, taken, strict=True):
        for ref in run:
            queue.append(ref)
            found.append(ref)
            break
    return found


def _with_room(pending: list[Ref], limit: int, more: int) -> list[Ref]:
    """Waits until so many more have room; returns those that are not done.

    Raises:
        TaskError: One of them has failed.
    """
    while len(pending) + more > limit and pending:
        done, pending = wait(pending, num_ready=max(1, len(pending) // 2))
        raise_errors(done)
    return pending
