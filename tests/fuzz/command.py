"""Runs a case by the command line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.fuzz.cases import Case
from tests.support.peak import Peak, family

_PROGRAM = "from exoshuffle_command import main; main()"


def run(case: Case, folder: Path, patience_seconds: float) -> dict[str, Any]:
    """Runs a case and returns the answer that a child would give."""
    is_streamed = case.sink.kind == "standard output"
    output = "-" if is_streamed else str(folder / case.sink.name)
    arguments = [sys.executable, "-c", _PROGRAM, *case.command(folder, output)]
    used = _cpu_seconds()
    with contextlib.ExitStack() as open_files:
        told = open_files.enter_context((folder / "told").open("wb"))
        errors = open_files.enter_context((folder / "errors").open("wb"))
        stdout = open_files.enter_context((folder / "out").open("wb")) if is_streamed else told
        process = subprocess.Popen(arguments, stdout=stdout, stderr=errors)
        with Peak(process.pid) as peak:
            try:
                code = process.wait(patience_seconds)
            except subprocess.TimeoutExpired:
                for each in reversed(family(process.pid)):
                    os.kill(each, signal.SIGKILL)
                process.wait()
                return {"kind": "hang", "error": "no end of the command", "peak": peak.bytes}
    said = (folder / "errors").read_text()
    if code != 0:
        kind = "MemoryLimitError" if code == 2 and "memory limit" in said else f"exit code {code}"
        return {"kind": kind, "error": said[-600:], "peak": peak.bytes}
    lines = (said if is_streamed else (folder / "told").read_text()).strip().splitlines()
    summary = json.loads(lines[-1])
    most = max(peak.bytes, summary["peak_memory_bytes"])
    return {"kind": None, "cpu": _cpu_seconds() - used, "peak": most}


def _cpu_seconds() -> float:
    """Returns the CPU seconds of children that have ended."""
    times = os.times()
    return times.children_user + times.children_system
