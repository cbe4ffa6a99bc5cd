"""Carries exceptions of users' functions to another process.

Guarantee: an exception arrives with its class, arguments, attributes, notes, causes and contexts, as far as these can
be pickled. Words stand in the place of a part that cannot be pickled. If the class cannot be loaded, an ``EngineError``
tells name and message. The traceback travels as text and shows the user's code only.
"""

from __future__ import annotations

import os
import pickle
import sysconfig
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

from exoshuffle.errors import EngineError, RemoteTraceback, TaskError, said, shown

#: The most causes of causes that travel.
_MAX_CHAIN = 16
_LIBRARIES = tuple(
    sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "purelib", "platlib")
)
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

Dumps = Callable[[object], bytes]
#: A value: its pickle, an exception, or a list of values that holds exceptions.
Packed = Union[bytes, "Carried", "list[Packed]"]


@dataclass(frozen=True)
class Carried:
    """An exception as bytes.

    Attributes:
        task: Name, attempt and node of a ``TaskError``, which it says beside its cause; None for other exceptions.
        whole: Its pickle; None if it cannot be pickled, or not be made again from the pickle.
        kind: The pickle of its class, where ``whole`` is None and the class can be pickled.
        args: Its arguments, packed.
        attributes: Its attributes, packed.
        words: Its name and message.
        retryable: As in ``ExoshuffleError``.
        cause, context: The exceptions that it came from.
        is_context_hidden: Whether the context stays hidden.
    """

    task: tuple[str, int, str] | None
    whole: bytes | None
    kind: bytes | None
    args: tuple[Packed, ...]
    attributes: dict[str, Packed]
    words: str
    retryable: bool
    cause: Carried | None
    context: Carried | None
    is_context_hidden: bool

    @classmethod
    def of(cls, error: BaseException, dumps: Dumps, room: int = _MAX_CHAIN) -> Carried:
        """Packs an exception, with at most ``room`` causes of causes and contexts of contexts."""
        task = (
            (error.task_name, error.attempt, error.node) if isinstance(error, TaskError) else None
        )
        whole = None if task else _pickled(error, dumps)
        is_split = whole is None and task is None
        cause, context = error.__cause__, error.__context__
        has_context = context is not None and context is not cause and room > 0
        return cls(
            task,
            whole,
            _pickled(type(error), dumps) if is_split else None,
            tuple(_value(value, dumps) for value in error.args) if is_split else (),
            {name: _value(value, dumps) for name, value in vars(error).items()} if is_split else {},
            f"{type(error).__name__}: {said(error)}",
            bool(getattr(error, "retryable", False)),
            cls.of(cause, dumps, room - 1) if cause is not None and room > 0 else None,
            cls.of(context, dumps, room - 1) if context is not None and has_context else None,
            error.__suppress_context__,
        )

    def error(self) -> BaseException:
        """Makes the exception again."""
        cause = None if self.cause is None else self.cause.error()
        if self.task is not None and cause is not None:
            name, attempt, node = self.task
            return TaskError.of(name, attempt, cause, node)
        error = self._alone()
        _set(error, "__cause__", cause)
        if self.context is not None:
            _set(error, "__context__", self.context.error())
        _set(error, "__suppress_context__", self.is_context_hidden)
        return error

    def _alone(self) -> BaseException:
        try:
            if self.whole is not None:
                whole: BaseException = pickle.loads(self.whole)  # noqa: S301  written by this application
                return whole
            if self.kind is not None:
                return self._rebuilt(pickle.loads(self.kind))  # noqa: S301  likewise
        except Exception:  # noqa: BLE001, S110  users' classes may fail in any way here; words then tell of them
            pass
        plain = EngineError(self.words)
        plain.retryable = self.retryable
        return plain

    def _rebuilt(self, kind: type[BaseException]) -> BaseException:
        """Makes the exception without its constructor, whose arguments nobody kept."""
        args = [_unpacked(value) for value in self.args]
        error = kind.__new__(kind, *args)
        _set(error, "args", tuple(args))
        for name, value in self.attributes.items():
            error.__dict__[name] = _unpacked(value)
        return error


def traceback_of(error: BaseException) -> RemoteTraceback:
    """Returns where an exception was raised, for a reader in another process."""
    shown_error = traceback.TracebackException.from_exception(error)
    _leave_out_ours(shown_error)
    frames = [
        frame
        for frame in reversed(traceback.extract_tb(error.__traceback__))
        if not frame.filename.startswith(_OURS)
    ]
    of_user = (frame for frame in frames if not _is_of_library(frame.filename))
    telling = next(of_user, frames[0] if frames else None)
    place = ""
    if telling is not None:
        place = f"{telling.filename}:{telling.lineno} in {telling.name}, process {os.getpid()}"
    return RemoteTraceback("".join(shown_error.format()), place)


def _is_of_library(file: str) -> bool:
    """Whether code belongs to Python or to an installed package; compiled code has no path."""
    return file.startswith(_LIBRARIES) or file.endswith((".pxi", ".pyx"))


def shown_to_come_from(error: BaseException, raised: RemoteTraceback) -> BaseException:
    """Returns the exception with a traceback as the first of its causes, unless there is one already."""
    first = error
    while first.__cause__ is not None and not isinstance(first, RemoteTraceback):
        first = first.__cause__
    if not isinstance(first, RemoteTraceback):
        _set(first, "__cause__", raised)
    return error


def _set(error: BaseException, name: str, value: object) -> None:
    """Sets an attribute that every exception has, even if the user's class forbids setting attributes."""
    BaseException.__setattr__(error, name, value)


def _leave_out_ours(shown_error: traceback.TracebackException) -> None:
    """Takes our frames out, before and behind the user's function; they stay where a traceback has no others."""
    one: traceback.TracebackException | None = shown_error
    seen = 0
    while one is not None and seen < _MAX_CHAIN:
        kept = [frame for frame in one.stack if not frame.filename.startswith(_OURS)]
        if kept:
            one.stack = traceback.StackSummary.from_list(kept)
        one, seen = one.__cause__ or one.__context__, seen + 1


def _pickled(value: object, dumps: Dumps) -> bytes | None:
    try:
        data = dumps(value)
        again = pickle.loads(data)  # noqa: S301  written just now
    except Exception:  # noqa: BLE001  objects of users may fail in any way when pickled
        return None
    return data if type(again).__name__ == type(value).__name__ else None


def _value(value: object, dumps: Dumps) -> Packed:
    data = _pickled(value, dumps)
    if data is not None:
        return data
    if isinstance(value, BaseException):
        return Carried.of(value, dumps, room=0)
    if isinstance(value, list | tuple) and any(isinstance(one, BaseException) for one in value):
        return [_value(one, dumps) for one in value]  # the members of an exception group
    return pickle.dumps(shown(value))


def _unpacked(value: Packed) -> object:
    if isinstance(value, Carried):
        return value.error()
    if isinstance(value, list):
        return [_unpacked(one) for one in value]
    return pickle.loads(value)  # noqa: S301  written by this application
