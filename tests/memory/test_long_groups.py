"""A group of one long row that has no room: the limit holds until it is refused, and the error names one that does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from tests.memory.measuring import measured, shared_out_bytes
from tests.memory.naming import limit_bytes, named_limit
from tests.memory.test_long_rows_of_files import long_text

PROGRAM = """
import exoshuffle as xs
xs.init(memory_limit={limit!r}, num_cpus=2, spill_dirs=[{folder!r}])
rows = xs.read_parquet({folder!r} + "/in.parquet")
print(rows.group_by('k').map_groups(lambda group: group).write_parquet({folder!r} + "/out").rows)
"""


def _written(row_bytes: int, folder: Path) -> pa.Table:
    table = pa.table({"k": range(4), "s": [long_text(row_bytes), "a", "b", "c"]})
    pq.write_table(table, folder / "in.parquet")
    return table


def test_it_is_refused_within_the_limit(tmp_path: Path) -> None:
    """It peaked at 583 MB: workers looked for the largest group in slices that lay in files."""
    _written(100_000_000, tmp_path)
    program = PROGRAM.format(limit="530MB", folder=str(tmp_path))
    command = [sys.executable, "-c", program]
    peak_bytes = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        process = psutil.Process(running.pid)
        while running.poll() is None:
            peak_bytes = max(peak_bytes, shared_out_bytes(process))
        _, err = running.communicate()
    assert "LargeGroupError: the rows of key k=0 take about 100 MB" in err.decode()
    assert peak_bytes <= 530_000_000


def test_a_row_that_a_map_has_no_room_for_names_a_limit_for_its_group(tmp_path: Path) -> None:
    """The error named the limit with which maps have room for the row, and then the group was refused."""
    table = _written(50_000_000, tmp_path)
    enough = named_limit(PROGRAM.format(limit="290MB", folder=str(tmp_path)))
    printed, peak_bytes = measured(PROGRAM.format(limit=enough, folder=str(tmp_path)))
    assert printed.strip() == "4"
    assert peak_bytes <= limit_bytes(enough)
    assert pq.read_table(tmp_path / "out").sort_by("k").equals(table)


LENGTHS = """
import pyarrow as pa
import pyarrow.compute as pc
import exoshuffle as xs
xs.init(memory_limit={limit!r}, num_cpus=2, spill_dirs=[{folder!r}])
def lengths(group):
    return pa.table({{"k": group["k"][:1], "n": pa.array([pc.sum(pc.utf8_length(group["s"])).as_py()])}})
told = xs.read_parquet({folder!r} + "/in.parquet").group_by('k').map_groups(lengths).sort('k')
print(told.to_arrow()['n'].to_pylist())
"""


def test_results_of_numbers_need_no_pages_for_a_long_row(tmp_path: Path) -> None:
    """The group was refused within 720 MB, for pages that only a row of the result takes; it runs with 439."""
    _written(100_000_000, tmp_path)
    printed, peak_bytes = measured(LENGTHS.format(limit="720MB", folder=str(tmp_path)))
    assert printed.strip() == "[100000000, 1, 1, 1]"
    assert peak_bytes <= 720_000_000
