"""Copies of slow reduces: hands out results in the order of the partitions, each when its first copy has succeeded.

Source: Exoshuffle §3.5, listing 4 (speculative execution). Without copies the reference to a result is handed out when
its reduce is submitted, and a copy would come too late for it. So here it is handed out when its object is there.

Guarantee: as in ``races``. No more reduces run than there are CPUs, and their copies. While the consumer does not
ask for the next result, no more are submitted. When it gives up, those that it has not got are cancelled. Results that
were not started here, such as those of a partition that was divided, are handed on in their place.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from exoshuffle.futures import Column, Ref, RemoteFunction
from exoshuffle.strategies.mechanisms.dealing import give_up
from exoshuffle.strategies.mechanisms.races import Races
from exoshuffle.strategies.mechanisms.speculation import Speculation

#: Submits the reduce of a partition.
Submit = Callable[[RemoteFunction, int, Column], Ref]


def submitted(run: RemoteFunction, partition: int, slices: Column) -> Ref:
    """Submits a reduce that gets no copy."""
    ref: Ref = run.remote(partition, slices)
    return ref


@dataclass(frozen=True)
class Home:
    """Where reduces run, and what submits them.

    Attributes:
        node: The node that they prefer; None if any will do.
        submit: Submits one.
    """

    node: str | None = None
    submit: Submit = submitted


ANYWHERE = Home()


class ReduceCopies:
    """The reduces of a shuffle that are running, with their copies.

    Args:
        speculation: When a reduce gets a copy.
        num_reduces: How many there will be.
    """

    def __init__(self, speculation: Speculation, num_reduces: int) -> None:
        self._races = Races(num_reduces, speculation)
        self._copies: dict[int, Callable[[str | None], Ref]] = {}
        self._num_started = 0
        #: The numbers of reduces whose results are not handed out, by their first references.
        self._numbers: dict[int, int] = {}
        self._results: dict[int, Ref] = {}

    def submit_at(self, node: str | None) -> Submit:
        """Returns what submits reduces; their slices are kept until a copy is done.

        Args:
            node: Where a copy goes if nobody knows where the reduce runs; else it goes to another one than that.
        """
        return functools.partial(self._start, node)

    def _start(self, node: str | None, run: RemoteFunction, partition: int, slices: Column) -> Ref:
        run = run.options(tells_begin=True)
        ref = submitted(run, partition, slices)
        number = self._num_started
        self._num_started += 1
        self._races.start(number, ref)
        self._numbers[id(ref)] = number

        def submit_copy(elsewhere: str | None) -> Ref:
            return submitted(run.options(node=elsewhere or node), partition, slices)

        self._copies[number] = submit_copy
        return ref

    def first_results(self, refs: Iterator[Ref]) -> Iterator[Ref]:
        """Yields the results of the reduces that ``refs`` submits, in their order.

        Raises:
            TaskError: All copies of a reduce have failed.
        """
        queue: deque[Ref] = deque()
        try:
            while self._fill(queue, refs):
                if self._is_there(queue[0]):
                    yield self._result(queue.popleft())
                else:
                    self._wait()
        except BaseException:
            others = [ref for ref in queue if id(ref) not in self._numbers]
            give_up([*self._races.refs(), *others])
            raise

    def _fill(self, queue: deque[Ref], refs: Iterator[Ref]) -> bool:
        """Submits as many reduces as may run; returns whether any result is still to be handed out.

        Reduces of several nodes are submitted together, and handed on one by one. So all that may run can be those of
        other nodes while the queue is empty: partitions were left out in silence.
        """
        while not queue or len(self._races.races) < self._races.limit:
            ref = next(refs, None)
            if ref is None:
                break
            queue.append(ref)
        return bool(queue)

    def _is_there(self, ref: Ref) -> bool:
        number = self._numbers.get(id(ref))
        return number is None or number in self._results

    def _result(self, ref: Ref) -> Ref:
        number = self._numbers.pop(id(ref), None)
        return ref if number is None else self._results.pop(number)

    def _wait(self) -> None:
        """Waits until a reduce is done, or slow; slow ones get a copy."""
        for number, ref in self._races.finished():
            del self._copies[number]  # with the slices that it holds
            self._results[number] = ref
        for number in self._races.slow():
            self._races.add_copy(number, self._copies[number](self._races.elsewhere(number)))
