"""Whole files are read within the memory limit, most of which they may take."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.memory.measuring import measured

PROGRAM = """
import exoshuffle as xs
from exoshuffle.errors import MemoryLimitError
xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
try:
    print(sum(batch.num_rows for batch in xs.read_binary({path!r}).iter_batches()))
except MemoryLimitError as error:
    print("refused" if "reading the whole file" in str(error) else error)
"""


@pytest.mark.parametrize("limit", [400_000_000, 500_000_000, 600_000_000, 1_000_000_000])
def test_a_large_file_is_read_within_memory_or_refused(limit: int, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(random.Random(1).randbytes(1 << 20) * 290)
    program = PROGRAM.format(limit=limit, folder=str(tmp_path), path=str(path))
    printed, peak_bytes = measured(program)
    assert printed.strip() == ("1" if limit == 1_000_000_000 else "refused")
    assert peak_bytes <= limit
