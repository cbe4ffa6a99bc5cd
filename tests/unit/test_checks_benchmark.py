"""The benchmark of the checks runs, and compares nothing but modules that do and do not hash rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.checks import WITH, WITHOUT, shares, verdict
from benchmarks.measure import Measurement
from benchmarks.rounds import Run
from exoshuffle import _native

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("operator", ["sort", "random_shuffle", "group_by"])
def test_a_module_that_hashes_rows_does_not_pass_for_one_that_does_not(
    operator: str, tmp_path: Path
) -> None:
    program = [sys.executable, "-m", "benchmarks.checks", operator, "--trial"]
    result = subprocess.run(
        [*program, "--memory-limit", "500MB", "--module", _native.__file__],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'python'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.stderr == f"{operator}, without: the module hashes rows\n"
    assert result.returncode == 1
    assert result.stdout.startswith(f"round 1: {operator}, with hashes: ")
    assert [path.name for path in (tmp_path / "bench-data").iterdir()] == ["parquet-0.002gb"]


def run(variant: str, number: int, cpu_seconds: float, exit_code: int = 0) -> Run:
    measured = Measurement(exit_code, 1, 1, 0, "", "")
    return Run(f"sort, {variant}", number, measured, {"cpu_seconds": cpu_seconds})


def test_the_median_share_of_rounds_with_both_runs_is_judged() -> None:
    runs = [run(WITH, -1, 100), run(WITHOUT, -1, 10)]
    runs += [run(WITH, 0, 100), run(WITHOUT, 0, 95)]
    runs += [run(WITH, 1, 50), run(WITHOUT, 1, 48)]
    runs += [run(WITH, 2, 40), run(WITHOUT, 2, 36)]
    runs += [run(WITH, 3, 100), run(WITHOUT, 3, 1, exit_code=1)]
    assert shares(runs, "sort") == pytest.approx([5, 4, 10])
    assert shares(runs, "group_by") == []
    assert verdict([5, 4, 10]).endswith("processor time: 5.0 (4.0 - 10.0): met")
    assert verdict([5.1, 4, 10]).endswith(": missed")
    assert verdict([]).endswith(": not compared")
