"""A row of CSV or JSON lines far longer than planned is refused at once, within the limit, wherever it is read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 300_000
LONG_ROW = 200_000
LONG_BYTES = 100_000_000
LIMIT_BYTES = 300_000_000
PROGRAM = """
import sys
import exoshuffle as xs
from exoshuffle.errors import MemoryLimitError
from exoshuffle.observe.memory import peak_resident_bytes

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
try:
    {made}
except MemoryLimitError as error:
    sys.stdout.write(f"{{peak_resident_bytes()}} {{error}}")
"""
WAYS = {
    "sort CSV": "xs.read_csv({path!r}).sort('k').write_parquet({out!r})",
    "scan CSV": "xs.read_csv({path!r}).write_parquet({out!r})",
    "skip bad rows of CSV": "xs.read_csv({path!r}, bad_rows='skip').write_parquet({out!r})",
    "group CSV": "xs.read_csv({path!r}).group_by('k').agg(n=('s', 'max')).write_parquet({out!r})",
    "filter JSON": "xs.read_json({path!r}).filter('k >= 0').write_parquet({out!r})",
    "sort JSON": "xs.read_json({path!r}).sort('k').write_parquet({out!r})",
    "scan JSON": "xs.read_json({path!r}).write_parquet({out!r})",
}


def write(path: Path, row: str) -> None:
    with path.open("w") as file:
        if path.suffix == ".csv":
            file.write("k,s\n")
        for i in range(ROWS):
            file.write(row % (i, "x" * (LONG_BYTES if i == LONG_ROW else 60)))


@pytest.mark.parametrize("way", WAYS)
def test_a_long_row_is_refused_at_once(way: str, tmp_path: Path) -> None:
    is_csv = way.endswith("CSV")
    path = tmp_path / ("in.csv" if is_csv else "in.jsonl")
    write(path, "%d,%s\n" if is_csv else '{"k": %d, "s": "%s"}\n')
    made = WAYS[way].format(path=str(path), out=str(tmp_path / "out"))
    program = PROGRAM.format(limit=LIMIT_BYTES, folder=str(tmp_path), made=made)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    peak_bytes, _, message = done.stdout.partition(" ")
    line = LONG_ROW + 1 + is_csv
    assert f"line {line}: the row has more than" in message
    assert int(peak_bytes) <= LIMIT_BYTES
    assert not (tmp_path / "out").exists()
