"""TPC-H: lineitem sorted within a limit that makes it spill, and queries in our operators, are as DuckDB has them."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import exoshuffle as xs
from benchmarks.shapes.engines.exoshuffle_tpch import ANSWERS
from benchmarks.shapes.tables import Tables, constants_of
from benchmarks.shapes.tpch_sql import NAMES, tpch_sql
from exoshuffle.engines.local import LocalEngine
from tests.support.duck import duck
from tests.support.matrix import cut_small

pytestmark = pytest.mark.shares_engine

BY = "l_shipdate desc, l_orderkey"
SCALE = 0.01


def generate(folder: Path, *arguments: str) -> None:
    """Tables as Parquet, by the generator."""
    program = str(Path(sys.executable).parent / "tpchgen-cli")
    subprocess.run(
        [program, "parquet", *arguments, f"--output-dir={folder}"],
        check=True,
        capture_output=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def lineitem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600,000 rows: 150 MB in Arrow."""
    folder = tmp_path_factory.mktemp("tpch")
    generate(folder, "--scale-factor=0.1", "--tables=lineitem")
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
    with duck() as connection:
        # Stable: rows with equal keys stay in the order of the file, which file_row_number tells.
        connection.execute(
            f"create temp view wanted as select * exclude (file_row_number), row_number() over () as at from "  # noqa: S608
            f"(select * from read_parquet('{lineitem}', file_row_number=true) order by {BY}, file_row_number)"
        )
        connection.execute(
            f"create temp view actual as select * exclude (filename, file_row_number), row_number() over () as at from "  # noqa: S608
            f"(select * from read_parquet('{tmp_path}/out/*.parquet', filename=true, file_row_number=true) "
            f"order by filename, file_row_number)"
        )
        count = connection.sql("select count(*) from actual").fetchall()[0][0]
        missing = connection.sql("select * from wanted except select * from actual").fetchall()
    assert count == result.rows == 600_572
    assert missing == []


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All tables, with 60,000 rows in the largest: a folder of files each."""
    folder = tmp_path_factory.mktemp("queries")
    generate(folder, f"--scale-factor={SCALE}", "--parts=3", "--row-group-bytes=200000")
    return folder


@pytest.fixture(scope="module", params=["few maps, small sides broadcast", "many maps"])
def queries_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """One engine for all queries."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "many maps":
            cut_small(patch, split_bytes=400_000)
        xs.init(num_cpus=2, memory_limit="2GB")
        yield
        xs.shutdown()


@functools.cache
def answer(name: str, tables: Path) -> list[tuple[Any, ...]]:
    """The answers of DuckDB, asked once for all engines."""
    with duck() as connection:
        for table in NAMES:
            files = f"read_parquet('{tables}/{table}/*.parquet')"
            connection.execute(f"create temp view {table} as from {files}")
        return connection.sql(tpch_sql(constants_of(SCALE))[name]).fetchall()


@pytest.mark.usefixtures("queries_engine")
@pytest.mark.parametrize("name", ANSWERS)
def test_queries_are_answered_as_by_duckdb(name: str, tables: Path) -> None:
    opened = Tables(lambda table: xs.read_parquet(tables / table), constants_of(SCALE))
    made = [tuple(row.values()) for row in ANSWERS[name](opened).to_pylist()]
    wanted = answer(name, tables)
    assert wanted
    assert None not in wanted[0]
    assert [tuple(map(type, row)) for row in made] == [tuple(map(type, row)) for row in wanted]
    # Decimals are exact. Means and shares are floats, whose sums have another order.
    assert made == [
        tuple(pytest.approx(x, rel=1e-12) if isinstance(x, float) else x for x in row)
        for row in wanted
    ]
