"""Scans cut no large page into parts, each of which would decode it. Where steps hold rows, parts stay small."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.inputs.file_input import FileInput
from exoshuffle.dataset.jobs import unshuffled
from exoshuffle.dataset.jobs.unshuffled import ScanJob
from exoshuffle.engines.local import LocalEngine
from exoshuffle.operators.core.at_once import AtOnce
from exoshuffle.operators.steps.columns import Filter
from exoshuffle.operators.steps.functions import MapBatches
from exoshuffle.operators.steps.step import Step

ROWS, TEXT_BYTES, PAGE_BYTES = 3_000, 10_000, 40_000_000


def _same(table: pa.Table) -> pa.Table:
    return table


def _parts(path: Path, engine: LocalEngine, *steps: Step) -> list[int]:
    """Returns the number of rows of each part of a scan."""
    rows = xs.read_parquet(path)
    job = ScanJob([FileInput(rows.node.source, steps)], rows.schema, engine)
    [items] = job.items
    return [item.size for item in items]  # type: ignore[attr-defined]


def test_a_page_that_is_packed_well_is_one_part(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unshuffled, "MAX_SCAN_BYTES", 1_000_000)
    path = tmp_path / "in.parquet"
    texts = pa.table({"text": [f"{i:0{TEXT_BYTES}}" for i in range(ROWS)]})
    options = {"use_dictionary": False, "compression": "zstd", "write_batch_size": 1}
    pq.write_table(texts, path, row_group_size=ROWS, data_page_size=PAGE_BYTES, **options)
    assert _parts(path, engine, Filter("text > '1'")) == [ROWS]


@pytest.mark.parametrize("page_bytes", [PAGE_BYTES, TEXT_BYTES])
def test_parts_are_no_smaller_than_pages(
    page_bytes: int, engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unshuffled, "MAX_SCAN_BYTES", 1_000_000)
    path = tmp_path / "in.parquet"
    texts = pa.table({"id": range(ROWS), "text": [f"{i:0{TEXT_BYTES}}" for i in range(ROWS)]})
    options = {"use_dictionary": False, "compression": "none", "write_batch_size": 1}
    pq.write_table(texts, path, row_group_size=ROWS, data_page_size=page_bytes, **options)
    kept = Filter("id >= 0")
    known = xs.read_parquet(path).schema
    parts = _parts(path, engine, kept)
    assert sum(parts) == ROWS
    assert (len(parts) <= 12) == (page_bytes == PAGE_BYTES), "30 parts decoded 30 MB each"
    # A step that holds its rows, and functions, which all CPUs should run.
    assert len(_parts(path, engine, kept, AtOnce(_same, known, ("id",)))) >= 30
    assert len(_parts(path, engine, kept, MapBatches(_same, known))) >= 30
    assert xs.read_parquet(path).filter("id % 2 = 0").count() == ROWS // 2
