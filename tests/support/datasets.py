"""Fixtures: datasets."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import exoshuffle as xs


@pytest.fixture
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> xs.Dataset:
    """The rows that the file with the test calls ``TABLE``."""
    pq.write_table(request.module.TABLE, tmp_path / "in.parquet")
    return xs.read_parquet(tmp_path / "in.parquet")
