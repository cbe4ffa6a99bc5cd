"""Merges groups of map outputs: admitted by memory, with best effort, replaced by their inputs.

Source: Riffle §4.1 to §4.3 ("Riffle: Optimized Shuffle Service for Large-Scale Data Analytics").

Guarantee: ``Merges.sources`` names every map output once, either itself or within one merge, in the order of the maps.
That holds even if merges fail or come late. The reason is the structure, not bookkeeping: groups divide the maps, and a
group is read as its merge or as its inputs. That is decided once, for all reduces.
"""

from __future__ import annotations

import collections
import logging
from collections.abc import Callable, Iterable

from exoshuffle.errors import TaskError
from exoshuffle.futures import Ref, cancel, wait
from exoshuffle.strategies.mechanisms.best_effort import BestEffort
from exoshuffle.strategies.mechanisms.groups import Group, Source
from exoshuffle.strategies.mechanisms.races import failure

_logger = logging.getLogger("exoshuffle")


class Merges:
    """The merges of a shuffle.

    Args:
        submit: Submits the merge of a group.
        memory_bytes: Memory for the merges that run at once on a node; other merges wait for it.
    """

    def __init__(self, submit: Callable[[Group], Ref], memory_bytes: int) -> None:
        self._submit = submit
        self._memory_bytes = memory_bytes
        self._groups: list[Group] = []
        self._queued: list[Group] = []
        self._running: list[Group] = []
        self._used_bytes: collections.Counter[str] = collections.Counter()
        self._num_merges = 0

    def add(self, group: Group) -> None:
        """Merges a group, now or when there is memory; one of a single output, or with no room ever, stays as it is."""
        self._groups.append(group)
        if len(group.outputs) > 1 and group.memory_bytes <= self._memory_bytes:
            self._num_merges += 1
            self._queued.append(group)
            self._admit()

    def poll(self) -> list[Ref]:
        """Notes the merges that have ended, which makes room for others; does not wait.

        Returns:
            The merges that run now.
        """
        ended = {id(ref) for ref in wait(self._refs(), num_ready=0, timeout=0)[0]}
        for group in [group for group in self._running if id(group.merged) in ended]:
            self._running.remove(group)
            self._used_bytes[group.node] -= group.memory_bytes
        self._admit()
        return self._refs()

    def finish(self, effort: BestEffort, clock: Callable[[], float]) -> None:
        """Waits until as many merges have ended as ``effort`` asks for, and cancels the rest; some may not run yet.

        Warns, once, of merges that have failed: nobody misses their results, so nothing else would tell.
        """
        timeout = effort.timeout_seconds
        deadline = None if timeout is None else clock() + timeout
        enough = effort.enough(self._num_merges)
        running = self.poll()
        while self._num_merges - len(running) - len(self._queued) < enough:
            left = None if deadline is None else deadline - clock()
            if left is not None and left <= 0:
                break
            wait(running, num_ready=1, timeout=left)
            running = self.poll()
        for ref in running:
            cancel(ref)
        self._warn(group.merged for group in self._groups if group.merged is not None)

    def sources(self, partitions: range | None) -> list[Source]:
        """Returns the blocks that the reduces of a piece read, or all reduces, in the order of the maps."""
        mine = [group for group in self._groups if group.partitions == partitions]
        in_order = sorted(mine, key=lambda group: group.outputs[0].index)
        return [source for group in in_order for source in group.sources()]

    def _warn(self, merged: Iterable[Ref]) -> None:
        # Merges that were cancelled have no TaskError.
        errors = [error for error in map(failure, merged) if isinstance(error, TaskError)]
        if errors:
            _logger.warning(
                "%d of %d merges failed, and their inputs are read instead, in more requests; the first: %s",
                len(errors),
                self._num_merges,
                errors[0],
                exc_info=errors[0],
            )

    def _refs(self) -> list[Ref]:
        return [group.merged for group in self._running if group.merged is not None]

    def _admit(self) -> None:
        waiting = []
        for group in self._queued:
            if self._used_bytes[group.node] + group.memory_bytes > self._memory_bytes:
                waiting.append(group)
                continue
            self._used_bytes[group.node] += group.memory_bytes
            group.merged = self._submit(group)
            self._running.append(group)
        self._queued = waiting
