"""The README's examples run as they stand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import exoshuffle as xs
from tests.examples.readme import check_printed, make_data, run_commands, run_python


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    make_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    xs.shutdown()


def test_python(folder: Path) -> None:
    check_printed(run_python(folder))
    assert {path.name for path in folder.iterdir()} >= {"sorted", "by-user"}


def test_commands(folder: Path) -> None:
    assert run_commands(folder) == 13
    assert (folder / "out.parquet").is_file()
