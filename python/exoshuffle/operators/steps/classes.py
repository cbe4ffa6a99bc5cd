"""A class of the user in the place of a function of batches: its object is made once, and called for each batch."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from exoshuffle.errors import Noted, OptionsError
from exoshuffle.futures.callables import name_of
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batch_formats import with_format

#: Calls of a constructor that fails.
MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Arguments:
    """Arguments of a call.

    Attributes:
        args: Those without names.
        kwargs: Named ones.
    """

    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.args or self.kwargs)

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function with these behind the arguments of each call, under its name."""
        if not self or not callable(function):
            return function

        @functools.wraps(function, updated=())
        def called(given: object) -> object:
            return function(given, *self.args, **self.kwargs)

        called.__qualname__ = name_of(function)
        return called


@dataclass(frozen=True)
class UserClass:
    """A class, and how an object of it is made and called.

    Attributes:
        cls: The class; its objects can be called with a batch.
        made_with: Arguments of its constructor.
        further: Arguments of each call, behind the batch.
        batch_format: The form of batches that an object gets; see ``batch_formats``.
    """

    cls: type
    made_with: Arguments
    further: Arguments
    batch_format: str

    def check(self) -> None:
        """Raises ``OptionsError`` if objects of the class cannot be called."""
        if not any("__call__" in vars(base) for base in self.cls.__mro__):
            raise OptionsError(
                f"map_batches got the class {self.cls.__qualname__}, which has no method __call__; give it "
                "__call__(self, batch)"
            )

    def made(self) -> Callable[[object], object]:
        """Returns the function that an object of the class is, under the name of the class.

        A constructor that fails is called again: what it loads may be out of reach for a moment.
        """
        with Noted(
            f"map_batches called the constructor of {self.cls.__qualname__} {MAX_ATTEMPTS} times"
        ):
            instance = self._instance()
        formatted = with_format(self.further.bound(instance), self.batch_format)

        def called(table: object) -> object:
            return formatted(table)

        called.__qualname__ = self.cls.__qualname__
        return called

    def _instance(self) -> Any:
        for _ in range(MAX_ATTEMPTS - 1):
            with contextlib.suppress(Exception):
                return self.cls(*self.made_with.args, **self.made_with.kwargs)
        return self.cls(*self.made_with.args, **self.made_with.kwargs)

    def __call__(self, table: object) -> object:
        """Calls an object that is made for this one batch: to learn a schema."""
        return self.made()(table)
