"""Functions that close over large values: what is sent to workers stays within the limit, or is refused by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.memory.measuring import measured

LIMIT_BYTES = 400_000_000
PROGRAM = """
import sys, time
import exoshuffle as xs
from exoshuffle.errors import MemoryLimitError, TaskError

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
kept = bytearray(b"x") * {kept}
closed_over = b"x" * {size}

@xs.remote
def reads(_):
    return len(closed_over)

@xs.remote
class Reader:
    def read(self):
        return len(closed_over)

begun = time.monotonic()
try:
    made = {made}
except MemoryLimitError as error:
    made = error
except TaskError as error:
    made = error.__cause__
assert time.monotonic() - begun < 50
sys.stdout.write(f"{{type(made).__name__}}: {{made}}")
"""
CALLS = "xs.get([reads.remote(n) for n in range(4)])[0]"
REFUSED = (
    "MemoryLimitError: the function or class of task {} has 100 MB .* need 600 MB, .*"
    "Give it large values as arguments, .* memory_limit to 6.. MB"
)


@pytest.mark.parametrize(
    ("made", "size", "outcome"),
    [
        (CALLS, 30_000_000, "int: 30000000"),
        (CALLS, 100_000_000, REFUSED.format("reads")),
        ("xs.get(Reader.remote().read.remote())", 100_000_000, REFUSED.format("Reader")),
    ],
)
def test_large_code_is_sent_or_refused(made: str, size: int, outcome: str, tmp_path: Path) -> None:
    program = PROGRAM.format(limit=LIMIT_BYTES, folder=str(tmp_path), made=made, kept=0, size=size)
    printed, peak_bytes = measured(program)
    assert re.fullmatch(outcome, printed), printed
    assert peak_bytes <= LIMIT_BYTES


def test_a_worker_that_is_stopped_while_it_is_sent_its_task_is_not_tried_again(
    tmp_path: Path,
) -> None:
    """Its end was taken for one from outside: the task was tried for a minute, and the error guessed at why."""
    program = PROGRAM.format(
        limit=LIMIT_BYTES, folder=str(tmp_path), made=CALLS, kept=200_000_000, size=40_000_000
    )
    printed, _ = measured(program)
    assert re.match("FunctionMemoryError: task reads had .* raise memory_limit", printed), printed
