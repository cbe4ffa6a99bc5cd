"""``ScriptedEngine``: an engine whose tasks fail by script, for tests of programs on it.

A script gives the outcome of an attempt. It tells the task's name, the number of its submission under that name (from
0) and the number of the attempt (from 1)::

    with failing({("map", 0, 1): "raise", ("merge", 2, 1): "die", ("merge", 2, 2): "die"}) as engine:
        ...
    assert engine.attempts() == {("map", 0): 2, ("merge", 2): 3}

Guarantee: an attempt that the script names does all its work before it fails, which is the worst case. All others run
as without the script. A generator fails when it has yielded everything. Tasks that other tasks submit and calls of
actors are not scripted. The loss of an object after its task has succeeded cannot be scripted from outside an engine.

A function knows its attempt because it tells an actor, which counts, each time it has run.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, cast

from exoshuffle.errors import WorkerDiedError
from exoshuffle.futures import (
    ActorHandle,
    ActorOptions,
    Engine,
    Ref,
    RefStream,
    TaskOptions,
    adopt,
    current_engine,
    get,
)

#: Name of a task and number of its submission under that name, from 0.
Call = tuple[str, int]
#: ``"raise"``: raises ``ScriptedError``. ``"die"``: the worker is killed. If the task runs in the program's own
#: process, it raises ``WorkerDiedError`` instead, as the engine would.
Outcome = Literal["raise", "die"]
Script = Mapping[tuple[str, int, int], Outcome]


class ScriptedError(Exception):
    """The error that the script asked for. Retryable."""

    retryable = True


class Attempts:
    """The actor that counts attempts."""

    def __init__(self) -> None:
        self._counts: collections.Counter[Call] = collections.Counter()

    def count(self, call: Call) -> int:
        """Counts one more attempt of a call; returns its number."""
        self._counts[call] += 1
        return self._counts[call]

    def counts(self) -> dict[Call, int]:
        """Returns all counts."""
        return dict(self._counts)


@dataclasses.dataclass(frozen=True)
class ScriptedFunction:
    """A function that does its work and then follows the script.

    Attributes:
        fn: The function.
        call: The call that it is.
        outcomes: The outcomes by attempt.
        attempts: The actor that counts them.
        program: Process that must not be killed.
        is_streaming: Whether it is a generator, whose work is done when it ends.
    """

    fn: Callable[..., object]
    call: Call
    outcomes: Mapping[int, Outcome]
    attempts: ActorHandle
    program: int
    is_streaming: bool

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Does the work, then follows the script."""
        value = self.fn(*args, **kwargs)
        if self.is_streaming:
            return self._followed(cast("Iterable[object]", value))
        self._fail()
        return value

    def _followed(self, items: Iterable[object]) -> Iterator[object]:
        yield from items
        self._fail()

    def _fail(self) -> None:
        attempt = get(self.attempts.count.remote(self.call))
        outcome = self.outcomes.get(attempt)
        if outcome is None:
            return
        message = f"call {self.call[1]} of {self.call[0]}, attempt {attempt}, failed by script"
        if outcome == "raise":
            raise ScriptedError(message)
        if os.getpid() == self.program:
            raise WorkerDiedError(message)
        os.kill(os.getpid(), signal.SIGKILL)


class ScriptedEngine:
    """Another engine, but submitted tasks fail by script. It has everything else that ``engine`` has.

    Args:
        engine: The engine that does the work.
        script: The outcomes of attempts.
    """

    def __init__(self, engine: Engine, script: Script) -> None:
        self._engine = engine
        self._script = dict(script)
        self._lock = threading.Lock()
        self._submitted: collections.Counter[str] = collections.Counter()
        counter = engine.create_actor(Attempts, (), {}, ActorOptions(executor="thread"))
        self._attempts = ActorHandle(counter, "Attempts", frozenset({"count", "counts"}))

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    def submit(
        self,
        fn: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        name = options.name or getattr(fn, "__name__", "task")
        with self._lock:
            call = (name, self._submitted[name])
            self._submitted[name] += 1
        outcomes = {key[2]: what for key, what in self._script.items() if key[:2] == call}
        if outcomes:
            program, is_streaming = os.getpid(), options.is_streaming
            fn = ScriptedFunction(fn, call, outcomes, self._attempts, program, is_streaming)
            options = dataclasses.replace(options, name=name)
        return self._engine.submit(fn, args, kwargs, options)

    def attempts(self) -> dict[Call, int]:
        """Returns the number of attempts of each call that is in the script and has run."""
        counts: dict[Call, int] = get(self._attempts.counts.remote())
        return counts


@contextlib.contextmanager
def failing(script: Script) -> Iterator[ScriptedEngine]:
    """Puts the current engine under a script for as long as the context lasts."""
    engine = current_engine()
    wrapped = ScriptedEngine(engine, script)
    adopt(cast("Engine", wrapped))
    try:
        yield wrapped
    finally:
        adopt(engine)
