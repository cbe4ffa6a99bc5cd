"""Rows that the program gives: Ray's tasks read what the program put, as those of the local engine do."""

from __future__ import annotations

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.inputs import storing
from exoshuffle.engines.ray import RayEngine


def test_rows_in_memory_are_shuffled(engine: RayEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    del engine
    monkeypatch.setattr(storing, "BLOCK_BYTES", 200_000)
    table = pa.table({"i": list(range(50_000)), "s": [f"{i % 7}" for i in range(50_000)]})
    dataset = xs.from_arrow(table.to_reader(max_chunksize=1000))
    assert dataset.to_arrow() == table
    backwards = dataset.sort("i", descending=True).to_arrow()
    assert backwards["i"].to_pylist() == list(range(49_999, -1, -1))
    totals = dataset.group_by("s").agg(n="count").join(xs.from_items([{"s": "3"}]), on="s")
    assert totals.to_arrow().to_pydict() == {"s": ["3"], "n": [7143]}
    assert xs.range(10).filter("id > 7").to_arrow().to_pydict() == {"id": [8, 9]}
