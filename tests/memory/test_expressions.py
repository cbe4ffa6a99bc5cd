"""Expressions with far larger results than inputs stay under the limit, or end with an error that names them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exoshuffle.units import parse_bytes
from tests.memory.sampling import Sampler

PROGRAM = """
import sys
import exoshuffle as xs
from exoshuffle.errors import InputError
xs.init(memory_limit=sys.argv[2])
rows = xs.read_parquet(sys.argv[1]).select("n", made=sys.argv[3]).sort("n")
try:
    print(sum(batch.num_rows for batch in rows.iter_batches()))
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("expression", "printed"),
    [
        # 400 MB of 400 kB, and as large in the stretch that is measured.
        ("repeat(s, 1000)", "2000"),
        ("repeat(s, 1000000000)", "expression 'repeat(s, 1000000000)' makes about 200 GB"),
    ],
)
def test_text_that_is_repeated(expression: str, printed: str, tmp_path: Path) -> None:
    rows = {"s": [f"x{n:03}"[-4:] * 50 for n in range(2000)], "n": list(range(2000))}
    pq.write_table(pa.table(rows), tmp_path / "in.parquet")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "in.parquet"), "300MB", expression]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    sampler = Sampler(process.pid)
    sampler.start()
    out, _ = process.communicate(timeout=200)
    sampler.ended.set()
    sampler.join()
    assert out.startswith(printed)
    assert sampler.peak_bytes <= parse_bytes("300MB")
