"""Worker processes lead groups: what functions in them have started ends when they end, however that happens.

Why: it takes memory that counts against the program's limit, and nobody else would end it when a worker is stopped or
crashes. What leaves the group (``start_new_session=True``) goes on, but where its worker is stopped for its memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import NoReturn


def end(process: int) -> None:
    """Ends what is in the group that a process leads, or led: while there is any of it, its number is no other's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def end_own() -> NoReturn:
    """Ends this process, and the group that it leads."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
