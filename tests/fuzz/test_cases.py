"""Runs a few cases of the fuzz program, always the same; ``python -m tests.fuzz`` runs as many as one likes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.cases import LATER, Case
from tests.fuzz.found import FOUND

#: Consecutive seeds, by the first: every format and operation is among them.
CASES = {100: 60, LATER: 40}


def fuzz(pytestconfig: pytest.Config, *arguments: object) -> str:
    """Returns the program's output. It runs as a program, since the writers of files keep threads and descriptors."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *map(str, arguments)],
        cwd=pytestconfig.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("first", CASES)
def test_rows_are_those_of_the_oracle_within_the_limit(
    first: int, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    range_of_seeds = ["--seed", first, "--cases", CASES[first]]
    told = fuzz(pytestconfig, *range_of_seeds, "--engine", "local", "--folder", tmp_path)
    assert f"{CASES[first]} cases" in told
    assert "same: " in told


@pytest.mark.parametrize("found", FOUND, ids=lambda found: str(found.seed))
def test_seeds_are_the_cases_that_found_something(found) -> None:
    assert found.words in str(Case.draw(found.seed)), found.what


def test_what_was_found_stays_mended(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    told = fuzz(pytestconfig, "--found", "--engine", "local", "--folder", tmp_path)
    assert f"{len(FOUND)} cases" in told
