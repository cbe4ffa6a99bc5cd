"""Handles ends of the program from outside: signals, and a reader of its output that has gone.

Guarantee: SIGTERM, SIGHUP and SIGQUIT clean up as Ctrl-C does; the exit code is 128 and the number of the signal. A
signal that was ignored when the program began, as by ``nohup``, stays ignored. If nobody reads the output any more
(``| head -1``), the program ends silently, with the code of SIGPIPE. SIGPIPE itself stays ignored, as in Python. It
comes for every pipe, also for one to a worker that has died, and the error of the write says which pipe it was.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import TextIO

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: Shells add this to the number of a signal.
_OF_SIGNALS = 128

_received: int = signal.SIGINT


def interrupt_when_ended() -> None:
    """Makes signals that would end the program interrupt it from now on."""
    global _received
    _received = signal.SIGINT
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _received
    del frame
    _received = number
    raise KeyboardInterrupt


def interrupted() -> int:
    """Returns the exit code after an interrupt."""
    return _OF_SIGNALS + _received


def unread() -> int:
    """Returns the exit code if nobody reads the output any more; discards what is still to be written there."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in _open_streams():
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    return _OF_SIGNALS + signal.SIGPIPE


def flushed(code: int) -> int:
    """Returns the exit code, once all that was printed is out."""
    try:
        for stream in _open_streams():
            stream.flush()
    except BrokenPipeError:
        return unread()
    return code


def _open_streams() -> list[TextIO]:
    """Returns the streams that the program prints to, without those closed before it began."""
    return [stream for stream in (sys.__stdout__, sys.__stderr__) if stream is not None]
