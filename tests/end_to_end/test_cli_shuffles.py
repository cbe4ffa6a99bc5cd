"""The commands that shuffle do what the methods of datasets do, and share the options and errors of ``sort``."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.support.generated import assert_same_rows, generated, query
from tests.support.oracle import read_directory, write_files

ROWS = 20_000
LIMIT = ("--memory-limit", "2GB")
TABLE = generated(ROWS, keys=300).drop_columns(["nested"])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("commands") / "in", TABLE, 3, rows_per_group=2000)


#: Command, its options, and the query with the same result.
JOBS = {
    "shuffle": (["--seed", 3], "select * from t"),
    "sort": (["--by", "k desc, id", "--limit", 70], "select * from t order by k desc, id limit 70"),
    "sample": (["--rows", ROWS], "select * from t"),
    "repartition": (["--partitions", 4, "--by", "k"], "select * from t"),
    "groupby": (
        ["--by", "k, small", "--agg", "n=count(), total=sum(id)"],
        "select k, small, count(*) as n, sum(id)::bigint as total from t group by k, small",
    ),
    "window": (
        ["--by", "k", "--order-by", "small desc, id", "--frame", "-2:", "--add", "n = sum(id)"],
        "select *, (sum(id) over (partition by k order by small desc, id rows between 2 preceding and "
        "unbounded following))::bigint as n from t",
    ),
    "groupby by an expression": (
        ["--by", "k % 3", "--agg", "mean=sum(id * small) / count(*), max(id)"],
        """select k % 3 as "k % 3", sum(id * small) / count(*) as mean, max(id) from t group by k % 3""",
    ),
    "sort by an expression": (
        ["--by", "k % 3 desc, round(id, 2)", "--limit", 70],
        "select * from t order by k % 3 desc, id limit 70",
    ),
    "window by distances": (
        ["--by", "k % 3", "--order-by", "id", "--range-frame=-7:1", "--add", "n = count(*)"],
        "select *, count(*) over (partition by k % 3 order by id range between 7 preceding and 1 following) as n "
        "from t",
    ),
    "distinct": (
        ["--on", "k"],
        "select * from t qualify row_number() over (partition by k order by id) = 1",
    ),
}


@pytest.mark.parametrize("name", JOBS)
def test_what_it_writes(name: str, source: Path, command, tmp_path: Path) -> None:
    options, sql = JOBS[name]
    done = command(name.partition(" ")[0], source, tmp_path / "out", *options, *LIMIT, "--json")
    assert (done.code, done.err) == (0, "")
    actual = read_directory(tmp_path / "out", "parquet")
    assert_same_rows(actual, query(sql, t=TABLE))
    assert json.loads(done.out)["rows"] == actual.num_rows


@pytest.mark.parametrize("name", JOBS)
def test_explain_runs_nothing(name: str, source: Path, command, tmp_path: Path) -> None:
    options, _ = JOBS[name]
    shown = command(name.partition(" ")[0], source, tmp_path / "out", *options, *LIMIT, "--explain")
    assert (shown.code, shown.err) == (0, "")
    assert "peak memory" in shown.out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("window", ["512", "100kB"])
def test_shuffle_within_windows(window: str, source: Path, command, tmp_path: Path) -> None:
    done = command("shuffle", source, tmp_path / "out", "--window", window, "--seed", 3, *LIMIT)
    assert (done.code, done.err) == (0, "")
    actual = read_directory(tmp_path / "out", "parquet")
    assert_same_rows(actual, TABLE)
    ids = actual["id"].to_pylist()
    assert ids != sorted(ids)
    neighbours = [abs(one - other) for one, other in itertools.pairwise(ids)]
    assert sorted(neighbours)[ROWS // 2] < 2000


def test_sample_of_a_fraction(source: Path, command, tmp_path: Path) -> None:
    done = command("sample", source, tmp_path / "out", "--fraction", 0.25, "--seed", 3, *LIMIT)
    assert (done.code, done.err) == (0, "")
    rows = read_directory(tmp_path / "out", "parquet").num_rows
    assert abs(rows - ROWS / 4) < 4 * (ROWS * 3 / 16) ** 0.5


@pytest.mark.parametrize(
    "arguments", [["shuffle"], ["shuffle", "--window", "300"], ["sample", "--fraction", "0.5"]]
)
def test_the_command_line_tells_a_fresh_seed(
    arguments: list[str], source: Path, command, tmp_path: Path
) -> None:
    name, *options = arguments

    def run(out: str, *more: object):
        done = command(name.partition(" ")[0], source, tmp_path / out, *options, *LIMIT, *more)
        assert (done.code, done.err) == (0, "")
        return done.out

    (seed,) = json.loads(run("a", "--json"))["seeds"]
    assert run("b").splitlines()[-1].startswith("seed ")
    assert f"seed {seed}" in run("c", "--seed", seed).splitlines()[-1]
    first, fresh, again = (read_directory(tmp_path / out, "parquet")["id"] for out in "abc")
    assert first == again
    assert first != fresh
    assert json.loads(run("d", "--explain", "--json", "--seed", 5))["seeds"] == [5]
    assert run("d", "--explain", "--seed", 5).splitlines()[-1].split() == ["seed", "5"]


def test_join(source: Path, command, tmp_path: Path) -> None:
    write_files(
        tmp_path / "keys", query("select distinct k as key from t where k < 50", t=TABLE), 1
    )
    arguments = [source, tmp_path / "keys", tmp_path / "out", "--left-on", "k", "--right-on", "key"]
    done = command("join", *arguments, "--how", "semi", *LIMIT, "--output-format", "csv")
    assert (done.code, done.err) == (0, "")
    wanted = query("select count(*) from t where k < 50", t=TABLE)[0][0].as_py()
    assert f"{wanted:,} rows" in done.out


def test_modes(source: Path, command, tmp_path: Path) -> None:
    """Twice the rows after two runs that append; none is lost or added by others."""
    arguments = ["sample", source, tmp_path / "out", "--rows", 10, *LIMIT, "--mode"]
    assert command(*arguments, "append").code == command(*arguments, "append").code == 0
    assert read_directory(tmp_path / "out", "parquet").num_rows == 20
    left = command(*arguments, "ignore")
    assert (left.code, left.out) == (0, f"{tmp_path}/out exists, and stays as it is\n")
    assert command(*arguments, "error").code == 1
    assert command(*arguments, "overwrite").code == 0
    assert read_directory(tmp_path / "out", "parquet").num_rows == 10
