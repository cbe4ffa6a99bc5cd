"""Passes what tasks print and log in worker processes to the program's output and loggers, with task and process.

Lines go to ``sys.stdout`` or ``sys.stderr`` of the program, as it has these at the time. So progress bars and captures
of output see them. Records go to the logger of the same name, if that logger has their level.

Guarantee: a stream or a handler of the program that fails does not disturb the task, whose answer is still to come. The
error is printed, like errors of handlers that the logging module calls.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Sequence
from typing import cast

from exoshuffle.engines.saying import Said


def hear(said: Sequence[Said], task_name: str, process: int) -> None:
    """Passes on what a worker sent."""
    prefix = f"({task_name} pid={process})"
    for kind, content in said:
        try:
            if kind == "log":
                _log(cast("dict[str, object]", content), prefix)
            else:
                _print(kind, cast("list[str]", content), prefix)
        except Exception:  # noqa: BLE001  whatever a handler of the program raises
            with contextlib.suppress(Exception):
                traceback.print_exc()


def least_level() -> int:
    """Returns the lowest level that any logger of the program has now; records below it need not be sent."""
    named = logging.root.manager.loggerDict.values()
    loggers = [one for one in named if isinstance(one, logging.Logger)]
    levels = [logger.level for logger in loggers if logger.level != logging.NOTSET]
    return min([logging.root.getEffectiveLevel(), *levels])


def _print(name: str, lines: list[str], prefix: str) -> None:
    stream = getattr(sys, name)
    # A program that closed the stream, or no longer reads it, has no use for the lines.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        stream.write("".join(f"{prefix} {line}\n" for line in lines))
        stream.flush()


def _log(fields: dict[str, object], prefix: str) -> None:
    logger = logging.getLogger(str(fields["name"]))
    if logger.isEnabledFor(cast("int", fields["levelno"])):
        record = logging.makeLogRecord(fields | {"msg": f"{prefix} {fields['msg']}", "args": None})
        logger.handle(record)
