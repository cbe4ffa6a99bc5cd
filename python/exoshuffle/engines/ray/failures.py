"""Carries the failure of a task through Ray, and turns Ray's errors into ours.

Guarantee: a caller that asks for a result, or a task that depends on it, gets an error of ours. It is the error of the
task that failed first, with that task's exception as cause. Names of Ray's errors do not get out.
"""

from __future__ import annotations

import re

import ray
import ray.exceptions as rays

from exoshuffle.engines.carrying import Carried, shown_to_come_from, traceback_of
from exoshuffle.engines.ray.at_work import stopped_in_task, stopped_process
from exoshuffle.engines.ray.logs import last_words, last_words_of
from exoshuffle.engines.ray.objects import Origin
from exoshuffle.engines.ray.restarts import await_news
from exoshuffle.engines.ray.values import pack
from exoshuffle.errors import (
    ActorDiedError,
    BlockLostError,
    ClosedError,
    DiskFullError,
    EngineError,
    FunctionMemoryError,
    RemoteTraceback,
    TaskCancelledError,
    TaskError,
    WorkerDiedError,
)
from exoshuffle.futures.refs import Value

#: Errors that stand for themselves: a task that passes one on has not failed in its own right.
_OWN_ERRORS = (TaskError, ClosedError, TaskCancelledError, ActorDiedError)
_DEATHS = (
    rays.NodeDiedError,
    rays.LocalRayletDiedError,
)


#: The process of an actor, in Ray's words on its death.
_PROCESS = re.compile(r"\bpid: (\d+)")
_NODE_ID = re.compile(r"\b[0-9a-f]{56}\b")


class AttemptError(Exception):
    """The error that a task raises to Ray when its function has failed. All of it can be pickled.

    Attributes:
        name: The name of the task.
        attempt: The attempt, from 1.
        node: The node where it ran.
        carried: The function's exception.
        raised: The traceback of the exception.
    """

    def __init__(
        self, name: str, attempt: int, node: str, carried: Carried, raised: RemoteTraceback
    ) -> None:
        super().__init__(name, attempt, node, carried, raised)
        self.name = name
        self.attempt = attempt
        self.node = node
        self.carried = carried
        self.raised = raised

    def error(self) -> BaseException:
        """Returns the error to raise where the result is asked for."""
        error = shown_to_come_from(self.carried.error(), self.raised)
        if isinstance(error, _OWN_ERRORS):
            return error
        return TaskError.of(self.name, self.attempt, error, self.node)


class RetryableAttemptError(AttemptError):
    """An ``AttemptError`` after which Ray is to try again."""


def attempt_error(
    error: BaseException, name: str, attempt: int, node: str, retryable: bool
) -> AttemptError:
    """Returns the error to raise to Ray."""
    kind = RetryableAttemptError if retryable else AttemptError
    return kind(name, attempt, node, Carried.of(error, _lasting), traceback_of(error))


def _lasting(value: object) -> bytes:
    """Pickles a value, or raises ``TypeError`` if it has references: the error may outlive the objects behind them."""
    packed = pack(value)
    if packed.references or packed.buffers:
        raise TypeError
    return packed.data


def fetch(
    objects: list[ray.ObjectRef], origin: Origin, timeout: float | None = None
) -> list[Value]:
    """Returns the values of ``ray.get``; raises its errors as ours."""
    try:
        values: list[Value] = ray.get(objects, timeout=timeout)
    except rays.GetTimeoutError:
        raise TimeoutError(f"{origin.name or 'put'} is not done after {timeout} s") from None
    except rays.RayError as error:
        failure = error_of(error, origin)
    else:
        return values
    raise failure


def error_of(error: BaseException, origin: Origin) -> BaseException:
    """Returns our error for an error of Ray, for a caller that asked for an object."""
    # Frames of Ray keep the error, and its traceback keeps them and our frames: actors that these know would live on.
    error.with_traceback(None)
    is_of_argument = isinstance(error, rays.RayTaskError)
    cause: BaseException = error.cause if is_of_argument else error  # type: ignore[attr-defined]
    text = first_line(cause)
    if isinstance(cause, AttemptError):
        return cause.error()
    if isinstance(cause, rays.TaskCancelledError):
        return TaskCancelledError(f"task {_name(origin, is_of_argument)} was cancelled")
    if isinstance(cause, rays.RayActorError):
        await_news(cause)
        process = _PROCESS.search(str(cause))
        stopped = stopped_process(int(process[1])) if process else None
        if stopped is not None:
            name, attempts = _failed(origin, is_of_argument)
            return TaskError(name, attempts, stopped, _node_of_death(cause))
        words = last_words_of(int(process[1])) if process else ""
        return ActorDiedError(f"{_name(origin, is_of_argument)}: {text}{words}")
    if isinstance(cause, rays.OutOfMemoryError):
        name, attempts = _failed(origin, is_of_argument)
        return TaskError(name, attempts, _out_of_memory(name, text), _node_of_death(cause))
    if isinstance(cause, rays.WorkerCrashedError):
        return _died(origin, is_of_argument, cause)
    if isinstance(cause, _DEATHS):
        name, attempts = _failed(origin, is_of_argument)
        return TaskError(name, attempts, WorkerDiedError(text), _node_of_death(cause))
    if isinstance(cause, rays.ObjectLostError):
        return BlockLostError(f"the result of {_name(origin, is_of_argument)} is lost: {text}")
    if isinstance(cause, rays.OutOfDiskError):
        return TaskError(origin.name, 1, DiskFullError(text))
    if isinstance(cause, rays.RayError):
        return TaskError(origin.name, 1, EngineError(text))
    return TaskError.of(origin.name, 1, cause)


def _died(origin: Origin, is_of_argument: bool, cause: BaseException) -> TaskError:
    """Returns the error of a task whose worker ended, and that may not be tried again."""
    name, attempts = _failed(origin, is_of_argument)
    names = {before for before, _ in origin.before} if is_of_argument else {name}
    stopped = stopped_in_task(names)
    if stopped is not None:
        return TaskError(name, attempts, stopped, _node_of_death(cause))
    words = last_words(names)
    return TaskError(
        name,
        attempts,
        WorkerDiedError(
            f"the worker process of task {name} ended: its function, or what that called, ended it or crashed. Or "
            f"somebody else ended it, such as the system for want of memory{words}"
        ),
        _node_of_death(cause),
    )


def _out_of_memory(name: str, text: str) -> FunctionMemoryError:
    """Returns the error of a task that Ray has ended in all its tries since a node ran out of memory."""
    return FunctionMemoryError(
        f"task {name} was ended by Ray, whose node had no memory left. Declare with memory= what its function takes, "
        "so that no more tasks run at once than fit. Or let it take fewer rows at a time, or give nodes more memory "
        f"({text})"
    )


def _failed(origin: Origin, is_of_argument: bool) -> tuple[str, int]:
    """Returns the task that failed, and its last attempt, after which Ray gave up.

    If the task left no message, dependents only know that it is one of the tasks before them.
    """
    if is_of_argument and origin.before:
        names = {name for name, _ in origin.before}
        return " or ".join(sorted(names)), max(attempts for _, attempts in origin.before)
    return origin.name or "put", origin.attempts


def _name(origin: Origin, is_of_argument: bool) -> str:
    return _failed(origin, is_of_argument)[0]


def _node_of_death(error: BaseException) -> str:
    """Returns the node of a death, or an empty string.

    Ray names, in words, nodes that died or ran out of memory; it does not tell the node of a worker that died alone.
    """
    if isinstance(error, rays.LocalRayletDiedError):
        return str(ray.get_runtime_context().get_node_id())
    nodes = {node["NodeID"] for node in ray.nodes()}
    told = nodes.intersection(_NODE_ID.findall(str(error)))
    if not told and len(nodes) == 1:
        told = nodes
    return told.pop() if len(told) == 1 else ""


def cancelled(origin: Origin) -> TaskCancelledError:
    """Returns the error for a caller that asks for the result of a cancelled task."""
    return TaskCancelledError(f"task {origin.name} was cancelled")


def first_line(error: BaseException) -> str:
    """Returns the first line of Ray's message, which is long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
