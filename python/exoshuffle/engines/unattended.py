"""Refuses to wait for typed input in a worker process, which has no terminal; the error says what to do instead."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator

from exoshuffle.errors import EngineError

_REMEDY = (
    "nobody can type into a worker process; call the function in your program, for example on a batch of "
    'dataset.limit(1000).to_arrow(). Or run the task with executor="thread", on the local engine, in a program on a '
    "terminal"
)


class _NobodyTypes(io.TextIOBase):
    """Standard input of a worker process."""

    def readable(self) -> bool:
        """Returns True, so that ``read`` is called and raises its error."""
        return True

    def readline(self, *_size: object) -> str:  # type: ignore[override]
        """See ``read``."""
        return self.read()

    def read(self, *_size: object) -> str:
        """Raises the error."""
        raise EngineError(f"standard input was read: {_REMEDY}")


def _no_debugger(*_args: object, **_options: object) -> None:
    raise EngineError(f"breakpoint() was called: {_REMEDY}")


def nobody_types() -> None:
    """Makes ``breakpoint()``, ``input()`` and all else that reads standard input raise an error with the remedy."""
    sys.breakpointhook = _no_debugger
    sys.stdin = _NobodyTypes()


@contextlib.contextmanager
def unattended() -> Iterator[None]:
    """Does as ``nobody_types`` while a task runs in a process that is not ours alone."""
    before = sys.breakpointhook, sys.stdin
    nobody_types()
    try:
        yield
    finally:
        sys.breakpointhook, sys.stdin = before
