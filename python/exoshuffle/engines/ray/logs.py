"""Finds the last words of a worker that died: the end of its log, without the lines that Ray and Python frame it with.

Only logs of this process's node are at hand. Ray names the task in a log when it begins, and the process in its name.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil
from ray._private import worker as ray_worker

#: The most lines that are told.
_MOST_LINES = 6
#: As much of the end of a log is read.
_END_BYTES = 16_384
_CRASH = "Fatal Python error"
_MARK = re.compile(r"^:(?:task|actor|job)_(?:name|id):(.*)\n", re.MULTILINE)
#: Stacks of native code without names, Ray's copies of them, and the frames and lists around the user's own.
_FRAMING = re.compile(
    r"^\s*(?:$|\[\d{4}-\d\d-\d\d |\*\*\* SIG|PC: @|@ |Stack \(most recent|Current thread|Extension modules:"
    r"|File \".*/(?:ray/_private|exoshuffle/engines/ray)/)"
)


def last_words(names: Collection[str]) -> str:
    """Returns how the log ends of the worker that died last in a task of these names; empty if no log tells."""
    found = [path for path in _logs("*") if _is_gone(path) and _mark(_end(path)) in names]
    return _told(max(found, key=lambda path: path.stat().st_mtime)) if found else ""


def last_words_of(process: int) -> str:
    """Returns how the log of a process ends; empty if no log tells."""
    return next(map(_told, _logs(str(process))), "")


def _logs(process: str) -> Iterator[Path]:
    return Path(ray_worker._global_node.get_logs_dir_path()).glob(f"worker-*-{process}.err")


def _is_gone(path: Path) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(int(path.stem.rpartition("-")[2]))
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


def _end(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _END_BYTES))
        return file.read().decode(errors="replace")


def _mark(text: str) -> str:
    """Returns the task that began last."""
    marks = _MARK.findall(text)
    return marks[-1] if marks else ""


def _told(path: Path) -> str:
    lines = _MARK.split(_end(path))[-1].splitlines()
    told = [line.strip() for line in lines if not _FRAMING.match(line)]
    crashes = [number for number, line in enumerate(told) if line.startswith(_CRASH)]
    # The stack behind a crash begins with the call that crashed.
    begin = crashes[-1] if crashes else max(0, len(told) - _MOST_LINES)
    told = told[begin : begin + _MOST_LINES]
    return f"; its log {path} ends: {' | '.join(told)}" if told else ""
