"""The code that runs in a Ray worker: tasks and actors.

Guarantee: functions see the same engine as the program that submitted them. ``current_engine`` and ``allocate_block``
work, and values stand in the place of references among arguments.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, cast

import ray

from exoshuffle.engines.allocators import keep_some_of_heap
from exoshuffle.engines.ray import calls, deaths, modules, values
from exoshuffle.engines.ray.at_work import AtWork
from exoshuffle.engines.ray.failures import (
    AttemptError,
    RetryableAttemptError,
    attempt_error,
    fetch,
)
from exoshuffle.engines.ray.objects import Origin, Shape
from exoshuffle.engines.ray.values import Packed, Part, Status
from exoshuffle.engines.ray.voices import spoken, tell_begin
from exoshuffle.engines.unattended import unattended
from exoshuffle.errors import ActorDiedError, FunctionMemoryError, WorkerDiedError
from exoshuffle.futures.engine import Engine, set_task_engine
from exoshuffle.futures.gpus import set_process_gpus
from exoshuffle.futures.session import adopt, engine_named

if TYPE_CHECKING:
    from typing_extensions import Self

#: The most functions that a worker keeps, so that tasks of one shuffle unpickle theirs once.
_KEPT_FUNCTIONS = 32
_functions: collections.OrderedDict[bytes, Callable[..., object]] = collections.OrderedDict()


class Call(NamedTuple):
    """A call as a worker gets it, beside function and arguments.

    Attributes:
        name: The name of the task.
        digest: The digest of the function; empty if the worker must not keep it.
        method: The method of the actor; empty for a function.
        shape: The shape of the result.
        max_retries: How often to try again after an error that may go away.
        memory: The memory that the task or actor has declared.
        log_level: Records from this level on, and printed lines, go to the program; None if Ray shows them itself.
        search_path: Where the program finds modules; None if the worker looks where its cluster has them.
        tells_begin: Whether the program wants to know when it begins; see ``TaskOptions``.
    """

    name: str
    digest: bytes = b""
    method: str = ""
    shape: Shape = Shape(1)
    max_retries: int = 0
    memory: int = 0
    log_level: int | None = None
    search_path: tuple[str, ...] | None = None
    tells_begin: bool = False


def run_task(call: Call, code: Packed, arguments: Packed, *parts: Part) -> list[Part | Status]:
    """Runs a task, and returns the parts of its result and its status."""
    with _Attempt(call) as attempt:
        args, kwargs = calls.unpack(arguments, parts)
        del parts
        return attempt.encoded(_function(call, code)(*args, **kwargs))


def run_stream(
    call: Call, code: Packed, arguments: Packed, *parts: Part
) -> Iterator[Part | Status]:
    """Runs a generator task; a status follows every item, so that a reader tells errors from items without a fetch."""
    with _Attempt(call) as attempt:
        args, kwargs = calls.unpack(arguments, parts)
        del parts
        for item in _items(_function(call, code)(*args, **kwargs)):
            part, status = attempt.encoded(item)
            yield part
            yield status


class ActorHost:
    """An actor: the object and the calls of its methods.

    The constructor does not raise: its error belongs to the calls. It fetches its arguments itself, since Ray ends an
    actor without a word when an argument has failed.
    """

    def __init__(
        self,
        call: Call,
        code: Packed,
        arguments: Packed,
        parts: list[ray.ObjectRef],
        origin: Origin,
    ) -> None:
        self._error: BaseException | None = None
        self._life = _Life(call)
        try:
            with self._life:
                args, kwargs = calls.unpack(arguments, fetch(parts, origin))
                self._instance = _function(call, code)(*args, **kwargs)
        except AttemptError as error:
            self._error = error.error()

    def run(self, call: Call, arguments: Packed, *parts: Part) -> list[Part | Status]:
        """Calls a method; see ``run_task``."""
        with _CallAttempt(call, self._life) as attempt:
            args, kwargs = calls.unpack(arguments, parts)
            del parts
            result = attempt.encoded(self._method(call)(*args, **kwargs))
        self._life.served()
        return result

    def stream(self, call: Call, arguments: Packed, *parts: Part) -> Iterator[Part | Status]:
        """Calls a method that is a generator; see ``run_stream``."""
        with _CallAttempt(call, self._life) as attempt:
            args, kwargs = calls.unpack(arguments, parts)
            del parts
            for item in _items(self._method(call)(*args, **kwargs)):
                part, status = attempt.encoded(item)
                yield part
                yield status
                if _is_cancelled():
                    return
        self._life.served()

    def _method(self, call: Call) -> Callable[..., object]:
        if self._error is not None:
            raise self._error.with_traceback(None)
        method: Callable[..., object] = getattr(self._instance, call.method)
        return method


class _Attempt:
    """A context for an attempt at a task: sets the engine, and turns an exception into one that Ray can carry.

    Lines and records of the function go to the program, and reading typed input raises an error.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._started = time.monotonic()
        self._inside = contextlib.ExitStack()
        self._process = os.getpid()
        #: Notes are for what Ray tries again without end.
        self.note = self._noted() if call.max_retries else None
        self._at_work = self._work()

    def _work(self) -> AtWork:
        call = self._call
        may_repeat = call.max_retries > 0
        return AtWork(call.name, _attempt_number(), call.memory, may_repeat=may_repeat)

    def _noted(self) -> deaths.Note:
        return deaths.Note(self._call.name, self._call.max_retries, _attempt_number())

    def __enter__(self) -> Self:
        modules.look_there(self._call.search_path)
        set_task_engine(_engine(), self._at_work.note)
        set_process_gpus(ray.get_gpu_ids())
        try:
            self._at_work.begin()
            if self.note is not None:
                self.note.begin()
        except (FunctionMemoryError, WorkerDiedError) as error:
            self._at_work.end()
            if self.note is not None:
                self.note.end(is_retried=False, has_finished=False)
            raise self._given_up(error) from None
        if self._call.tells_begin:
            tell_begin()
        self._inside.enter_context(unattended())
        self._inside.enter_context(spoken(self._call.name, self._call.log_level))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del kind, traceback
        if os.getpid() != self._process:
            # A child that the function has forked has left the function. The parent alone does what follows, which
            # waits for threads of Ray that a child does not have.
            os._exit(_exit_code(error))
        self._at_work.end()
        self._inside.close()
        set_task_engine(None)
        failure = self._failure(error)
        if self.note is not None:
            self._end(self.note, failure, has_finished=error is None)
        if failure is not None:
            raise failure from None

    def _given_up(self, error: FunctionMemoryError | WorkerDiedError) -> Exception:
        """Returns the error of an attempt that may not run, after the deaths of others."""
        return attempt_error(error, self._call.name, _attempt_number() - 1, _node(), False)

    def _end(self, note: deaths.Note, failure: AttemptError | None, *, has_finished: bool) -> None:
        note.end(isinstance(failure, RetryableAttemptError), has_finished)

    def _failure(self, error: BaseException | None) -> AttemptError | None:
        """Returns the error to raise to Ray; None for Ray's own exceptions, which tell a worker to stop."""
        is_own = isinstance(error, KeyboardInterrupt) and not _may_be_cancelled()
        if error is None or not (is_own or isinstance(error, Exception | SystemExit)):
            return None
        modules.say_how_to_send(error)
        num_attempts = _attempt_number()
        num_deaths = 0 if self.note is None else self.note.num_forgiven
        is_left = num_attempts - num_deaths <= self._call.max_retries
        retryable = getattr(error, "retryable", False) and is_left
        return attempt_error(error, self._call.name, num_attempts, _node(), retryable)

    def encoded(self, value: object) -> list[Part | Status]:
        """Returns the parts and the status of a result.

        Ray makes them known in this order: once the status is there, the parts are too.
        """
        parts = values.encode(value, self._call.shape)
        seconds = time.monotonic() - self._started
        status = Status(_attempt_number(), seconds, _node(), values.packed_sizes(parts))
        return [*parts, status]


class _CallAttempt(_Attempt):
    """An attempt at a call of an actor."""

    def __init__(self, call: Call, life: _Life) -> None:
        self._life = life
        super().__init__(call)

    def _work(self) -> AtWork:
        # An actor has itself kept what is left in its process, so no call of it is innocent.
        call, memory = self._call, self._life.memory + self._call.memory
        return AtWork(call.name, _attempt_number(), memory, may_repeat=False)

    def _noted(self) -> deaths.Note:
        call = self._call
        return deaths.CallNote(self._life.note, call.name, call.max_retries, _attempt_number())

    def _given_up(self, error: FunctionMemoryError | WorkerDiedError) -> Exception:
        """Returns the error of a call whose actor died under it as often as allowed, or was stopped for it."""
        if isinstance(error, FunctionMemoryError):
            return super()._given_up(error)
        died = ActorDiedError(
            f"{self._call.name}: its actor died under it and was made anew: {error}"
        )
        return attempt_error(died, self._call.name, _attempt_number() - 1, _node(), False)


class _Life(_Attempt):
    """The attempt at the constructor of an actor, whose note goes on with the process; see ``deaths``."""

    @property
    def memory(self) -> int:
        """The memory that the actor has declared."""
        return self._call.memory

    def _given_up(self, error: FunctionMemoryError | WorkerDiedError) -> Exception:
        # Ray ends an actor for good whose constructor fails; there the error becomes an ``ActorDiedError``.
        return error

    def _end(self, note: deaths.Note, failure: AttemptError | None, *, has_finished: bool) -> None:
        """Leaves the note open."""

    def served(self) -> None:
        """Notes that the actor has finished a call: its earlier deaths from outside are forgiven."""
        if self.note is not None:
            self.note.serve()


def _exit_code(error: BaseException | None) -> int:
    """Returns the exit code of a process that an exception leaves, as Python has it."""
    if error is None:
        return 0
    code = error.code if isinstance(error, SystemExit) else 1
    return code & 0xFF if isinstance(code, int) else int(code is not None)


def _items(value: object) -> Iterable[object]:
    """Returns what a generator task has returned, which has items; anything else fails when they are asked for."""
    return cast("Iterable[object]", value)


def _function(call: Call, code: Packed) -> Callable[..., object]:
    if not call.digest:
        made: Callable[..., object] = code.load()
        return made
    if call.digest not in _functions:
        _functions[call.digest] = code.load()
        if len(_functions) > _KEPT_FUNCTIONS:
            _functions.popitem(last=False)
    _functions.move_to_end(call.digest)
    return _functions[call.digest]


@functools.cache
def _engine() -> Engine:
    """Returns the engine of this worker; finds it by name, since the engine's module imports this one."""
    keep_some_of_heap()
    engine = engine_named("ray")
    adopt(engine)
    return engine


@functools.cache
def _node() -> str:
    name: str = ray.get_runtime_context().get_node_id()
    return name


def _may_be_cancelled() -> bool:
    """Whether an interrupt may be Ray's way to cancel this task; older versions of Ray do not say, so it may."""
    return not hasattr(ray.get_runtime_context(), "is_canceled") or _is_cancelled()


def _is_cancelled() -> bool:
    """Whether nobody wants the result of this call any more; older versions of Ray do not say."""
    said = getattr(ray.get_runtime_context(), "is_canceled", None)
    return said is not None and said()


def _attempt_number() -> int:
    """Returns the number of the attempt, from 1; Ray counts from 0, and tells by this name only."""
    core = ray._private.worker.global_worker.core_worker
    return int(core.get_current_task_attempt_number()) + 1
