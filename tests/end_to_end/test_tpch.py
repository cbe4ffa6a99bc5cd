"""TPC-H lineitem, sorted within a memory limit that makes it spill, is what DuckDB makes of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine

BY = "l_shipdate desc, l_orderkey"


@pytest.fixture(scope="module")
def lineitem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600,000 rows: 150 MB in Arrow."""
    folder = tmp_path_factory.mktemp("tpch")
    program = str(Path(sys.executable).parent / "tpchgen-cli")
    arguments = ["parquet", "--scale-factor=0.1", "--tables=lineitem"]
    subprocess.run(
        [program, *arguments, f"--output-dir={folder}"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return next(folder.rglob("lineitem*.parquet"))


@pytest.mark.parametrize("strategy", ["simple", "push"])
def test_lineitem_is_sorted_as_duckdb_sorts_it(
    strategy: str, lineitem: Path, engine: LocalEngine, tmp_path: Path
) -> None:
    del engine
    dataset = xs.read_parquet(lineitem).sort(
        ["l_shipdate", "l_orderkey"], [True, False], strategy=strategy
    )
    result = dataset.write_parquet(tmp_path / "out", compression="zstd")
    assert result.spilled_bytes > 0
    with duckdb.connect() as connection:
        # Stable: rows with equal keys stay in the order of the file, which file_row_number tells.
        connection.execute(
            f"create view wanted as select * exclude (file_row_number), row_number() over () as at from "  # noqa: S608
            f"(select * from read_parquet('{lineitem}', file_row_number=true) order by {BY}, file_row_number)"
        )
        connection.execute(
            f"create view actual as select * exclude (filename, file_row_number), row_number() over () as at from "  # noqa: S608
            f"(select * from read_parquet('{tmp_path}/out/*.parquet', filename=true, file_row_number=true) "
            f"order by filename, file_row_number)"
        )
        count = connection.sql("select count(*) from actual").fetchall()[0][0]
        missing = connection.sql("select * from wanted except select * from actual").fetchall()
    assert count == result.rows == 600_572
    assert missing == []
