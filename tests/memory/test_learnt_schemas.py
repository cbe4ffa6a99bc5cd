"""Schemas of functions are learnt from few bytes: sixteen rows of 10 MB were copied, within any limit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from exoshuffle.dataset.jobs.learning import few_of
from tests.memory.measuring import measured

LIMIT_BYTES = 300_000_000
LONG = 10_000_000
PROGRAM = """
import sys
import exoshuffle as xs

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
rows = xs.read_parquet({source!r})
sys.stdout.write(str(rows.map(lambda row: {{"n": len(row["t"])}}).sum("n")))
"""


def test_from_long_rows(tmp_path: Path) -> None:
    source = tmp_path / "in.parquet"
    with pq.ParquetWriter(source, pa.schema({"t": pa.string()})) as writer:
        for _ in range(18):
            writer.write_table(pa.table({"t": ["y" * LONG]}))
    program = PROGRAM.format(limit=LIMIT_BYTES, folder=str(tmp_path), source=str(source))
    printed, peak_bytes = measured(program)
    assert printed == str(18 * LONG)
    assert peak_bytes <= LIMIT_BYTES


def test_few_rows_are_some_megabytes_and_one() -> None:
    schema = pa.schema({"t": pa.string()})
    long = pa.record_batch({"t": ["y" * LONG] * 3}, schema=schema)
    short = pa.record_batch({"t": ["y" * 1_000_000] * 3}, schema=schema)
    taken: list[int] = []

    def batches(*given: pa.RecordBatch) -> pa.Table:
        taken.clear()
        return few_of((taken.append(len(one)) or one for one in given), schema)

    assert (batches(long, short).num_rows, taken) == (1, [3])
    assert (batches(short, long, short).num_rows, taken) == (3, [3, 3])
    assert (batches(short.slice(0, 0), short, short).num_rows, taken) == (3, [0, 3, 3])
    assert (batches().schema, batches().num_rows) == (schema, 0)


def test_a_large_dictionary_counts_once() -> None:
    values = pa.array([str(number) * 500 for number in range(4000)])
    column = pa.DictionaryArray.from_arrays(pa.array(range(16), pa.int32()), values)
    batch = pa.record_batch({"d": column})
    assert few_of([batch], batch.schema).num_rows == 16
