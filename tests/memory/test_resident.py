"""Resident memory stays under ``--memory-limit``, measured from outside, at several times as much data.

The data has shapes that stress different parts of the plan: records, ordinary rows, and rows of one number (sort
entries outweigh the rows). Others are of a kilobyte, and of a megabyte (a handful of rows fills a buffer).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.units import parse_bytes
from tests.memory.tables import write_table


def check_peak(measured: Any, explained: Any, limit: str) -> None:
    """Under the limit, and not above what ``explain`` projected."""
    assert measured.peak_bytes <= parse_bytes(limit)
    assert measured.peak_bytes <= explained.summary["memory_bytes"]
    assert measured.summary["spilled_bytes"] > 0


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """600 MB of records, and their checksum."""
    path = tmp_path_factory.mktemp("records") / "in"
    gensort(path, 6_000_000)
    return path, valsort(path).checksum


@pytest.mark.parametrize("strategy", ["simple", "push", "pre_shuffle_merge"])
def test_records(
    records: tuple[Path, str], tmp_path: Path, measure: Callable[..., Any], strategy: str
) -> None:
    arguments = [
        records[0],
        tmp_path / "out",
        "--strategy",
        strategy,
        "--memory-limit",
        "200MB",
    ]
    explained, measured = measure("explain", *arguments), measure("sort", *arguments)
    check_peak(measured, explained, "200MB")
    result = valsort(tmp_path / "out")
    assert result.is_sorted
    assert result.checksum == records[1]


@pytest.mark.parametrize(
    ("num_rows", "width", "limit", "strategy"),
    [
        pytest.param(625_000, 92, "250MB", "simple", id="ordinary-simple"),
        pytest.param(625_000, 92, "250MB", "push", id="ordinary-push"),
        pytest.param(4_000_000, 0, "220MB", "auto", id="narrow"),
        pytest.param(60_000, 1_000, "250MB", "auto", id="wide"),
        pytest.param(60, 1_000_000, "250MB", "auto", id="huge"),
    ],
)
def test_tables(
    tmp_path: Path,
    measure: Callable[..., Any],
    num_rows: int,
    width: int,
    limit: str,
    strategy: str,
) -> None:
    table = write_table(tmp_path / "in", 8, num_rows, width)
    arguments = [
        table,
        tmp_path / "out",
        "--by",
        "key",
        "--strategy",
        strategy,
        "--memory-limit",
        limit,
    ]
    explained, measured = measure("explain", *arguments), measure("sort", *arguments)
    check_peak(measured, explained, limit)
    assert measured.summary["rows"] == 8 * num_rows
