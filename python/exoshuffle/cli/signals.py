"""What ends the program from outside: signals, and a reader of its output that has gone.

Guarantee: SIGTERM, SIGHUP and SIGQUIT clean up as Ctrl-C does; the exit code is 128 and the number of the signal. One
that was ignored when the program began, as by ``nohup``, stays so. Where nobody reads what is printed any more
(``| head -1``), the program ends without a word, with the code of SIGPIPE. That signal itself stays ignored, as Python
has it: it comes for every pipe, also that to a worker which has died, and the error of the write says which one it was.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import TextIO

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: As shells say it.
_OF_SIGNALS = 128

_received: int = signal.SIGINT


def interrupt_when_ended() -> None:
    """From now on, what is to end the program interrupts it."""
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
    """The exit code after an interrupt."""
    return _OF_SIGNALS + _received


def unread() -> int:
    """The exit code where nobody reads the output any more; what is still to be written there goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in _open_streams():
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    return _OF_SIGNALS + signal.SIGPIPE


def flushed(code: int) -> int:
    """The exit code, once all that was printed is out."""
    try:
        for stream in _open_streams():
            stream.flush()
    except BrokenPipeError:
        return unread()
    return code


def _open_streams() -> list[TextIO]:
    """What the program prints to; none that was closed before it began."""
    return [stream for stream in (sys.__stdout__, sys.__stderr__) if stream is not None]
