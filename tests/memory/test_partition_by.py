"""``--partition-by`` stays under ``--memory-limit`` with thousands of folders, one of which has most of the rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from exoshuffle.units import parse_bytes

HOT_ROWS, KEYS, WIDTH = 600_000, 2000, 300
LIMIT = "250MB"


def test_a_hot_key_and_thousands_of_others(tmp_path: Path, measure: Callable[..., Any]) -> None:
    keys = pa.array([0] * HOT_ROWS + list(range(1, KEYS + 1)))
    numbers = pa.array(range(len(keys)))
    text = pa.array(["v" * WIDTH]).take(pa.array([0] * len(keys)))
    (tmp_path / "in").mkdir()
    rows = pa.table({"k": keys, "x": numbers, "text": text})
    pq.write_table(rows, tmp_path / "in" / "f.parquet", row_group_size=50_000)
    shared = ("--partition-by", "k", "--memory-limit", LIMIT, "--num-cpus", 2)
    done = measure("sort", tmp_path / "in", tmp_path / "out", "--by", "x", *shared)
    assert done.peak_bytes <= parse_bytes(LIMIT)
    assert done.summary["rows"] == len(keys)
    folders = {file["name"].split("/")[0] for file in done.summary["files"]}
    assert folders == {f"k={key}" for key in range(KEYS + 1)}
    parts = sorted((tmp_path / "out" / "k=0").iterdir())
    assert len(parts) > 1
    read = [pq.read_table(part, columns=["x"], partitioning=None)["x"] for part in parts]
    assert [x for column in read for x in column.to_pylist()] == list(range(HOT_ROWS))
