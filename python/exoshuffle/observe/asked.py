"""Whether a program shows the progress of a result that it waits for, and where.

By default it does on a terminal and in a notebook, where somebody looks. Elsewhere lines of it would be among those of
the program. ``init(progress=)`` and ``EXOSHUFFLE_PROGRESS`` say otherwise. A task shows none.
"""

from __future__ import annotations

import sys

from exoshuffle.futures.engine import running_engine
from exoshuffle.futures.session import progress_asked
from exoshuffle.observe.progress import NotebookProgress, Progress

#: Work that is done sooner shows nothing, so that small results do not flicker.
AFTER_SECONDS = 1.0


def progress_of_program(label: str) -> Progress | None:
    """Returns what shows the progress of some work of this program; None for nothing.

    Raises:
        OptionsError: ``EXOSHUFFLE_PROGRESS`` is neither ``0`` nor ``1``.
    """
    asked = progress_asked()
    if asked is False or running_engine() is not None or sys.stderr is None:
        return None
    if _is_notebook():
        return NotebookProgress(label, after_seconds=AFTER_SECONDS)
    if asked or sys.stderr.isatty():
        return Progress(label, after_seconds=AFTER_SECONDS)
    return None


def _is_notebook() -> bool:
    """Whether IPython runs the program for a notebook, without importing it."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return hasattr(shell, "kernel")
