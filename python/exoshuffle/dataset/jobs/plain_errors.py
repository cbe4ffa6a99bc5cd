"""Errors of failed tasks, as users shall see them."""

from __future__ import annotations

import contextlib
from types import TracebackType

from exoshuffle.errors import ExoshuffleError, TaskError, WorkerDiedError


class PlainErrors(contextlib.AbstractContextManager[None]):
    """Raises the cause of a failed task as it is, where it is an error of ours: it names the file and the remedy.

    That a process died names neither, so there the task stays in the message.

    Why not a function with ``contextmanager``: left by the end of a generator that was abandoned, such a one keeps what
    the generator held until garbage is collected (Python 3.10).
    """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Passes on what is no such error."""
        del kind, traceback
        if not isinstance(error, TaskError) or isinstance(error.__cause__, WorkerDiedError):
            return
        if isinstance(error.__cause__, ExoshuffleError):
            raise error.__cause__ from error
