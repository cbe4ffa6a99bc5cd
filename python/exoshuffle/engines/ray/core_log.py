"""Keeps what Ray's core tells in this process off the terminal, such as how many lost objects it makes anew.

Guarantee: nothing else that is printed meanwhile is lost. Processes of a node, whose logs are files, tell all.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO

from ray._private import worker as ray_worker

#: The core reads this least level of its lines when the process connects, and then tells of that on standard error.
_LEVEL = "RAY_BACKEND_LOG_LEVEL"
_STANDARD_ERROR = 2
#: How lines begin by which the core tells of a SIGTERM that comes while it connects, and which it hands on.
_OF_A_SIGNAL = (b"*** SIGTERM received", b"PC: @", b"    @ ")


@contextlib.contextmanager
def quiet_core() -> Iterator[None]:
    """A context around ``ray.init``; where the user has chosen the level, it does nothing."""
    if _LEVEL in os.environ:
        yield
        return
    connect = ray_worker.connect

    def connect_quietly(*args: object, **kwargs: object) -> object:
        with _without_its_line():
            os.environ[_LEVEL] = "fatal"
            try:
                return connect(*args, **kwargs)
            finally:
                del os.environ[_LEVEL]

    # Not before: processes of a node, which are started first, would have the level, too.
    ray_worker.connect = connect_quietly
    try:
        yield
    finally:
        ray_worker.connect = connect


@contextlib.contextmanager
def _without_its_line() -> Iterator[None]:
    """Holds standard error back, and leaves out the lines about the level and about a signal."""
    before = os.dup(_STANDARD_ERROR)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), _STANDARD_ERROR)
        try:
            yield
        finally:
            os.dup2(before, _STANDARD_ERROR)
            os.close(before)
            _write_back(held)


def _write_back(held: IO[bytes]) -> None:
    held.seek(0)
    for line in held:
        if _LEVEL.encode() not in line and not line.startswith(_OF_A_SIGNAL):
            os.write(_STANDARD_ERROR, line)
