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
    out, peak = _run(PROGRAM, str(tmp_path / "in.parquet"), "300MB", expression)
    assert out.startswith(printed)
    assert peak <= parse_bytes("300MB")


PARTS = """
import sys
import exoshuffle as xs
xs.init(memory_limit=sys.argv[2])
parts = {f"c{n}": f"split_part(s, ',', {n + 1})::int" for n in range(500)}
for batch in xs.read_parquet(sys.argv[1]).select(**parts).iter_batches():
    assert all(set(batch.column(n).to_pylist()) == {n} for n in range(500))
    print(batch.num_rows)
"""


def test_many_expressions_that_divide_text(tmp_path: Path) -> None:
    """DuckDB makes a list of all parts for each of them, and does not count it: 1.2 GB if all are in one query."""
    line = ",".join(map(str, range(500)))
    pq.write_table(pa.table({"s": [line] * 300}), tmp_path / "in.parquet")
    out, peak = _run(PARTS, str(tmp_path / "in.parquet"), "300MB")
    assert sum(map(int, out.split())) == 300
    assert peak <= parse_bytes("300MB")


def _run(program: str, *args: str) -> tuple[str, int]:
    """Returns what a program prints, and the peak of its processes."""
    command = [sys.executable, "-c", program, *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    sampler = Sampler(process.pid)
    sampler.start()
    out, _ = process.communicate(timeout=200)
    sampler.ended.set()
    sampler.join()
    return out, sampler.peak_bytes
