"""Worker processes lead groups: processes that functions in a worker have started end with it, however it ends.

Why: such processes take memory that counts against the program's limit, and nobody else would end them when a worker is
stopped or crashes. A process that leaves the group (``start_new_session=True``) goes on, unless its worker is stopped
for its memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import NoReturn


def end(process: int) -> None:
    """Ends the group that a process leads, or led: no other process gets the number while the group has members."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def end_own() -> NoReturn:
    """Ends this process, and the group that it leads."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
