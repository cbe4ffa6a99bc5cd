"""``join_asof`` on Ray: tasks fetch pieces within themselves, and a scan that is in no order is given up."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.jobs import merge_joins

ROWS = 30_000


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("by", [None, "g"])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_as_polars_joins(
    tmp_path: Path, is_sorted: bool, by: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_joins, "MIN_PIECE_BYTES", 50_000)
    monkeypatch.setattr(merge_joins, "rows_at_once", lambda _: 3_000)
    rng = random.Random(7)
    sides = []
    for name in ("a", "b"):
        times = [rng.randrange(9_000) for _ in range(ROWS)]
        if is_sorted:
            times.sort()
        groups = [rng.choice("abc") for _ in times]
        table = pa.table({"t": times, "g": groups, name: range(ROWS)})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=5_000)
        sides.append(pl.from_arrow(table).sort("t", maintain_order=True))
    left, right = (xs.read_parquet(tmp_path / f"{name}.parquet") for name in ("a", "b"))
    found = left.join_asof(right, "t", by=by, direction="nearest").to_arrow()
    expected = sides[0].join_asof(
        sides[1], on="t", by=by, strategy="nearest", check_sortedness=False
    )
    if by is not None:
        expected = expected.sort("g", "t", maintain_order=True)
    assert pl.from_arrow(found).equals(expected.select(found.schema.names))
