"""The processes that run cases, seen from the parent: started, asked, watched and ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from exoshuffle.units import parse_bytes
from tests.fuzz.cases import Case
from tests.support.peak import Peak, family

#: A case takes some tenths of a second. One that takes this long never ends.
PATIENCE_SECONDS = 120
#: A child has so many cases at most, and has at most this part of the memory limit when one begins.
CASES_PER_CHILD, LIMIT_PART = 50, 0.5
#: The file of a case's folder in which a process that crashes says where its threads were.
CRASH = "crash"


class Nursery:
    """Makes children."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        command = [sys.executable, "-m", "tests.fuzz.child", str(other.fileno())]
        self._process = subprocess.Popen(
            command,
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        other.close()

    def child(self, engine: str) -> Child:
        """Starts a process that has run no case."""
        lines, asking = os.pipe()
        answering, answers = os.pipe()
        socket.send_fds(self._socket, [b"c"], [lines, answers])
        os.close(lines)
        os.close(answers)
        process = int.from_bytes(self._socket.recv(4), "little")
        return Child(engine, process, asking, answering)

    def close(self) -> None:
        """Ends the nursery."""
        self._socket.close()
        self._process.wait()


class Child:
    """A process that runs cases."""

    def __init__(self, engine: str, process: int, asking: int, answering: int) -> None:
        self._engine, self._process, self._asked, self.is_lost = engine, process, 0, False
        self._handle = os.pidfd_open(process)
        self._asking, self._answers = os.fdopen(asking, "w"), os.fdopen(answering)

    def is_good_for(self, case: Case) -> bool:
        """Returns whether it is small enough, and not old; Ray takes long to start, and has no limit here."""
        if self._engine == "ray":
            return True
        if self._asked >= CASES_PER_CHILD:
            return False
        limit = case.memory_limit
        resident = psutil.Process(self._process).memory_info().rss
        return limit is None or resident <= parse_bytes(limit) * LIMIT_PART

    def ask(self, case: Case, folder: Path) -> dict[str, Any]:
        """Has it run a case, and waits for the answer."""
        self._asked += 1
        with Peak(self._process, "Rss") as peak:
            answer = self._answer(case, folder)
        if self._engine == "ray":
            return answer | {"peak": 0}
        return answer | {"peak": max(peak.bytes, answer.get("peak", 0))}

    def _answer(self, case: Case, folder: Path) -> dict[str, Any]:
        asked = {"seed": case.seed, "folder": str(folder), "engine": self._engine}
        self.is_lost = True
        with contextlib.suppress(BrokenPipeError):
            self._asking.write(json.dumps(asked) + "\n")
            self._asking.flush()
        if not select.select([self._answers], [], [], PATIENCE_SECONDS)[0]:
            return {"kind": "hang", "error": f"no answer within {PATIENCE_SECONDS} s"}
        answered = self._answers.readline()
        if not answered:
            where = (Path(asked["folder"]) / CRASH).read_text()
            return {"kind": "died", "error": f"its process ended; {where or 'nothing tells why'}"}
        self.is_lost = False
        answer: dict[str, Any] = json.loads(answered)
        return answer

    def close(self) -> None:
        """Ends it and its descendants; Ray cleans up by itself, if it can."""
        with contextlib.suppress(BrokenPipeError):
            self._asking.close()
        if self._engine == "ray" and not self.is_lost:
            select.select([self._handle], [], [], PATIENCE_SECONDS)
        descendants = family(self._process)[1:]
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        for each in descendants:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        os.close(self._handle)
        self._answers.close()
