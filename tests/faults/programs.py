"""Tasks and actors of the fault tests. Workers import this module: it must not import pytest."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import exoshuffle as xs
from exoshuffle.futures import ActorHandle
from exoshuffle.testing.meeting import Gate, Log, helper, pass_gate, poll
from exoshuffle.testing.programs import LabelTasks

# --- values ------------------------------------------------------------------------------------


class Wrapped:
    """Bytes that are pickled out of band, so that readers see the engine's memory."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: int) -> Any:
        return Wrapped, (pickle.PickleBuffer(self.data),)


def payload(seed: int, size: int) -> bytes:
    """Returns bytes that tell which seed they come from."""
    return seed.to_bytes(8, "little") * (size // 8)


def make(seed: int, size: int, kind: str) -> Any:
    """Returns the payload, kept in one of three ways; a raw block only inside a task."""
    data = payload(seed, size)
    if kind != "raw":
        return Wrapped(data) if kind == "wrapped" else data
    block = xs.allocate_block([0, len(data)])
    with memoryview(block) as view:
        view[:] = data
    return block


def make_many(seed: int, size: int, kind: str, count: int) -> Any:
    """Returns the payloads of ``count`` seeds in a row, a slice each."""
    parts = [payload(seed + index, size) for index in range(count)]
    if kind != "raw":
        return [Wrapped(part) for part in parts] if kind == "wrapped" else parts
    size = len(parts[0])
    block = xs.allocate_block(range(0, size * count + 1, size))
    with memoryview(block) as view:
        view[:] = b"".join(parts)
    return block


def digest(*values: Any, **named: Any) -> int:
    """Returns a number for values of all kinds; for references, that of the value."""
    total = 0
    for value in (*values, *named.values()):
        total = zlib.crc32(_bytes_of(value), total)
    return total


def _bytes_of(value: Any) -> Any:
    if isinstance(value, xs.Ref | xs.futures.SliceRef):
        value = xs.get(value)
    if isinstance(value, Wrapped):
        return value.data
    if isinstance(value, list | dict):
        parts = value if isinstance(value, list) else value.values()
        return digest(*parts).to_bytes(8, "little")
    return value.to_bytes(8, "little") if isinstance(value, int) else value


# --- tasks -------------------------------------------------------------------------------------


def relay(inside: dict[str, list[Any]], seed: int, size: int) -> list[Any]:
    """Returns the references that it got, in reverse, and two of its own."""
    made = xs.remote(make, max_retries=100).remote(seed, size, "bytes")
    return [*reversed(inside["refs"]), xs.put(make(seed + 1, size, "wrapped")), made]


def hand_over(keeper: ActorHandle, inside: list[Any], seed: int, size: int) -> None:
    """Stores a reference that it got, and one of its own, with an actor."""
    xs.get(keeper.keep.remote([*inside, xs.put(payload(seed, size))]))


class FuzzedError(Exception):
    """The error that ``fail_at_first`` raises."""

    retryable = True


def fail_at_first(attempts: ActorHandle, failures: int, dies: bool, seed: int, size: int) -> Any:
    """Fills a block, then fails in the first attempts: by an error, or with its process."""
    block = make(seed, size, "raw")
    if int(xs.get(attempts.add.remote())) <= failures:
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        raise FuzzedError
    return block


def produce(seed: int, size: int, count: int) -> Iterator[bytes]:
    """Yields payloads of seeds in a row."""
    for index in range(count):
        yield payload(seed + index, size)


def take_some(seed: int, size: int, count: int) -> list[Any]:
    """Returns references to the first half of another generator's items."""
    run = xs.remote(produce, num_returns="streaming", max_retries=100)
    stream = run.remote(seed, size, count)
    return [next(stream) for _ in range(count // 2)]


# --- an actor ----------------------------------------------------------------------------------


class Keeper:
    """Keeps references."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def keep(self, refs: list[Any]) -> None:
        """Keeps some more."""
        self._kept += refs

    def give(self) -> list[Any]:
        """Returns all that it keeps."""
        return self._kept

    def forget(self, index: int) -> None:
        """Drops one."""
        del self._kept[index]

    def digest(self) -> int:
        """Returns the number of the values that it keeps."""
        return digest(*self._kept)

    def make(self, seed: int, size: int, kind: str) -> Any:
        """Does the same as the task."""
        return make(seed, size, kind)

    def produce(self, seed: int, size: int, count: int) -> Iterator[bytes]:
        """Does the same as the task."""
        return produce(seed, size, count)

    def process(self) -> int:
        """Returns its process; when this is known, all earlier calls are done."""
        return os.getpid()


# --- where a task is killed ----------------------------------------------------------------------


class Spot:
    """A place inside a task: it tells its process there, and waits for the test."""

    def __init__(self) -> None:
        self._pids = helper(Log)
        self.gate = Gate()

    def stop_here(self) -> None:
        """Stops a task here until the test says that it goes on."""
        self.tell_process()
        self.gate.await_opening()

    def tell_process(self) -> None:
        """Tells the process of a task."""
        xs.get(self._pids.append.remote(os.getpid()))

    def process(self) -> int:
        """Returns the process of the first task that came."""
        poll(lambda: bool(xs.get(self._pids.items.remote())))
        return int(xs.get(self._pids.items.remote())[0])

    def kill(self) -> None:
        """Kills the first task that came."""
        os.kill(self.process(), signal.SIGKILL)

    def open(self) -> None:
        """Lets waiting tasks, and those that come later, go on."""
        self.gate.open()


def stop_running(spot: Spot, inside: list[Any]) -> bytes:
    """Stops while it holds nothing."""
    spot.stop_here()
    return bytes(xs.get(inside[0]).data)


def stop_reading(spot: Spot, inside: list[Any]) -> bytes:
    """Stops with the engine's memory mapped."""
    with memoryview(xs.get(inside[0]).data) as view:
        spot.stop_here()
        return bytes(view)


def stop_in_get(spot: Spot, inside: list[Any]) -> bytes:
    """Stops in a call of the engine."""
    late = xs.remote(pass_gate, executor="thread").remote(spot.gate, inside)
    spot.tell_process()
    return bytes(xs.get(xs.get(late)[0]).data)


def stop_filling(spot: Spot, inside: list[Any]) -> Any:
    """Stops with a block half full."""
    data = xs.get(inside[0]).data
    block = xs.allocate_block([0, len(data)])
    with memoryview(block) as view:
        view[: len(data) // 2] = data[: len(data) // 2]
        spot.stop_here()
        view[len(data) // 2 :] = data[len(data) // 2 :]
    return block


def stop_yielding(spot: Spot, count: int) -> Iterator[bytes]:
    """Stops in the middle of its items."""
    for seed in range(count):
        if seed == count // 2:
            spot.stop_here()
        yield payload(seed, 300_000)


# --- what tasks should not do --------------------------------------------------------------------


def close_everything() -> None:
    """Closes the descriptors through which the worker and the engine talk."""
    os.closerange(3, 100)


def fork_and_use_the_engine() -> str:
    """Returns the error of a forked child that uses the engine."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            xs.put(1)
        except Exception as error:  # noqa: BLE001  the test says which one it is
            os.write(writing, type(error).__name__.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        name = pipe.read().decode()
    os.wait()
    return name


def fork_and_return() -> int:
    """Forks; the child returns from the task as well."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return 5


def leave_a_child_and_die(how: str, pids: ActorHandle) -> None:
    """Leaves a child that lives on, with everything that it has inherited."""
    if how == "fork":
        child = os.fork()
        if child == 0:
            signal.pause()
    else:
        command = [sys.executable, "-c", "import signal; signal.pause()"]
        child = subprocess.Popen(command, close_fds=False).pid
    xs.get(pids.append.remote(child))
    os.kill(os.getpid(), signal.SIGKILL)


def write_to(data: Wrapped) -> str:
    """Writes to an argument, through Python, and returns the outcome."""
    with memoryview(data.data) as view:
        try:
            view[0] = 1
        except TypeError as error:
            return str(error)
    return "written"


def write_behind_pythons_back(data: Wrapped) -> None:
    """Writes to an argument through its address."""
    import ctypes

    import pyarrow as pa

    ctypes.memset(pa.py_buffer(data.data).address, 1, 1)


class Reader:
    """An actor that keeps the data that it has read."""

    def __init__(self) -> None:
        self._data: Any = None

    def read(self, data: Wrapped) -> int:
        """Keeps the data; reads every byte."""
        self._data = data
        return zlib.crc32(data.data)

    def process(self) -> int:
        """Returns its process."""
        return os.getpid()


class Deaths:
    """An actor that knows which tasks have died already."""

    def __init__(self) -> None:
        self._dead: set[str] = set()

    def claim(self, key: str) -> bool:
        """Returns whether it is the first time."""
        first = key not in self._dead
        self._dead.add(key)
        return first

    def count(self) -> int:
        """Returns how many there were."""
        return len(self._dead)


class MortalTasks(LabelTasks):
    """Kills the worker of every third task once: some tasks before they do their work, some after."""

    def __init__(self, num_partitions: int) -> None:
        super().__init__(num_partitions)
        self.deaths = helper(Deaths)

    def map(self, index: int, split: list[int]) -> list[Any]:
        """Does the same as ``LabelTasks``, the second time at the latest."""
        return self._die_once(f"map {index}", super().map, index, split)

    def merge(self, *blocks: list[Any]) -> list[Any]:
        """Does the same as ``LabelTasks``, the second time at the latest."""
        return self._die_once(f"merge {blocks[0][0]}", super().merge, *blocks)

    def reduce(self, partition: int, slices: list[list[Any]]) -> tuple[int, list[Any]]:
        """Does the same as ``LabelTasks``, the second time at the latest."""
        done: tuple[int, list[Any]] = self._die_once(
            f"reduce {partition}", super().reduce, partition, slices
        )
        return done

    def _die_once(self, key: str, work: Callable[..., Any], *args: Any) -> Any:
        lot = zlib.crc32(key.encode()) % 6
        done = work(*args) if lot == 0 else None
        if lot < 2 and xs.get(self.deaths.claim.remote(key)):
            os.kill(os.getpid(), signal.SIGKILL)
        return work(*args) if done is None else done
