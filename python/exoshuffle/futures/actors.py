"""Actors: objects with state that live in a worker and whose methods are tasks.

Guarantee: calls of one caller run in the order in which they were made, one at a time. Source: Wang's dissertation,
ch. 2; the API is Ray's, which users know.
"""

from __future__ import annotations

import functools
import inspect
from typing import Literal, NoReturn, TypeVar, cast, overload

from exoshuffle.errors import OptionsError, shown
from exoshuffle.futures.options import ActorOptions, TaskOptions, with_changes
from exoshuffle.futures.refs import Ref, RefStream
from exoshuffle.futures.session import current_engine

#: A call is not repeated unless asked for: it may have changed the actor's state before it failed.
_CALL_OPTIONS = TaskOptions(num_cpus=0, max_retries=0)


class RemoteClass:
    """A class whose objects are actors; made by ``remote``."""

    def __init__(self, cls: type, options: ActorOptions) -> None:
        self._cls = cls
        self._options = options
        functools.update_wrapper(self, cls, updated=())

    def options(self, **changes: object) -> RemoteClass:
        """Returns the same class with other options (the fields of ``ActorOptions``).

        Raises:
            OptionsError: An unknown option or a value that cannot work.
        """
        return RemoteClass(self._cls, with_changes(self._options, changes))

    def remote(self, *args: object, **kwargs: object) -> ActorHandle:
        """Makes an actor; returns at once. References among the arguments are resolved, as for tasks.

        If the constructor fails, the calls raise its error.
        """
        actor = current_engine().create_actor(self._cls, args, kwargs, self._options)
        members = inspect.getmembers(self._cls, callable)
        methods = frozenset(
            name for name, _ in members if not name.startswith("__") or name == "__call__"
        )
        return ActorHandle(actor, self._options.name or self._cls.__name__, methods)

    def __repr__(self) -> str:
        return f"RemoteClass({self._cls.__name__})"

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuses, since a plain call would make an object here and now."""
        raise TypeError("an actor is made with .remote(...)")


class ActorHandle:
    """Takes calls: ``actor.method.remote(...)``. A handle can be passed to tasks and other actors.

    The actor ends when no handle is left and the calls made are done.
    """

    def __init__(self, actor: Ref, name: str, methods: frozenset[str]) -> None:
        self._actor = actor
        self._name = name
        self._methods = methods

    def __getattr__(self, name: str) -> ActorMethod:
        if name.startswith("_") and name not in self.__dict__.get("_methods", ()):
            raise AttributeError(name)
        if name not in self._methods:
            raise AttributeError(
                f"actor {self._name} has no method {name!r}; it has {', '.join(sorted(self._methods))}"
            )
        return ActorMethod(self._actor, name, _CALL_OPTIONS)

    def __reduce__(self) -> tuple[type[ActorHandle], tuple[Ref, str, frozenset[str]]]:
        return ActorHandle, (self._actor, self._name, self._methods)

    def __repr__(self) -> str:
        return f"ActorHandle({self._name})"


class _Method:
    """Takes other options and refuses plain calls, for methods and generators alike."""

    def __init__(self, actor: Ref, method: str, options: TaskOptions) -> None:
        self._actor = actor
        self._method = method
        self._options = options

    @overload
    def options(
        self, *, num_returns: Literal["streaming"], **changes: object
    ) -> ActorGenerator: ...
    @overload
    def options(self, *, num_returns: int, **changes: object) -> ActorMethod: ...
    @overload
    def options(self: _Self, **changes: object) -> _Self: ...
    def options(self, **changes: object) -> _Method:
        """Returns the same method with other options: ``num_returns``, ``max_retries`` or ``name``.

        Raises:
            OptionsError: Another option; a call needs nothing beyond what its actor has.
        """
        for name in changes:
            if name not in {"max_retries", "name", "num_returns"}:
                raise OptionsError(
                    f"option {name!r} is not one of a call; num_returns, max_retries and name are"
                )
        options = with_changes(self._options, changes)
        kind = ActorGenerator if options.is_streaming else ActorMethod
        return kind(self._actor, self._method, options)

    def _call(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Ref | RefStream:
        return current_engine().call_actor(self._actor, self._method, args, kwargs, self._options)

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuses, since the object is elsewhere."""
        raise TypeError("a method of an actor is called with .remote(...)")


_Self = TypeVar("_Self", bound=_Method)


class ActorMethod(_Method):
    """A method of an actor."""

    def remote(self, *args: object, **kwargs: object) -> Ref:
        """Calls the method and returns at once, with a reference to its result."""
        return cast("Ref", self._call(args, kwargs))


class ActorGenerator(_Method):
    """A method of an actor that is a generator; made by ``options(num_returns="streaming")``."""

    def remote(self, *args: object, **kwargs: object) -> RefStream:
        """Calls the method and returns at once, with the stream of its items."""
        return cast("RefStream", self._call(args, kwargs))


def kill(actor: ActorHandle) -> None:
    """Ends an actor now, without restart; calls that are not done fail with ``ActorDiedError``.

    Raises:
        OptionsError: The argument is not an actor.
    """
    if not isinstance(actor, ActorHandle):
        raise OptionsError(
            f"kill takes an actor, and got {shown(actor)}; for the task behind a reference there is cancel()"
        )
    current_engine().kill_actor(actor._actor)  # noqa: SLF001  a function of this module
