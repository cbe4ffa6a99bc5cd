"""The stack of a worker process: the worker writes it into a file in memory when a signal comes, and when it crashes.

Why ``faulthandler``: it writes from within the signal, also while native code holds the interpreter, and needs no
thread of the worker to be free.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import tempfile
import time

from exoshuffle.observe.activity import Frame, telling_frame

#: A signal that programs hardly use; a worker that gets it writes its stack. macOS has no signals beyond the old ones.
_SIGNAL = getattr(signal, "SIGRTMAX", signal.SIGUSR2)
#: How long a worker may take to write its stack, and how often to look.
_PATIENCE_SECONDS = 1.0
_LOOK_SECONDS = 0.01

_FRAME = re.compile(
    r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE
)


#: A worker that crashes writes this first.
_CRASH = "Fatal Python error: "


def memory_file() -> int:
    """Opens the file: in memory where the system has such files, else one without a name in the temporary folder."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("exoshuffle-stack")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def write_when_asked(descriptor: int) -> None:
    """Has this process write its stack from now on; called in the worker, at its start."""
    faulthandler.register(_SIGNAL, file=descriptor, all_threads=False)
    faulthandler.enable(descriptor, all_threads=False)


def read(process: int, descriptor: int) -> list[Frame]:
    """Returns the stack of a worker, innermost call first, or an empty list if it does not answer.

    Called in the engine, for a worker that has started.
    """
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        os.kill(process, _SIGNAL)
    except ProcessLookupError:
        return []
    deadline = time.monotonic() + _PATIENCE_SECONDS
    text, before = "", "?"
    while text != before and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        before = text or "?"
        text = _written(descriptor)
    return _frames(text)


def crashed_in(descriptor: int) -> Frame | None:
    """Returns the call that a worker was in when it crashed: the user's function, if it was in one.

    Called in the engine.
    """
    _, crash, text = _written(descriptor).rpartition(_CRASH)
    return telling_frame(_frames(text)) if crash else None


def _written(descriptor: int) -> str:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")


def _frames(text: str) -> list[Frame]:
    return [Frame(one["file"], int(one["line"]), one["function"]) for one in _FRAME.finditer(text)]
