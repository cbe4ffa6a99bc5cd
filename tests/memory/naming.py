"""Runs programs that are refused for want of memory, and finds the limit that the error names."""

from __future__ import annotations

import re
import subprocess
import sys

#: The words before a limit, and the limit; the first one does in any case.
_NAMED = re.compile(r"(?:works is|memory_limit to) ([\d.]+ [MG]B)")

#: The errors of this kind; that of a group is one of them.
_RAISED = re.compile(r"\b(MemoryLimitError|LargeGroupError): ")


def named_limit(program: str) -> str:
    """Returns the first limit that the error of a program names, which has to be refused."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 1, done.stdout
    [error] = [line for line in done.stderr.splitlines() if _RAISED.search(line)][-1:]
    named = _NAMED.findall(error)
    assert named, error
    return str(named[0]).replace(" ", "")


def limit_bytes(limit: str) -> float:
    """Returns the bytes of such a limit."""
    return float(limit[:-2]) * {"MB": 1e6, "GB": 1e9}[limit[-2:]]
