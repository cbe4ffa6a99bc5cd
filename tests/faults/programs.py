"""What the fault tests run as tasks and actors. Workers import this module: it must not import pytest."""

from __future__ import annotations

import os
import pickle
import signal
import zlib
from collections.abc import Iterator
from typing import Any

import exoshuffle as xs
from exoshuffle.futures import ActorHandle

# --- values ------------------------------------------------------------------------------------


class Wrapped:
    """Bytes that are pickled out of band, so that readers see the engine's memory."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: int) -> Any:
        return Wrapped, (pickle.PickleBuffer(self.data),)


def payload(seed: int, size: int) -> bytes:
    """Bytes that tell which seed they are of."""
    return seed.to_bytes(8, "little") * (size // 8)


def make(seed: int, size: int, kind: str) -> Any:
    """The payload, kept in one of three ways; a raw block only inside a task."""
    data = payload(seed, size)
    if kind != "raw":
        return Wrapped(data) if kind == "wrapped" else data
    block = xs.allocate_block([0, len(data)])
    with memoryview(block) as view:
        view[:] = data
    return block


def make_many(seed: int, size: int, kind: str, count: int) -> Any:
    """The payloads of ``count`` seeds in a row, a slice each."""
    parts = [payload(seed + index, size) for index in range(count)]
    if kind != "raw":
        return [Wrapped(part) for part in parts] if kind == "wrapped" else parts
    size = len(parts[0])
    block = xs.allocate_block(range(0, size * count + 1, size))
    with memoryview(block) as view:
        view[:] = b"".join(parts)
    return block


def digest(*values: Any, **named: Any) -> int:
    """A number for values of all kinds; for references, that of the value."""
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
    """The references that it got, in reverse, and two of its own."""
    made = xs.remote(make, max_retries=100).remote(seed, size, "bytes")
    return [*reversed(inside["refs"]), xs.put(make(seed + 1, size, "wrapped")), made]


def hand_over(keeper: ActorHandle, inside: list[Any], seed: int, size: int) -> None:
    """Stores a reference that it got, and one of its own, with an actor."""
    xs.get(keeper.keep.remote([*inside, xs.put(payload(seed, size))]))


class FuzzedError(Exception):
    """What ``fail_at_first`` raises."""

    retryable = True


def fail_at_first(
    attempts: ActorHandle, failures: int, dies: bool, seed: int, size: int
) -> Any:
    """Fills a block, then fails in the first attempts: by an error, or with its process."""
    block = make(seed, size, "raw")
    if int(xs.get(attempts.add.remote())) <= failures:
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        raise FuzzedError
    return block


def produce(seed: int, size: int, count: int) -> Iterator[bytes]:
    """Payloads of seeds in a row."""
    for index in range(count):
        yield payload(seed + index, size)


# --- an actor ----------------------------------------------------------------------------------


class Keeper:
    """Keeps references."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def keep(self, refs: list[Any]) -> None:
        """Keeps some more."""
        self._kept += refs

    def give(self) -> list[Any]:
        """All that it keeps."""
        return self._kept

    def forget(self, index: int) -> None:
        """Drops one."""
        del self._kept[index]

    def digest(self) -> int:
        """The number of what it keeps."""
        return digest(*self._kept)

    def make(self, seed: int, size: int, kind: str) -> Any:
        """As the task."""
        return make(seed, size, kind)

    def produce(self, seed: int, size: int, count: int) -> Iterator[bytes]:
        """As the task."""
        return produce(seed, size, count)

    def process(self) -> int:
        """Where it lives; when this is known, all earlier calls are done."""
        return os.getpid()
