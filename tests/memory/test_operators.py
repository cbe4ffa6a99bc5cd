"""Resident memory of the other operators stays under ``--memory-limit``, measured from outside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exoshuffle.units import parse_bytes
from tests.memory.tables import write_table

ROWS, FILES = 1_000_000, 8


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes 800 MB of a random key and a string, twice the memory limits below."""
    return write_table(tmp_path_factory.mktemp("operators") / "in", FILES, ROWS, 92)


#: Command, its options, and a limit.
JOBS: dict[str, tuple[str, list[object], str]] = {
    "shuffle": ("shuffle", [], "300MB"),
    "by hash": ("repartition", ["--by", "key", "--partitions", 100], "300MB"),
    "groups": ("groupby", ["--by", "key", "--agg", "n=count(), longest=max(text)"], "600MB"),
    "windows": (
        "window",
        ["--by", "key", "--order-by", "text", "--add", "n=row_number()", "--add", "l=lag(text)"],
        "600MB",
    ),
    "distinct": ("distinct", ["--on", "key"], "600MB"),
}


@pytest.mark.parametrize("name", JOBS)
def test_one_input(name: str, source: Path, measure: Callable[..., Any], tmp_path: Path) -> None:
    command, options, limit = JOBS[name]
    measured = measure(command, source, tmp_path / "out", *options, "--memory-limit", limit)
    assert measured.summary["rows"] == FILES * ROWS
    assert measured.summary["spilled_bytes"] > 0
    assert measured.peak_bytes <= parse_bytes(limit)


def test_join(source: Path, measure: Callable[..., Any], tmp_path: Path) -> None:
    measured = measure(
        "join", source, source, tmp_path / "out", "--on", "key", "--memory-limit", "600MB"
    )
    assert measured.summary["rows"] == FILES * ROWS
    assert measured.summary["spilled_bytes"] > 0
    assert measured.peak_bytes <= 600_000_000
