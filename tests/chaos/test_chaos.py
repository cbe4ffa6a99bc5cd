"""Runs the chaos program for some seconds; ``make chaos`` runs it for an hour."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_no_row_is_lost_and_every_job_ends(pytestconfig: pytest.Config) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", "--seconds", "15"],
        cwd=pytestconfig.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "same rows: " in done.stdout
