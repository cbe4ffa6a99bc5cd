"""Dictionaries of many files may have more values together than their keys number."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_many_values_of_dictionaries_with_small_keys(
    kind: str, tmp_path: Path, engine: LocalEngine
) -> None:
    del engine
    small = pa.dictionary(pa.int8(), pa.string())
    for number in range(4):
        values = pa.array([f"{number}-{row}" for row in range(100)]).dictionary_encode().cast(small)
        table = pa.table({"n": range(100 * number, 100 * number + 100), "v": values})
        if kind == "parquet":
            pq.write_table(table, tmp_path / f"{number}.parquet")
        else:
            feather.write_feather(
                table, str(tmp_path / f"{number}.arrow"), compression="uncompressed"
            )
    rows = xs.read_parquet(tmp_path) if kind == "parquet" else xs.read_ipc(tmp_path)
    assert rows.schema.field("v").type == pa.dictionary(pa.int32(), pa.string())
    wanted = [f"{number}-{row}" for number in range(4) for row in range(100)]
    for made in (
        rows,
        rows.sort("n"),
        rows.filter("n >= 0").sort("n"),
        rows.sort("n", descending=True).sort("n"),
    ):
        table = made.to_arrow()
        table.validate(full=True)
        assert table["v"].combine_chunks().to_pylist() == wanted
    counts = rows.group_by("v").agg(c="count").to_arrow()
    assert counts.num_rows == 400
    one = (
        xs.read_parquet(tmp_path / "0.parquet")
        if kind == "parquet"
        else xs.read_ipc(tmp_path / "0.arrow")
    )
    assert one.schema.field("v").type == small
