"""The tasks and actors of the conformance tests. Workers import this module: it must not import pytest."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator

import exoshuffle as xs
from exoshuffle.futures import ActorHandle
from exoshuffle.futures.options import Executor
from exoshuffle.testing.meeting import Gate, Life

# --- tasks ---------------------------------------------------------------------------------------------------------


def double(value: int) -> int:
    """Returns twice the value."""
    return 2 * value


@xs.remote
def decorated(value: int) -> int:
    """Is a function whose name in this module is that of the remote function."""
    return value + 1


def gathered(*values: object) -> list[object]:
    """Returns the arguments, as the task saw them."""
    return list(values)


def join(*parts: bytes | memoryview) -> bytes:
    """Returns the bytes of buffers, one after the other."""
    return b"".join(bytes(part) for part in parts)


def nest(depth: int) -> int:
    """Blocks on a task that blocks on a task, to this depth."""
    return depth and 1 + int(xs.get(xs.remote(nest).remote(depth - 1)))


def big(seed: int, size: int = 1_000_000) -> bytes:
    """Returns a value that is large enough for a place in the store."""
    return bytes([seed % 256]) * size


def names(prefix: object, count: int = 4) -> list[str]:
    """Returns ``count`` names that begin with the prefix."""
    return [f"{prefix}{i}" for i in range(count)]


def count(number: int) -> Iterator[int]:
    """Yields 0, 1, 2 and so on."""
    yield from range(number)


def positions(start: int, stop: int) -> bytes:
    """Returns bytes that are the low halves of their positions."""
    period = bytes(range(256))
    first = start % 256
    return (period * ((stop - start) // 256 + 2))[first : first + stop - start]


def fill(offsets: list[int]) -> object:
    """Returns a raw block of ``positions``."""
    block = xs.allocate_block(offsets)
    with memoryview(block) as view:
        view[:] = positions(0, offsets[-1])
    return block


# --- failures ------------------------------------------------------------------------------------------------------


class FlakyError(Exception):
    """An error that may go away when the task runs again."""

    retryable = True


class StubbornError(Exception):
    """An error that cannot be pickled."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


def fail_for_a_reason() -> None:
    """Fails."""
    raise ValueError("the reason")


def fail_stubbornly() -> None:
    """Fails with an error that cannot be pickled."""
    raise StubbornError("has a lock inside")


def fail_at_first(attempts: ActorHandle, failures: int) -> int:
    """Works from attempt ``failures + 1`` on."""
    attempt = int(xs.get(attempts.add.remote()))
    if attempt <= failures:
        raise FlakyError(f"attempt {attempt} of the test's own")
    return attempt


# --- actors --------------------------------------------------------------------------------------------------------


class Keeper:
    """An actor that keeps references."""

    def __init__(self) -> None:
        self._kept: list[xs.Ref] = []

    def keep(self, *containers: list[xs.Ref]) -> None:
        """Keeps references; they come inside lists, or they would be resolved."""
        for container in containers:
            self._kept += container

    def give(self) -> list[xs.Ref]:
        """Returns the references."""
        return self._kept

    def value(self, index: int) -> object:
        """Returns the value behind one of them."""
        return xs.get(self._kept[index])


class Fragile:
    """An actor that may fail, in its constructor or in a call."""

    def __init__(self, sound: bool = True) -> None:
        if not sound:
            raise ValueError("born broken")
        self._calls = 0

    def fail(self) -> None:
        """Fails after changing the state."""
        self._calls += 1
        raise ValueError("a bad call")

    def fail_at_first(self, failures: int) -> int:
        """Works from call number ``failures + 1`` on."""
        self._calls += 1
        if self._calls <= failures:
            raise FlakyError(f"call {self._calls}")
        return self._calls

    def calls(self) -> int:
        """Returns the number of calls."""
        return self._calls


class Servant:
    """An actor whose methods do what tasks do."""

    def __init__(self, start: int = 0) -> None:
        self._start = start

    def block(self) -> object:
        """Returns a raw block of two slices."""
        return fill([0, 2, 5])

    def names(self, prefix: str, number: int) -> list[str]:
        """Returns several values."""
        return names(prefix, number)

    def count(self, number: int) -> Iterator[int]:
        """Yields numbers from ``start`` on."""
        yield from range(self._start, self._start + number)

    def by_task(self, value: int) -> int:
        """Returns the answer of a task."""
        return int(xs.get(xs.remote(double).remote(value)))

    def by_actor(self, counter: ActorHandle) -> int:
        """Returns the answer of another actor."""
        return int(xs.get(counter.add.remote(5)))


class Mortal:
    """An actor that can end its process."""

    def __init__(self) -> None:
        self._calls = 0

    def call(self) -> int:
        """Returns the number of calls."""
        self._calls += 1
        return self._calls

    def exit(self) -> None:
        """Ends the process as a crash would: silently."""
        os._exit(7)

    def live(self, life: Life) -> int:
        """Returns the number of the attempt in which the call succeeds."""
        return life.live()

    def wait(self, gate: Gate) -> None:
        """Asks again and again until the gate opens."""
        gate.await_opening()

    def wait_for(self, arrived: ActorHandle, inside: list[xs.Ref]) -> object:
        """Asks once, and waits for the answer."""
        xs.get(arrived.add.remote())
        return xs.get(inside[0])

    def make(self, seed: int) -> bytes:
        """Returns a large result."""
        return big(seed)

    def process(self) -> int:
        """Returns the number of its process."""
        return os.getpid()


# --- a task set ----------------------------------------------------------------------------------------------------


#: Rows of a partition: the map, the partition and the row of each.
Rows = list[tuple[int, int, int]]
#: A slice for each partition; where there is one, that slice.
Block = list[Rows] | Rows


class LabelTasks:
    """A task set whose rows say which map made them, for which partition."""

    executor: Executor = "process"

    def __init__(self, num_partitions: int) -> None:
        self._num_partitions = num_partitions

    def map(self, index: int, split: list[int]) -> Block:
        """Sends every row to every partition."""
        partitions = range(self._num_partitions)
        return _block([[(index, partition, row) for row in split] for partition in partitions])

    def merge(self, *blocks: Block) -> Block:
        """Merges slice by slice, in the order given."""
        columns = zip(*map(_slices, blocks), strict=True)
        return _block([[*itertools.chain(*slices)] for slices in columns])

    def reduce(self, partition: int, slices: list[Rows]) -> tuple[int, Rows]:
        """Returns the partition and its rows, in the order in which they came."""
        return partition, [*itertools.chain(*slices)]

    def fold(
        self, partition: int, state: tuple[int, Rows] | None, slices: list[Rows]
    ) -> tuple[int, Rows]:
        """Does what ``reduce`` does, in rounds."""
        before = [] if state is None else state[1]
        return partition, [*before, *itertools.chain(*slices)]


def _block(slices: list[Rows]) -> Block:
    """Returns the result of a task: the value of an object of one slice is that slice, not a list of one."""
    return slices if len(slices) > 1 else slices[0]


def _slices(block: Block) -> list[Rows]:
    """Returns the slices that a task got; rows are tuples."""
    return block if isinstance(block[0], list) else [block]
