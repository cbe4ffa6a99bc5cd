"""The README's examples run as they stand, and begin with what a user begins with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import exoshuffle as xs
from tests.examples.readme import README, check_printed, make_data, run_commands, run_python


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
    assert run_commands(folder) == 15
    assert (folder / "out.parquet").is_file()


def test_the_first_command_installs() -> None:
    first = re.search(r"```sh\n(.*)\n", README)
    assert first is not None
    assert first[1] == "pip install exoshuffle"
