"""The benchmark of the other shuffles runs all engines that the tests have, and sees results that differ."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.agreement import check_agree, check_random, summary_of_files
from benchmarks.data import parquet_input
from benchmarks.measure import Measurement
from benchmarks.requirements import Requirement, memory_verdict, shares_of_fastest
from benchmarks.rounds import Run

ROOT = Path(__file__).parents[2]
OURS, ONE, OTHER = "exoshuffle, 2 GB", "duckdb, 2 GB", "polars, no limit"
#: Contenders of each operator beside Exoshuffle, and how often the table compares with them.
PEERS = {
    "random_shuffle": ["duckdb, 0.5 GB", "duckdb, no limit"],
    "group_by": ["duckdb, 0.5 GB", "duckdb, no limit", "polars, no limit"],
    "join": ["duckdb, 0.5 GB"],
}


def trial(folder: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    """Runs in a folder of its own, where no environment of peers is, so that the tests' own one does for all."""
    program = [sys.executable, "-m", "benchmarks.shuffles", "--trial", "--memory-limit", "500MB"]
    return subprocess.run(
        [*program, *settings],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'python'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("operator", PEERS)
def test_engines_agree_and_leave_nothing(operator: str, tmp_path: Path) -> None:
    result = trial(tmp_path, operator)
    assert result.returncode == 0, result.stderr
    contenders = ["exoshuffle, 0.5 GB", *PEERS[operator]]
    lines = result.stdout.splitlines()
    (agree,) = (line for line in lines if line.startswith("first results agree: "))
    assert agree.endswith("; ".join(contenders))
    assert sum(line.startswith("round 1: ") for line in lines) == len(contenders)
    assert lines[-1].startswith("required: at most 0.5 GB of memory at any time: 0.")
    assert lines[-1].endswith(": met")
    (data,) = (tmp_path / "bench-data").iterdir()
    assert data.name in ("parquet-0.002gb", "tpch-sf0.01")


def test_unknown_operator_is_named(tmp_path: Path) -> None:
    result = trial(tmp_path, "shuffel")
    assert result.returncode == 2
    assert "unknown operator shuffel; known are random_shuffle, group_by, join" in result.stderr


def test_summary_tells_rows_that_are_missing_from_those_in_other_order(tmp_path: Path) -> None:
    folder = parquet_input(0.0002, tmp_path)
    whole = summary_of_files("random_shuffle", folder)
    assert whole["rows"] == 2000
    assert whole["sum_of_rows"] == sum(range(2000))
    (folder / "part-00007.parquet").unlink()
    part = summary_of_files("random_shuffle", folder)
    with pytest.raises(AssertionError, match=r"one made .*2000.*, other .*1875"):
        check_agree({"one": whole, "other": part})


def test_check_random_passes_permutations_only() -> None:
    rows = list(range(100_000))
    with pytest.raises(AssertionError, match=r"999 of the first 1000"):
        check_random(rows[:1000], len(rows))
    block = rows[:1000]
    random.Random(1).shuffle(block)
    with pytest.raises(AssertionError, match=r"have the mean 500"):
        check_random(block, len(rows))
    random.Random(1).shuffle(rows)
    check_random(rows[:1000], len(rows))
    check_random([], 0)


def run(
    contender: str, number: int, seconds: float, peak_bytes: int = 0, exit_code: int = 0
) -> Run:
    return Run(contender, number, Measurement(exit_code, seconds, seconds, peak_bytes, "", ""), {})


def test_requirement_is_met_by_the_median_of_shares_of_the_fastest_rival_of_each_round() -> None:
    runs = [run(OURS, -1, 90), run(ONE, -1, 1)]
    runs += [run(OURS, 0, 6), run(ONE, 0, 10), run(OTHER, 0, 20)]
    runs += [run(OURS, 1, 9), run(ONE, 1, 10), run(OTHER, 1, 5)]
    runs += [run(OURS, 2, 8), run(ONE, 2, 10), run(OTHER, 2, 1, exit_code=1)]
    assert shares_of_fastest(runs, OURS, [ONE, OTHER]) == [0.6, 1.8, 0.8]
    requirement = Requirement(0.8, (ONE, OTHER))
    assert requirement.verdict(runs, OURS).endswith(": 0.80 (0.60 - 1.80): met")
    assert Requirement(0.79, (ONE, OTHER)).verdict(runs, OURS).endswith(": missed")
    assert Requirement(0.8, ("ray",)).verdict(runs, OURS).endswith("of ray: not compared")


def test_memory_is_judged_by_the_largest_peak_of_any_run() -> None:
    runs = [run(OURS, -1, 1, peak_bytes=2_100_000_000), run(OURS, 0, 1, peak_bytes=1_900_000_000)]
    assert memory_verdict(runs, OURS, 2_000_000_000).endswith("any time: 2.10: missed")
    assert memory_verdict(runs[1:], OURS, 2_000_000_000).endswith("any time: 1.90: met")
    assert memory_verdict(runs, ONE, 2_000_000_000).endswith("not run")
