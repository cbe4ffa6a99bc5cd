"""Lets conformance tests and their tasks meet without sleeping: by counters, logs and gates, all of them actors.

Workers import this module: it must not import pytest. Waits end after ``PATIENCE_SECONDS``, so that an engine that
breaks a law fails a test and does not hang it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import exoshuffle as xs
from exoshuffle.futures import ActorHandle

PATIENCE_SECONDS = 30.0


class Counter:
    """An actor that counts."""

    def __init__(self, value: int = 0) -> None:
        self._value = value

    def add(self, amount: int = 1) -> int:
        """Adds to the value and returns the new one."""
        self._value += amount
        return self._value

    def value(self) -> int:
        """Returns the value."""
        return self._value


class Log:
    """An actor that keeps what it is told, in order."""

    def __init__(self) -> None:
        self._items: list[object] = []

    def append(self, item: object) -> None:
        """Adds an item."""
        self._items.append(item)

    def items(self) -> list[object]:
        """Returns all items."""
        return self._items


class Overlap:
    """An actor that sees how many tasks are inside at once."""

    def __init__(self) -> None:
        self._inside = 0
        self._most = 0

    def enter(self) -> None:
        """Notes that a task has begun."""
        self._inside += 1
        self._most = max(self._most, self._inside)

    def leave(self) -> None:
        """Notes that a task ends."""
        self._inside -= 1

    def most(self) -> int:
        """Returns the most tasks that were inside at once."""
        return self._most


def helper(cls: type, *args: object) -> ActorHandle:
    """Makes an actor for a test; on a thread if the engine has threads, since that starts faster."""
    return xs.remote(cls, executor="thread").remote(*args)


def poll(reached: Callable[[], bool]) -> None:
    """Asks until the answer is yes.

    Raises:
        TimeoutError: It is still no.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"what was waited for has not come in {PATIENCE_SECONDS:g} seconds")
        time.sleep(0.002)


def await_count(counter: ActorHandle, number: int) -> None:
    """Waits until the counter has reached this number."""
    poll(lambda: bool(xs.get(counter.value.remote()) >= number))


class Gate:
    """Holds tasks until the test opens it, and knows how many have come."""

    def __init__(self) -> None:
        self._arrived = helper(Counter)
        self._opened = helper(Counter)

    def open(self) -> None:
        """Lets all tasks through, also those that come later."""
        xs.get(self._opened.add.remote())

    def await_arrivals(self, number: int) -> None:
        """Waits until so many tasks have come to the gate, which means that they run."""
        await_count(self._arrived, number)

    def await_opening(self) -> None:
        """Comes to the gate and waits; for tasks."""
        xs.get(self._arrived.add.remote())
        await_count(self._opened, 1)


def pass_gate(gate: Gate, value: object = None) -> object:
    """Returns the value once the gate is open."""
    gate.await_opening()
    return value


def take_turn(overlap: ActorHandle) -> None:
    """Stays inside long enough for another task to be seen: some round trips to the actor that watches."""
    xs.get(overlap.enter.remote())
    for _ in range(20):
        xs.get(overlap.most.remote())
    xs.get(overlap.leave.remote())


class Life:
    """Ends the worker in the first attempts of a task; refuses to end the program itself."""

    def __init__(self, deaths: int) -> None:
        self._deaths = deaths
        self._attempts = helper(Counter)
        self._program = os.getpid()

    def live(self) -> int:
        """Returns the number of this attempt, if the worker survives it."""
        attempt = int(xs.get(self._attempts.add.remote()))
        if attempt <= self._deaths:
            if os.getpid() == self._program:
                raise AssertionError("the task runs in the program's own process")
            os.kill(os.getpid(), signal.SIGKILL)
        return attempt

    def attempts(self) -> int:
        """Returns the number of attempts."""
        return int(xs.get(self._attempts.value.remote()))
