"""db-benchmark: its data has the shape of the original's, engines agree on every answer, and runs can be resumed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from benchmarks.agreement import Summary, check_agree, summary
from benchmarks.db_data import group_input, join_input
from benchmarks.db_questions import QUESTIONS
from benchmarks.peers import db_duckdb, db_exoshuffle, db_polars
from benchmarks.peers.job import Job
from tests.support.limits import large_memory_limit

ROOT = Path(__file__).parents[2]
NUM_ROWS = 200_000


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("db")


def counts(folder: Path, *columns: str) -> list[int]:
    """Rows, and different values of columns."""
    distinct = ", ".join(f"count(DISTINCT ({column}))" for column in columns)
    with duckdb.connect() as connection:
        found = connection.sql(f"SELECT count(*), {distinct} FROM '{folder}/*.parquet'").fetchall()  # noqa: S608  names of this test
    return list(found[0])


def test_tables_have_the_cardinalities_of_the_original(root: Path) -> None:
    grouped = group_input(NUM_ROWS, root) / "x"
    wanted = [NUM_ROWS, 100, 100, 2000, 100, 100, 2000]
    assert counts(grouped, *(f"id{index}" for index in range(1, 7))) == wanted
    # No column says anything of another.
    assert counts(grouped, "id1, id2", "id4, id5", "id2, id4", "v1, v2")[1:] == [10_000] * 3 + [25]
    joined = join_input(NUM_ROWS, root)
    assert counts(joined / "x", "id1", "id2", "id3", "id6")[1:] == [10, 200, NUM_ROWS, NUM_ROWS]
    assert counts(joined / "small", "id1", "id4") == [10, 10, 10]
    assert counts(joined / "medium", "id1", "id2", "id5") == [200, 10, 200, 200]
    assert counts(joined / "big", "id1", "id2", "id3") == [NUM_ROWS, 10, 200, NUM_ROWS]


@pytest.mark.parametrize(("table", "key"), [("small", "id1"), ("medium", "id2"), ("big", "id3")])
def test_nine_of_ten_keys_are_on_both_sides(table: str, key: str, root: Path) -> None:
    folder = join_input(NUM_ROWS, root)
    with duckdb.connect() as connection:
        shared, number = connection.sql(
            f"SELECT count(DISTINCT x.{key}), (SELECT count(*) FROM '{folder}/{table}/*.parquet') "  # noqa: S608  names of this test
            f"FROM '{folder}/x/*.parquet' x JOIN '{folder}/{table}/*.parquet' USING ({key})"
        ).fetchall()[0]
    assert shared == number * 9 // 10


@pytest.mark.keeps(
    "anon_inode:[event", "Polars starts threads for input and output, once in a process"
)
@pytest.mark.parametrize("name", QUESTIONS)
def test_engines_agree(name: str, root: Path, tmp_path: Path) -> None:
    folder = (group_input if name.startswith("group") else join_input)(NUM_ROWS, root)
    found: dict[str, Summary] = {}
    for engine in (db_exoshuffle, db_duckdb, db_polars):
        (tmp_path / engine.__name__).mkdir()
        output = tmp_path / engine.__name__ / "answer.parquet"
        limit = large_memory_limit()
        engine.answer(Job(name, str(folder), str(output), str(tmp_path), 2, limit))
        found[engine.__name__] = summary(QUESTIONS[name].summary, output)
    check_agree(found)
    assert found[db_duckdb.__name__]["rows"] > 0


def trial(folder: Path, *settings: str) -> list[str]:
    """The output of a trial; in a folder of its own, where no environment of peers is."""
    program = [sys.executable, "-m", "benchmarks.db_benchmark", "--trial", *settings]
    done = subprocess.run(
        program,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'python'}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.splitlines()


def test_answers_are_kept_and_not_asked_for_again(tmp_path: Path) -> None:
    one = ["--question", "group_q8", "--memory-limit", "1GB"]
    first = trial(tmp_path, *one, "--engine", "duckdb", "--keep")
    assert sum(line.startswith("group_q8: ") for line in first) == 1
    second = trial(tmp_path, *one, "--engine", "duckdb", "--engine", "exoshuffle")
    assert [line.split(": ")[1] for line in second if line.startswith("group_q8: ")] == [
        "exoshuffle"
    ]
    assert any(line.startswith("geometric mean of duckdb's time: ") for line in second)
    assert list((tmp_path / "bench-data").iterdir()) == []
