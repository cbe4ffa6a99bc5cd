"""Errors of failed tasks, as users see them."""

from __future__ import annotations

import contextlib
from types import TracebackType

from exoshuffle.errors import ExoshuffleError, TaskError, WorkerDiedError


class PlainErrors(contextlib.AbstractContextManager[None]):
    """Raises the cause of a failed task as it is, where it is an error of ours: it names the file and the remedy.

    The error of a process that died names neither, so its message keeps the task.

    Why not a function with ``contextmanager``: an abandoned generator may end within such a manager. The manager then
    keeps the generator's objects until garbage is collected (Python 3.10).
    """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raises the cause of such an error; lets all others pass."""
        del kind, traceback
        if not isinstance(error, TaskError) or isinstance(error.__cause__, WorkerDiedError):
            return
        if isinstance(error.__cause__, ExoshuffleError):
            raise error.__cause__ from error
