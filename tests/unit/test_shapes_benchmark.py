"""The shapes: every engine's program gives DuckDB's rows, differences are seen, and nothing is hidden in the report."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import duckdb
import pytest

from benchmarks.measure import Measurement
from benchmarks.peers.job import Job
from benchmarks.rounds import Rounds
from benchmarks.shapes import runs
from benchmarks.shapes.catalogue import shapes
from benchmarks.shapes.data import DATA, data_input
from benchmarks.shapes.engines import duckdb as duckdb_shapes
from benchmarks.shapes.engines import exoshuffle as exoshuffle_shapes
from benchmarks.shapes.engines import polars as polars_shapes
from benchmarks.shapes.fingerprint import columns_of, difference, fingerprint
from benchmarks.shapes.report import Report, show, write
from benchmarks.shapes.runs import Game, Result, Settings
from benchmarks.shapes.shape import SECTIONS
from benchmarks.shapes.sizes import GB, SIZES
from tests.support.limits import large_memory_limit

ROOT = Path(__file__).parents[2]
TRIAL = SIZES["trial"]
SHAPES = shapes(TRIAL.tpch)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shapes")


def test_shapes_are_told_apart_and_have_a_program_of_each_engine() -> None:
    assert set(SHAPES) == set(exoshuffle_shapes.ANSWERS)
    assert set(SHAPES) - set(polars_shapes.ANSWERS) == {"random_order"}
    assert {one.section for one in SHAPES.values()} == set(SECTIONS)
    assert {one.data for one in SHAPES.values()} == set(DATA)


@pytest.mark.keeps(
    "anon_inode:[event", "Polars starts threads for input and output, once in a process"
)
@pytest.mark.parametrize("name", SHAPES)
def test_engines_have_the_rows_of_duckdb(name: str, root: Path, tmp_path: Path) -> None:
    shape = SHAPES[name]
    data = data_input(shape.data, TRIAL, root)

    def output(engine: str, answer: Callable[[Job], None]) -> Path:
        ending = "csv" if shape.output == "csv" else "parquet"
        path = tmp_path / (engine if engine == "exoshuffle" else f"{engine}.{ending}")
        scale, limit = TRIAL.tpch, large_memory_limit()
        job = Job(name, str(data), str(path), str(tmp_path), 2, limit, 0, scale, shape.output)
        answer(job)
        return path

    wanted = output("duckdb", duckdb_shapes.main)
    columns = columns_of(wanted)
    numbers = fingerprint(wanted, columns, shape.ordered)
    assert numbers.rows > 0
    ours = output("exoshuffle", exoshuffle_shapes.answer)
    assert difference(ours, columns, shape.ordered, numbers) is None
    if name in polars_shapes.ANSWERS:
        theirs = output("polars", polars_shapes.answer)
        assert difference(theirs, columns, shape.ordered, numbers) is None


#: A result with columns of every kind that is compared in a way of its own.
ROWS = """
    SELECT i AS id, 'name ' || i AS name, i / 7 AS share, (i / 4)::DECIMAL(10, 2) AS price,
        CASE WHEN i % 5 = 0 THEN NULL ELSE [i, i + 1] END AS list
    FROM range(1000) numbers(i)
"""


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * FROM r ORDER BY id", None),
        ("SELECT id::INTEGER, name, share, price::DOUBLE, list FROM r ORDER BY id", None),
        ("SELECT * REPLACE (share * (1 + 1e-14) AS share) FROM r ORDER BY id", None),
        ("SELECT * FROM r ORDER BY id DESC", "order of rows"),
        ("SELECT * FROM r WHERE id <> 500 ORDER BY id", "999 rows and 1000"),
        ("SELECT * FROM r UNION ALL SELECT * FROM r WHERE id = 5", "1001 rows and 1000"),
        ("SELECT * EXCLUDE (list) FROM r ORDER BY id", "4 columns, not 5"),
        ("SELECT * REPLACE (share + 1e-5 AS share) FROM r ORDER BY id", "weighted sum"),
        ("SELECT * REPLACE ((999 - id) / 7 AS share) FROM r ORDER BY id", "weighted sum"),
        (
            "SELECT * REPLACE (if(id = 7, NULL, price) AS price) FROM r ORDER BY id",
            "finite values",
        ),
        ("SELECT * REPLACE (if(id = 7, 'nan', share) AS share) FROM r ORDER BY id", "finite"),
        (
            "SELECT * REPLACE (if(id = 5, [5::BIGINT, 6], list) AS list) FROM r ORDER BY id",
            "exact columns",
        ),
        ("SELECT * REPLACE ('x' AS id) FROM r", "Conversion Error"),
    ],
)
def test_differences_are_seen(query: str, words: str | None, tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE r AS {ROWS}")
        connection.execute(f"COPY (FROM r ORDER BY id) TO '{tmp_path}/wanted.parquet'")
        connection.execute(f"COPY ({query}) TO '{tmp_path}/made.parquet'")
    columns = columns_of(tmp_path / "wanted.parquet")
    wanted = fingerprint(tmp_path / "wanted.parquet", columns, ordered=True)
    found = difference(tmp_path / "made.parquet", columns, True, wanted)
    assert found is None if words is None else words in str(found)


def test_order_does_not_count_where_the_query_gives_none(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({ROWS} ORDER BY i) TO '{tmp_path}/wanted.parquet'")
        connection.execute(f"COPY ({ROWS} ORDER BY hash(i)) TO '{tmp_path}/made.parquet'")
    columns = columns_of(tmp_path / "wanted.parquet")
    for ordered, words in ((False, None), (True, "exact columns differ, or the order of rows")):
        wanted = fingerprint(tmp_path / "wanted.parquet", columns, ordered)
        assert difference(tmp_path / "made.parquet", columns, ordered, wanted) == words


def test_no_rows_equal_no_rows(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({ROWS} LIMIT 0) TO '{tmp_path}/wanted.parquet'")
    columns = columns_of(tmp_path / "wanted.parquet")
    wanted = fingerprint(tmp_path / "wanted.parquet", columns, ordered=True)
    assert wanted.rows == 0
    assert difference(tmp_path / "wanted.parquet", columns, True, wanted) is None


def settings(root: Path, num_rounds: int = 2) -> Settings:
    return Settings(root, TRIAL, 2, GB, 60, Rounds(num_rounds, 1))


def test_an_engine_with_other_rows_is_taken_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each engine is a query here."""
    queries = {"exoshuffle": "SELECT 2 AS x", "duckdb": "SELECT 1 AS x", "polars": "SELECT 1 AS x"}
    shape = dataclasses.replace(SHAPES["tiny_group"], query="SELECT 1 AS x")

    limits: list[tuple[str, int | None]] = []

    def measure(command: list[str], timeout_seconds: float) -> Measurement:
        assert timeout_seconds == 60
        job = Job(**json.loads(command[-1]))
        engine = command[-2].rsplit(".", 1)[-1]
        if engine == "daft":
            return Measurement(69, 1, 1, 0, "", "no daft here")
        if engine != "polars" or job.memory_limit_bytes is not None:
            limits.append((engine, job.memory_limit_bytes))
        output = Path(job.output)
        if engine == "exoshuffle":
            output.mkdir()
            output /= "part-00000.parquet"
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({queries[engine]}) TO '{output}'")
        return Measurement(0, 3, 4, 5, "", "", 2)

    monkeypatch.setattr(runs, "measure", measure)
    game = Game(shape, settings(tmp_path))
    found = {one.engine: one for one in game.play(runs.ENGINES)}
    assert found["duckdb"] == Result("tiny_group", "duckdb", (4, 4), (2, 2), 5)
    assert found["polars"] == Result("tiny_group", "polars", (4, 4), (2, 2), 5)
    assert found["daft"].error == "not installed"
    assert found["exoshuffle"].error.startswith("its result is not DuckDB's: exact columns")
    assert found["exoshuffle"].seconds == ()
    # Polars has none, and Exoshuffle only one run.
    assert limits == [(one, GB) for one in ("duckdb", "exoshuffle", "duckdb", "duckdb")]


def result(engine: str, *seconds: float, error: str = "") -> Result:
    return Result("tiny_sort", engine, seconds, seconds, 10**9, error)


def test_ratios_are_those_of_rounds_and_failures_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [
        result("exoshuffle", 2, 6, 9),
        result("duckdb", 1, 2, 3),
        result("polars", 4, 1, 9),
        result("daft", error="not a word"),
    ]
    report = Report({"date": "today"}, {(one.shape, one.engine): one for one in results})
    # 2 / 1, 6 / 1 and 9 / 3
    assert report.ratio("tiny_sort", ("duckdb", "polars")) == 3
    assert report.ratio("tiny_sort", ("polars",)) == 1
    assert report.ratio("tiny_sort", ("daft",)) is None
    write(report, tmp_path)
    page = (tmp_path / "shapes.md").read_text()
    assert "- tiny_sort: Daft: not a word" in page
    assert "- 0 of 1 shapes take at most 1.2 of the time" in page
    (row,) = (line for line in page.splitlines() if "(`tiny_sort`)" in line)
    assert [cell.strip() for cell in row.split("|")][2:-1] == [
        "6.00 (2.00 - 9.00)",
        "2.00 (1.00 - 3.00)",
        "4.00 (1.00 - 9.00)",
        "failed",
        "3.00",
        "3.00",
        *["1.00"] * 4,
    ]
    svg = ET.fromstring((tmp_path / "shapes.svg").read_text())  # noqa: S314  made here
    titles = [one.text for one in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["tiny_sort: 3.00 of DuckDB", "tiny_sort: 1.00 of Polars"]
    show(report)
    assert "tiny_sort: Daft: not a word" in capsys.readouterr().out


def test_results_are_kept_and_shapes_not_played_again(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "benchmarks.shapes", "--size", "trial", "--rounds", "1"]
    engines = ["--engine", "exoshuffle", "--engine", "duckdb"]
    chosen = ["--shape", "tiny_filter", "--warm-up", "0", "--results", "found.jsonl"]
    outputs = [
        subprocess.run(
            [*program, *engines, *chosen],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'python'}"},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.splitlines()
        for _ in range(2)
    ]
    played = [[line for line in output if line.startswith("round 1: ")] for output in outputs]
    assert [len(lines) for lines in played] == [2, 0]
    described, *lines = (tmp_path / "found.jsonl").read_text().splitlines()
    assert json.loads(described)["memory limit"] == "1.00 GB"
    found = [Result.from_json(line) for line in lines]
    assert [(one.engine, len(one.seconds), one.error) for one in found] == [
        ("exoshuffle", 1, ""),
        ("duckdb", 1, ""),
    ]
