"""``head``, ``schema``, ``count``, ``cat`` and ``completion``, and ``--where`` and ``--quiet`` of all commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.generated import assert_same_rows, query
from tests.support.oracle import read_directory

TABLE = pa.table(
    {
        "id": range(30),
        "text": [None if i % 7 == 0 else f"row {i}" for i in range(30)],
        "few": [[i] for i in range(30)],
    }
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "in.parquet")
    return tmp_path / "in.parquet"


def test_head_prints_a_table(source: Path, command) -> None:
    done = command("head", source, "-n", 2, "--columns", "text, id")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "text       id",
        "string  int64",
        "null        0",
        "row 1       1",
        "(2 rows)",
    ]


def test_head_prints_whole_rows_as_json(source: Path, command) -> None:
    done = command("head", source, "--json", "--where", "id > 25")
    assert (done.code, done.err) == (0, "")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert rows == TABLE.slice(26).to_pylist()


def test_schema(source: Path, command) -> None:
    assert command("schema", source).out.splitlines()[:2] == ["id: int64", "text: string"]
    listed = json.loads(command("schema", source, "--json").out)["columns"]
    assert listed[1] == {"name": "text", "type": "string", "nullable": True}


def test_count(source: Path, command) -> None:
    assert command("count", source).out == "30\n"
    assert json.loads(command("count", source, "--where", "id < 3", "--json").out) == {"rows": 3}


@pytest.mark.parametrize("where", [None, "id > 27", "id < 0"])
def test_cat(where: str | None, source: Path, command) -> None:
    chosen = [] if where is None else ["--where", where]
    done = command("cat", source, "--columns", "id", *chosen)
    assert (done.code, done.err) == (0, "")
    ids = query(f"select id from t where {where or 'true'} order by id", t=TABLE)["id"].to_pylist()  # noqa: S608  ours
    assert done.out.splitlines() == ["id", *map(str, ids)]
    lines = command("cat", source, "--limit", 2, "--output-format", "jsonl", *chosen).out
    assert [json.loads(line)["few"] for line in lines.splitlines()] == [[each] for each in ids[:2]]


def test_where_of_a_shuffle_and_of_the_left_side(source: Path, command, tmp_path: Path) -> None:
    done = command(
        "sort", source, tmp_path / "a", "--by", "id desc", "--where", "text is null", "--quiet"
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    wanted = query("select * from t where text is null order by id desc", t=TABLE)
    assert read_directory(tmp_path / "a", "parquet").equals(wanted)
    right = query("select id, id + 1 as other from t", t=TABLE)
    pq.write_table(right, tmp_path / "right.parquet")
    arguments = ["--on", "id", "--where", "text = 'row 8'", "--quiet"]
    done = command("join", source, tmp_path / "right.parquet", tmp_path / "b", *arguments)
    assert (done.code, done.out, done.err) == (0, "", "")
    joined = read_directory(tmp_path / "b", "parquet")
    assert_same_rows(joined.select(["id", "other"]), pa.table({"id": [8], "other": [9]}))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str, command) -> None:
    done = command("completion", shell)
    assert done.code == 0
    assert f"_EXOSHUFFLE_COMPLETE={shell}_complete" in done.out


def test_the_script_gets_commands(process, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {
        "_EXOSHUFFLE_COMPLETE": "bash_complete",
        "COMP_WORDS": "exoshuffle he",
        "COMP_CWORD": "1",
    }
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    done = process()
    assert (done.code, done.out) == (0, "plain,head\n")


@pytest.mark.parametrize("given", [["in.csv"], []])
def test_a_missing_output_is_not_called_a_missing_input(given: list[str], command) -> None:
    done = command("sort", *given, "--by", "id")
    assert done.code == 2
    assert "INPUT and OUTPUT are needed, and one is missing; - as OUTPUT" in done.err


def test_names_of_python_on_the_command_line(source: Path, command, tmp_path: Path) -> None:
    """``--how outer`` and ``distinct --by`` were refused."""
    pq.write_table(pa.table({"id": [8, 99]}), tmp_path / "right.parquet")
    arguments = [source, tmp_path / "right.parquet", tmp_path / "outer", "--on", "id"]
    assert command("join", *arguments, "--how", "outer", "--quiet").code == 0
    ids = read_directory(tmp_path / "outer", "parquet")["id"].to_pylist()
    assert sorted(ids) == [*range(30), 99]
    texts = [source, tmp_path / "texts", "--by", "text", "--quiet"]
    assert command("distinct", *texts).code == 0
    found = read_directory(tmp_path / "texts", "parquet")["text"].to_pylist()
    assert len(found) == len(set(found)) == len(set(TABLE["text"].to_pylist()))


def test_the_package_is_the_program() -> None:
    program = [sys.executable, "-m", "exoshuffle", "--version"]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert "exoshuffle" in done.stdout
