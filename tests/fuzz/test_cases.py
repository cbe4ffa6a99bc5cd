"""A few cases of the fuzz program, always the same: ``python -m tests.fuzz`` runs as many as one likes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Consecutive ones: every format and operation is among them.
FIRST_SEED, CASES = 100, 30


def test_rows_are_those_of_the_oracle_within_the_limit(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    """As a program, since the writers of the files keep threads and descriptors."""
    arguments = ["--seed", FIRST_SEED, "--cases", CASES, "--folder", tmp_path]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *map(str, arguments)],
        cwd=pytestconfig.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "same: " in done.stdout
