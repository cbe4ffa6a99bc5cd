"""The functions that users and strategies call: ``remote``, ``put``, ``get``, ``wait`` and others."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NoReturn, Protocol, TypeVar, cast, overload

from exoshuffle.arguments import is_number, is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.futures.actors import RemoteClass
from exoshuffle.futures.callables import check_not_async, is_generator, name_of
from exoshuffle.futures.engine import Node, RunningTask, TimingEngine
from exoshuffle.futures.options import ActorOptions, TaskOptions, with_changes
from exoshuffle.futures.refs import Ref, RefStream, SliceRef, Value, await_by
from exoshuffle.futures.session import current_engine

_Kind = TypeVar("_Kind")


class _Remote:
    """Takes other options and refuses plain calls, for functions and generators alike."""

    def __init__(self, fn: Callable[..., object], options: TaskOptions) -> None:
        self._fn = fn
        self._options = options
        self._is_generator = is_generator(fn)
        functools.update_wrapper(self, fn, updated=())

    @overload
    def options(
        self, *, num_returns: Literal["streaming"], **changes: object
    ) -> RemoteGenerator: ...
    @overload
    def options(self, *, num_returns: int, **changes: object) -> RemoteFunction: ...
    @overload
    def options(self: _Self, **changes: object) -> _Self: ...
    def options(self, **changes: object) -> _Remote:
        """Returns the same function with other options (the fields of ``TaskOptions``).

        Raises:
            OptionsError: An unknown option or a value that cannot work.
        """
        return _with_options(self._fn, with_changes(self._options, changes))

    def _submit(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Ref | RefStream:
        if self._is_generator and not self._options.is_streaming:
            raise OptionsError(
                f'{name_of(self._fn)} is a generator; pass num_returns="streaming" to have its items one by one, or '
                "have it return a list"
            )
        return current_engine().submit(self._fn, args, kwargs, self._options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({name_of(self._fn)})"

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuses, since a plain call would run here and now."""
        raise TypeError("a remote function is called with .remote(...)")


_Self = TypeVar("_Self", bound=_Remote)


class RemoteFunction(_Remote):
    """A function that runs as a task; made by ``remote``."""

    def remote(self, *args: object, **kwargs: object) -> Ref:
        """Submits a task and returns at once, with a reference to its result.

        References among the arguments (``Ref``, ``SliceRef``, ``Refs``, ``Column``) are resolved before the task
        starts; the function sees values. References inside containers stay references. If the last reference to the
        result goes before the task has started, the task never starts.

        Raises:
            OptionsError: The function or an argument cannot be pickled, or no node can ever have what the task needs.
        """
        return cast("Ref", self._submit(args, kwargs))


class RemoteGenerator(_Remote):
    """A generator that runs as a task; made by ``remote`` with ``num_returns="streaming"``."""

    def remote(self, *args: object, **kwargs: object) -> RefStream:
        """Submits a task and returns at once, with the stream of its items; see ``RemoteFunction.remote``."""
        return cast("RefStream", self._submit(args, kwargs))


def _with_options(
    fn: Callable[..., object], options: TaskOptions
) -> RemoteFunction | RemoteGenerator:
    return (RemoteGenerator if options.is_streaming else RemoteFunction)(fn, options)


class Decorator(Protocol):
    """Makes the function or class that it decorates remote; made by ``remote(num_cpus=2)`` and the like."""

    # A class is a callable, too; what it becomes differs, and the first signature that fits counts.
    @overload
    def __call__(self, fn: type, /) -> RemoteClass: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[..., object], /) -> RemoteFunction: ...


# As above: a class is a callable, too.
@overload
def remote(fn: type, /, **options: object) -> RemoteClass: ...  # type: ignore[overload-overlap]
@overload
def remote(
    fn: Callable[..., object], /, *, num_returns: Literal["streaming"], **options: object
) -> RemoteGenerator: ...
@overload
def remote(
    fn: Callable[..., object], /, *, num_returns: int = 1, **options: object
) -> RemoteFunction: ...
@overload
def remote(
    fn: Callable[..., object], /, *, num_returns: int | Literal["streaming"], **options: object
) -> RemoteFunction | RemoteGenerator: ...
@overload
def remote(
    *, num_returns: Literal["streaming"], **options: object
) -> Callable[[Callable[..., object]], RemoteGenerator]: ...
@overload
def remote(*, num_returns: int = 1, **options: object) -> Decorator: ...


def remote(fn: Callable[..., object] | None = None, /, **options: object) -> object:
    """Makes a function or a class remote: ``@remote``, ``@remote(num_returns=4)`` or ``remote(function, num_cpus=2)``.

    Functions must be deterministic and free of side effects, since the engine may run them again. Objects of a remote
    class are actors.

    Args:
        fn: The function or class.
        **options: Fields of ``TaskOptions`` or, for a class, of ``ActorOptions``.

    Raises:
        OptionsError: Neither a function nor a class, an unknown option, or a value that cannot work.
    """
    if fn is None:
        # It is not known yet whether a function or a class will be decorated, but most mistakes show already.
        if "max_restarts" in options:
            with_changes(ActorOptions(), options)
        else:
            with_changes(TaskOptions(), options)
        return functools.partial(_made, options)
    return _made(options, fn)


def _made(
    options: dict[str, object], fn: Callable[..., object]
) -> RemoteClass | RemoteFunction | RemoteGenerator:
    """Returns the function or the class with these options."""
    if not callable(fn):
        raise OptionsError(f"remote needs a function or a class, and got {shown(fn)}")
    check_not_async("remote", fn)
    if isinstance(fn, type):
        for _, method in inspect.getmembers(fn, inspect.isfunction):
            check_not_async("remote", method)
        return RemoteClass(fn, with_changes(ActorOptions(), options))
    return _with_options(fn, with_changes(TaskOptions(), options))


def put(value: object) -> Ref:
    """Stores a value and returns a reference to it."""
    return current_engine().put(value)


def get(refs: Ref | SliceRef | Sequence[Ref | SliceRef], timeout: float | None = None) -> Value:
    """Waits for one object, or for all of a sequence, and returns the value or the list of values.

    Raises:
        OptionsError: Something other than references, or a timeout that is not a number of seconds.
        TaskError: The task that makes the object failed; its cause is chained.
        TimeoutError: Not all are done after ``timeout`` seconds in total.
    """
    _check_timeout(timeout)
    engine = current_engine()
    if isinstance(refs, Ref | SliceRef):
        return engine.get(refs, timeout)
    wanted: Iterator[Ref | SliceRef] = _each("get", refs, (Ref, SliceRef))
    if timeout is None:
        return [engine.get(ref) for ref in wanted]
    deadline = time.monotonic() + timeout
    return [engine.get(ref, max(0.0, deadline - time.monotonic())) for ref in wanted]


await_by(get)


def wait(
    refs: Sequence[Ref],
    num_ready: int | None = None,
    timeout: float | None = None,
    *,
    num_returns: int | None = None,
) -> tuple[list[Ref], list[Ref]]:
    """Waits until ``num_ready`` objects are done (made or failed); returns the done ones and the others.

    It moves no data. After ``timeout`` seconds it returns what is done by then.

    Args:
        refs: The objects.
        num_ready: How many have to be done; default: 1.
        timeout: The most seconds to wait; default: as long as it takes.
        num_returns: Ray's name for ``num_ready``.

    Raises:
        OptionsError: Not a list of references, ``num_ready`` not from 0 to their number, or a timeout that is not a
            number of seconds.
    """
    _check_timeout(timeout)
    refs = list(_each("wait", refs, (Ref,)))
    if num_ready is not None and num_returns is not None:
        raise OptionsError(
            f"num_ready is {num_ready!r} and num_returns is {num_returns!r}; give one of them"
        )
    if num_ready is None:
        num_ready = 1 if num_returns is None else num_returns
    if not is_whole(num_ready) or not 0 <= num_ready <= len(refs):
        raise OptionsError(f"num_ready is {num_ready!r} for {len(refs)} references")
    return current_engine().wait(refs, num_ready, timeout)


def slice_bytes(refs: Sequence[Ref]) -> list[list[int]]:
    """Returns the bytes of each slice of each object as the engine keeps them; waits for the objects, moves no data.

    For slices of a block these are the bytes that were written; for other values, those of their pickles.

    Raises:
        TaskError: As ``get``.

    Cost: the embedded engine reads the index of a block that was spilled; on Ray, a task reports it with its status.
    """
    return current_engine().slice_bytes(list(_each("slice_bytes", refs, (Ref,))))


def raise_errors(refs: Sequence[Ref]) -> None:
    """Raises the error of the first object that has failed, if any; neither waits nor moves data.

    Raises:
        TaskError: As ``get``.
    """
    engine = current_engine()
    for ref in refs:
        error = engine.error(ref)
        if error is not None:
            raise error


def cancel(ref: Ref | RefStream) -> bool:
    """Cancels the task behind ``ref``; ``get`` then raises ``TaskCancelledError``; a stream does so after its items.

    Returns:
        Whether it was cancelled. A task that has not started always is. A running task is if the engine can stop it;
        the embedded engine can in a worker process, or at a generator's next item. A task that is done is not.
    """
    if isinstance(ref, RefStream):
        return ref.handle.cancel()
    return current_engine().cancel(_checked("cancel", ref, (Ref,)))


def nodes() -> list[Node]:
    """Returns the nodes that are alive, with what they have."""
    return current_engine().nodes()


def locate(ref: Ref) -> list[str]:
    """Returns names of the nodes that have the object, in memory or on disk; empty while it does not exist."""
    return current_engine().locate(_checked("locate", ref, (Ref,)))


def running(ref: Ref) -> RunningTask | None:
    """Returns how long the task of an object has been running, and where; None if it is over, or nobody knows.

    Args:
        ref: The result of a task; on Ray of one with ``tells_begin=True``.
    """
    engine, found = current_engine(), _checked("running", ref, (Ref,))
    return engine.running(found) if isinstance(engine, TimingEngine) else None


def _check_timeout(timeout: object) -> None:
    if timeout is not None and not (is_number(timeout) and timeout == timeout):  # noqa: PLR0124  NaN is none
        raise OptionsError(
            f"timeout is {shown(timeout)}; it must be a number of seconds, or None to wait for as long as it takes"
        )


def _each(function: str, refs: object, kinds: tuple[type[_Kind], ...]) -> Iterator[_Kind]:
    """Yields the references of a list one by one; raises ``OptionsError`` for anything else."""
    # A reference is itself a sequence: of the slices of its object.
    if isinstance(refs, (Ref,)) or not isinstance(refs, Iterable):
        raise OptionsError(f"{function} takes a list of references, and got {shown(refs)}")
    return (_checked(function, ref, kinds) for ref in refs)


def _checked(function: str, ref: object, kinds: tuple[type[_Kind], ...]) -> _Kind:
    if not isinstance(ref, kinds):
        raise OptionsError(
            f"{function} takes references, as remote functions and put() return them, and got {shown(ref)}"
        )
    return ref
