"""One job of the chaos program, as a process of its own; prints its outcome on a line."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
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
        if name == "tasks":
            _run_tasks(folder)
        else:
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
    return rows.map_batches(_slow, schema=rows.schema).sort("k")


def _slow(batch: pa.Table) -> pa.Table:
    time.sleep(0.01)
    return batch


def _run_tasks(folder: Path) -> None:
    """Runs a generator per input file, and a task for each of its items."""
    (folder / "out").mkdir()
    read, write = xs.remote(_parts, num_returns="streaming"), xs.remote(_write)
    files = sorted((folder / "in").iterdir())
    streams = [read.remote(file) for file in files]
    parts = [ref for stream in streams for ref in stream]
    xs.get(
        [write.remote(ref, folder / f"out/{index:05}.parquet") for index, ref in enumerate(parts)]
    )


def _parts(file: Path) -> Iterator[pa.Table]:
    for batch in pq.ParquetFile(file).iter_batches(batch_size=20_000):
        time.sleep(0.01)
        yield pa.table(batch)


def _write(table: pa.Table, path: Path) -> None:
    """Writes a table. May run twice, so an unfinished file has another name."""
    time.sleep(0.02)
    pq.write_table(table, path.with_suffix(f".{os.getpid()}"))
    path.with_suffix(f".{os.getpid()}").rename(path)


if __name__ == "__main__":
    main()
