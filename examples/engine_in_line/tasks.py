"""Tasks, which wait as pickles, and the items of generator tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from examples.engine_in_line.values import Handle, Pickled, resolved
from exoshuffle.errors import ActorDiedError, OptionsError, TaskCancelledError, TaskError
from exoshuffle.futures import Ref

#: The engine's name, for messages.
NAME = "in-line"


class Running(Protocol):
    """The part of its engine that a stream needs."""

    def check_open(self) -> None:
        """Raises ``ClosedError`` after ``close``."""

    def inside_task(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context for the code of a task."""


class Task:
    """A function and its arguments, at rest."""

    def __init__(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.name = name
        self._fn = fn
        self._args = [at_rest(arg, f"argument {i} of {name}") for i, arg in enumerate(args)]
        self._kwargs = {
            key: at_rest(arg, f"argument {key} of {name}") for key, arg in kwargs.items()
        }

    def call(self) -> Any:
        """Runs the function, each time with new values."""
        args = [resolved(arg.load()) for arg in self._args]
        kwargs = {key: resolved(arg.load()) for key, arg in self._kwargs.items()}
        return self._fn(*args, **kwargs)

    def failed(self, error: Exception, attempt: int) -> Exception:
        """Returns the error that ``get`` raises; the error of an argument as it is."""
        if isinstance(error, TaskError | ActorDiedError):
            return error
        return TaskError(self.name, attempt, error, NAME)


def at_rest(value: Any, what: str) -> Pickled:
    """Pickles a value.

    Raises:
        OptionsError: The value cannot be pickled.
    """
    try:
        return Pickled(value)
    except Exception as error:
        raise OptionsError(f"{what} cannot be pickled: {error}") from error


class Stream:
    """The items of a generator task, each made when it is asked for."""

    def __init__(self, engine: Running, task: Task) -> None:
        self._engine, self._task = engine, task
        self._items: Iterator[Any] | None = None
        self._has_ended = self._is_cancelled = False

    def next_ref(self, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle``."""
        del index, timeout
        self._engine.check_open()
        if self._is_cancelled:
            raise TaskCancelledError(f"{self._task.name} was cancelled")
        handle = Handle()
        try:
            with self._engine.inside_task():
                if self._items is None:
                    self._items = iter(self._task.call())
                handle.fill(next(self._items))
        except StopIteration:
            self._has_ended = True
            return None
        except Exception as error:
            self._has_ended = True
            raise self._task.failed(error, attempt=1) from error
        return Ref(handle)

    def limit_ahead(self, count: int) -> None:
        """Does nothing: the task is never ahead."""

    def cancel(self) -> bool:
        """Ends the stream; returns False if it has ended already."""
        self._engine.check_open()
        if self._is_cancelled or self._has_ended:
            return False
        self._is_cancelled = True
        return True

    def drop(self) -> None:
        """See ``StreamHandle``."""
        self._items = iter(())
