"""How many streams of a file a query reads at once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.inputs.file_input import FileInput
from exoshuffle.dataset.jobs.leaves import Leaf
from exoshuffle.dataset.tree.nodes import Files

MANY = 40_000_000


@pytest.mark.parametrize(("length", "streams"), [(10, 2), (MANY // 2, 1)])
def test_long_rows_are_one_stream(length: int, streams: int, tmp_path: Path) -> None:
    """A second stream waited in vain for the turn that the row of the first one had: 10 s each time."""
    path = tmp_path / "in.parquet"
    schema = pa.schema({"t": pa.string()})
    with pq.ParquetWriter(path, schema) as file:
        for index in range(2):
            rows = [f"{index}" * length] * (MANY // 2 // length)
            file.write_table(pa.table({"t": rows}, schema))
    node = xs.read_parquet(path).node
    assert isinstance(node, Files)
    leaf = Leaf(FileInput(node.source), ("t",), schema, is_open=False)
    assert leaf.num_streams(2) == streams
