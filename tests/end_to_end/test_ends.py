"""A program that ends with a batch in the store's memory says nothing of it, whatever libraries it has used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

#: Sorts, so that a batch lies in the store, and groups, which DuckDB does.
PROGRAM = """
import exoshuffle as xs
xs.init(memory_limit="1GB", num_cpus=2)
for batch in xs.read_parquet("in.parquet").sort("k").iter_batches():
    pass
few = xs.from_pydict({"k": [1, 2, 1], "x": [2, 9, 3]})
assert few.group_by("k").agg(n=("x", "sum")).to_arrow().num_rows == 2
"""


@pytest.mark.parametrize("end", ["", "xs.shutdown()", "del xs"])
def test_it_ends_without_a_word(end: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": range(1000)}), tmp_path / "in.parquet")
    command = [sys.executable, "-c", f"{PROGRAM}\n{end}"]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
