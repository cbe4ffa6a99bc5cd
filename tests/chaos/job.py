"""One job of the chaos program, as a process of its own: says on a line what came of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

import exoshuffle as xs
from exoshuffle.errors import ExoshuffleError


def main() -> None:
    """Runs the job that the arguments say: its name, the memory limit, and a folder with ``in`` and ``spill``."""
    name, memory_limit, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    sys.stdout.write(json.dumps(_answered(name, memory_limit, folder)) + "\n")


def _answered(name: str, memory_limit: str, folder: Path) -> dict[str, Any]:
    xs.init(memory_limit=memory_limit, num_cpus=2, spill_dirs=str(folder / "spill"))
    try:
        _job(name, xs.read_parquet(folder / "in")).write_parquet(folder / "out")
    except ExoshuffleError as error:
        return {"error": type(error).__name__, "text": str(error)[:300]}
    finally:
        xs.shutdown()
    files = sorted((folder / "out").glob("*.parquet"))
    rows = sum(pq.ParquetFile(file).metadata.num_rows for file in files)
    with duckdb.connect(config={"threads": 1}) as connection:
        found = connection.execute(  # noqa: RUF100, S608
            f"select sum(id), bit_xor(hash(id, pad)) from read_parquet({[str(file) for file in files]})"  # noqa: S608
        ).fetchone()
    return {"error": None, "rows": rows, "sums": list(map(int, found or ()))}


def _job(name: str, rows: xs.Dataset) -> xs.Dataset:
    if name == "sort":
        return rows.sort("k")
    if name == "push":
        return rows.sort("k", strategy="push")
    if name == "shuffle":
        return rows.random_shuffle(1)
    if name == "distinct":
        return rows.distinct("id")
    return rows.map_batches(lambda batch: batch).sort("k")


if __name__ == "__main__":
    main()
