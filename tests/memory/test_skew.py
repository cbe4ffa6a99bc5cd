"""Resident memory stays under ``--memory-limit`` when one key has half of the rows, which are more than the limit."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exoshuffle.units import parse_bytes
from tests.memory.sampling import PROGRAM
from tests.memory.tables import texts

FILES, ROWS, WIDTH = 8, 250_000, 250
NUM_ROWS = FILES * ROWS
HOT = 7


def write_skewed(folder: Path, num_files: int, num_rows: int) -> Path:
    """Writes files of a key, which is ``HOT`` in half of the rows, the number of the row, and a string."""
    folder.mkdir()
    for index in range(num_files):
        draw = random.Random(index)
        keys = [HOT if draw.random() < 0.5 else draw.randrange(10**6) for _ in range(num_rows)]
        first = index * num_rows
        columns = {
            "key": pa.array(keys, pa.int64()),
            "n": pa.array(range(first, first + num_rows), pa.int64()),
            "text": texts(num_rows, WIDTH, index),
        }
        pq.write_table(
            pa.table(columns),
            folder / f"{index}.parquet",
            row_group_size=-(-num_rows // 8),
            use_dictionary=False,
            compression="none",
        )
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes 530 MB, of which 265 MB have one key."""
    return write_skewed(tmp_path_factory.mktemp("skewed") / "in", FILES, ROWS)


def query(sql: str) -> tuple[Any, ...]:
    """Returns the only row of the result."""
    with duckdb.connect() as connection:
        (found,) = connection.sql(sql).fetchall()
    return tuple(found)


def run(measure: Callable[..., Any], command: list[object], limit: str) -> Any:
    """Runs a command within a limit, which it keeps."""
    measured = measure(*command, "--memory-limit", limit)
    assert measured.summary["spilled_bytes"] > 0
    assert measured.peak_bytes <= parse_bytes(limit)
    return measured


@pytest.mark.parametrize("strategy", ["simple", "push", "pre_shuffle_merge"])
def test_a_hot_partition_is_streamed(
    strategy: str, source: Path, measure: Callable[..., Any], tmp_path: Path
) -> None:
    command = ["repartition", source, tmp_path / "out", "--by", "key", "--partitions", 60]
    run(measure, [*command, "--strategy", strategy], "290MB")
    files = f"read_parquet('{tmp_path}/out/*.parquet', filename=true)"
    assert query(f"select count(*), sum(n), count(distinct filename) from {files}") == (  # noqa: S608
        NUM_ROWS,
        NUM_ROWS * (NUM_ROWS - 1) // 2,
        60,
    )
    assert query(f"select count(distinct filename) from {files} where key = {HOT}") == (1,)  # noqa: S608


@pytest.mark.parametrize("strategy", ["simple", "push", "pre_shuffle_merge"])
def test_a_hot_key_is_sorted(
    strategy: str, source: Path, measure: Callable[..., Any], tmp_path: Path
) -> None:
    run(measure, ["sort", source, tmp_path / "out", "--by", "key", "--strategy", strategy], "260MB")
    rows = f"read_parquet('{tmp_path}/out/*.parquet', filename=true, file_row_number=true)"
    earlier = "lag((key, n)) over (order by filename, file_row_number)"
    assert query(
        f"select count(*), sum(n), count(*) filter (earlier > (key, n)) "  # noqa: S608
        f"from (select key, n, {earlier} earlier from {rows})"
    ) == (NUM_ROWS, NUM_ROWS * (NUM_ROWS - 1) // 2, 0)


def test_a_hot_key_among_rows_that_travel_uncombined_is_combined(
    source: Path, measure: Callable[..., Any], tmp_path: Path
) -> None:
    # Partial texts take more room, so rows travel as they are. The rows of one key exceed what the limit leaves for a
    # group.
    aggregates = "count=count(), total=sum(n), last=last(n), least=min(text), greatest=max(text), first=first(text)"
    run(measure, ["groupby", source, tmp_path / "out", "--by", "key", "--agg", aggregates], "330MB")
    rows, groups = (
        f"read_parquet('{source}/*.parquet')",
        f"read_parquet('{tmp_path}/out/*.parquet')",
    )
    wanted = "count(*), sum(n)::bigint, max(n), min(text), max(text), arg_min(text, n)"
    assert query(f"select * exclude (key) from {groups} where key = {HOT}") == query(  # noqa: S608
        f"select {wanted} from {rows} where key = {HOT}"  # noqa: S608
    )
    assert query(f"select count(*), sum(count), sum(total) from {groups}") == query(  # noqa: S608
        f"select count(distinct key), count(*), sum(n) from {rows}"  # noqa: S608
    )


def test_the_hot_side_of_a_join_is_cut(
    source: Path, measure: Callable[..., Any], tmp_path: Path
) -> None:
    keys = pa.array([HOT, *range(10**6, 10**6 + 400_000)], pa.int64())
    (tmp_path / "right").mkdir()
    pq.write_table(
        pa.table({"key": keys, "tag": texts(len(keys), 90, 1)}), tmp_path / "right/0.parquet"
    )
    sides = [source, tmp_path / "right", tmp_path / "out"]
    run(measure, ["join", *sides, "--on", "key", "--how", "left"], "360MB")
    assert query(
        f"select count(*), sum(n), count(tag) = count(*) filter (key = {HOT}) "  # noqa: S608
        f"from read_parquet('{tmp_path}/out/*.parquet')"
    ) == (NUM_ROWS, NUM_ROWS * (NUM_ROWS - 1) // 2, True)


GIGABYTE_ROWS = 10_000_000


@pytest.fixture(scope="module")
def gigabyte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes one group of 1 GB."""
    folder = tmp_path_factory.mktemp("gigabyte") / "in"
    folder.mkdir()
    rows = GIGABYTE_ROWS // 80
    text = texts(rows, 84, 0)
    schema = pa.schema([("key", pa.int32()), ("n", pa.int64()), ("text", pa.string())])
    with pq.ParquetWriter(
        folder / "0.parquet", schema, use_dictionary=False, compression="none"
    ) as writer:
        key = pa.repeat(pa.scalar(HOT, pa.int32()), rows)
        for first in range(0, GIGABYTE_ROWS, rows):
            numbers = pa.array(range(first, first + rows), pa.int64())
            writer.write_table(pa.table([key, numbers, text], schema=schema))
    return folder


def test_a_group_of_a_gigabyte_is_streamed_and_sorted(
    gigabyte: Path, measure: Callable[..., Any], tmp_path: Path
) -> None:
    """One partition must stay one file, and one may be divided."""
    command = ["repartition", gigabyte, tmp_path / "one", "--by", "key", "--partitions", 60]
    run(measure, command, "400MB")
    run(measure, ["sort", gigabyte, tmp_path / "sorted", "--by", "key, n desc"], "400MB")
    wanted = (GIGABYTE_ROWS, GIGABYTE_ROWS * (GIGABYTE_ROWS - 1) // 2)
    for name in ("one", "sorted"):
        files = f"read_parquet('{tmp_path}/{name}/*.parquet')"
        assert query(f"select count(*), sum(n) from {files}") == wanted  # noqa: S608
    rows = f"read_parquet('{tmp_path}/sorted/*.parquet', filename=true, file_row_number=true)"
    later = "lag(n) over (order by filename, file_row_number)"
    disorder = f"select count(*) from (select n, {later} later from {rows}) where later < n"  # noqa: S608
    assert query(disorder) == (0,)


def test_a_group_of_a_gigabyte_that_is_needed_whole_is_refused_by_name(
    gigabyte: Path, tmp_path: Path
) -> None:
    command = ["groupby", gigabyte, tmp_path / "out", "--by", "key", "--agg", "texts=list(text)"]
    refused = subprocess.run(
        [*PROGRAM, *map(str, command), "--memory-limit", "400MB"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert refused.returncode == 2
    assert re.search(r"key=7\b", refused.stderr)
    assert re.search(r"\b(9\d\d MB|1\.\d+ GB)", refused.stderr)
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "out").exists()
