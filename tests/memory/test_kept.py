"""A program's own results: a table larger than the limit is refused unless it is forced, and mentioned from then on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.memory.tables import write_table

ROWS, FILES = 600_000, 5
PROGRAM = """
import logging
import exoshuffle as xs
from exoshuffle.errors import MemoryLimitError

told = []
handler = logging.Handler()
handler.emit = lambda record: told.append(record.getMessage())
logging.getLogger("exoshuffle").addHandler(handler)
xs.init(memory_limit="270MB", num_cpus=2, spill_dirs=[{folder!r}])
rows = xs.read_parquet({source!r})
assert sum(batch.num_rows for batch in rows.sort("key").iter_batches()) == {count}
assert rows.sort("key").filter("key % 1000 = 7").to_arrow().num_rows < {count} // 100
assert not told, told
assert rows.limit(10).to_arrow().num_rows == 10
assert rows.filter("key % 1000 = 7").to_arrow().num_rows < {count} // 100
for large in (rows.sort("key"), rows, rows.rename({{"key": "k"}}), rows.random_shuffle(1, window="1MB")):
    try:
        large.to_arrow()
    except MemoryLimitError as error:
        assert "takes about 4" in str(error), error
        assert "270 MB" in str(error) and "iter_batches" in str(error) and "force=True" in str(error), error
    else:
        raise AssertionError("was not refused")
table = rows.sort("key").to_arrow(force=True)
assert table.num_rows == {count}
kept = list(rows.iter_batches())
xs.shutdown()
assert len(told) == 1, told
assert "beyond its memory limit of 270 MB" in told[0], told
"""


def test_a_table_beyond_the_limit_is_refused_or_forced_and_told(tmp_path: Path) -> None:
    source = write_table(tmp_path / "in", FILES, ROWS, 130)
    program = PROGRAM.format(folder=str(tmp_path), source=str(source), count=FILES * ROWS)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
