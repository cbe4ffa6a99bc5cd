"""The command line does what its help says: sort, explain, gensort, valsort, summaries, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from exoshuffle import __version__
from exoshuffle.dataset.write import replacing
from exoshuffle.strategies.library import strategy_names
from tests.support.oracle import write_files
from tests.support.tables import distributed

LIMIT = ("--memory-limit", "2GB")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_files(tmp_path / "in", distributed("mostly null", 5000), 3)


def test_the_whole_tour_as_programs(process, tmp_path: Path) -> None:
    made = process("gensort", "5MB", tmp_path / "records", "--partitions", 3, "--json")
    assert made.code == 0
    assert json.loads(made.out)["records"] == 50_000
    unsorted = process("valsort", tmp_path / "records")
    assert unsorted.code == 1
    assert "out of order" in unsorted.err
    assert "Traceback" not in unsorted.err
    done = process("sort", tmp_path / "records", tmp_path / "out", "--memory-limit", "300MB")
    assert (done.code, done.err) == (0, "")
    assert "50,000 rows" in done.out
    checked = process("valsort", tmp_path / "out")
    assert checked.code == 0
    assert "SUCCESS - all records are in order" in checked.out
    assert checked.out.splitlines()[1] == unsorted.out.splitlines()[1]


def test_the_program_is_installed(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "exoshuffle"
    done = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path
    )
    assert __version__ in done.stdout


SHUFFLES = ["shuffle", "repartition", "groupby", "distinct", "join"]


@pytest.mark.parametrize("name", ["", "sort", "explain", "gensort", "valsort", *SHUFFLES])
def test_help_shows_an_example(name: str, command) -> None:
    shown = command(*[name] * bool(name), "--help")
    assert shown.code == 0
    assert "Example" in shown.out
    assert f"exoshuffle {name or 'sort'} " in shown.out.split("Example")[1]


def test_sort_by_several_keys(source: Path, command, tmp_path: Path) -> None:
    done = command(
        "sort",
        source,
        tmp_path / "out",
        "--by",
        "key desc nulls first, text",
        *LIMIT,
        "--partitions",
        4,
    )
    assert (done.code, done.err) == (0, "")
    rows = pq.read_table(tmp_path / "out").to_pylist()
    plain = pq.read_table(source).to_pylist()
    plain.sort(key=lambda row: row["text"].encode())
    plain.sort(key=lambda row: (row["key"] is not None, -(row["key"] or 0)))
    assert rows == plain


@pytest.mark.parametrize("guess", ["--descending", "--desc", "--reverse"])
def test_a_direction_for_all_keys_is_refused_with_the_remedy(
    guess: str, source: Path, command, tmp_path: Path
) -> None:
    refused = command("sort", source, tmp_path / "out", "--by", "key", guess)
    assert refused.code == 2
    assert 'write --by "name desc"' in refused.err


def test_the_json_summary(source: Path, command, tmp_path: Path) -> None:
    done = command("sort", source, tmp_path / "out", "--by", "key", *LIMIT, "--json")
    summary = json.loads(done.out)
    assert summary["rows"] == 5000
    assert summary["path"] == str(tmp_path / "out")
    assert summary["bytes"] == sum(file["bytes"] for file in summary["files"])
    assert summary["files"][0]["crc32"] == zlib.crc32(
        (tmp_path / "out" / "part-00000.parquet").read_bytes()
    )
    assert {"seconds", "peak_memory_bytes", "spilled_bytes", "plan"} <= summary.keys()


def test_other_formats_in_and_out(command, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("k|v\n2|x\n1|y\n")
    done = command(
        "sort", tmp_path / "in.txt", tmp_path / "out", "--by", "k", "--format", "csv", "--delimiter", "|",
        "--output-format", "jsonl", *LIMIT,
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert (
        tmp_path / "out" / "part-00000.jsonl"
    ).read_text() == '{"k":1,"v":"y"}\n{"k":2,"v":"x"}\n'


@pytest.mark.parametrize("tab", ["\t", r"\t"])
def test_a_tab_is_itself_or_what_it_is_written_as(tab: str, command, tmp_path: Path) -> None:
    """Quotes of shells keep the backslash."""
    (tmp_path / "in.csv").write_text("k\tv\n2\tx\n")
    done = command("cat", tmp_path / "in.csv", "--delimiter", tab, "--output-format", "csv")
    assert (done.code, done.out) == (0, "k,v\n2,x\n"), done.err


def test_types_of_columns_and_files_without_a_header(command, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1.10,007\n1.00,b=c\n")
    done = command(
        "sort", tmp_path / "in.csv", tmp_path / "out", "--by", "column_0", "--no-header",
        "--column-type", "column_0=decimal(5,2)", "--column-type", "column_1=text", *LIMIT,
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    text = (tmp_path / "out" / "part-00000.csv").read_text()
    assert text == "column_0,column_1\n1.00,b=c\n1.10,007\n"


def test_records_of_another_size(command, tmp_path: Path) -> None:
    (tmp_path / "in.raw").write_bytes(b"b1a2c3a1")
    arguments = ["--format", "records", "--record-size", "2", "--key-size", "1", *LIMIT]
    assert command("sort", tmp_path / "in.raw", tmp_path / "out", *arguments).code == 0
    assert next((tmp_path / "out").glob("part-*")).read_bytes() == b"a2a1b1c3"
    checked = command("valsort", tmp_path / "out", "--record-size", 2, "--key-size", 1, "--json")
    assert json.loads(checked.out)["sorted"] is True


def test_compression_and_target_file_size(source: Path, command, tmp_path: Path) -> None:
    arguments = ["--by", "key", "--compression", "zstd", "--target-file-size", "20kB", *LIMIT]
    assert command("sort", source, tmp_path / "out", *arguments).code == 0
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert len(files) > 1
    assert pq.read_metadata(files[0]).row_group(0).column(0).compression == "ZSTD"


def test_several_inputs_and_overwrite(source: Path, command, tmp_path: Path) -> None:
    files = sorted(source.iterdir())
    assert command("sort", files[0], tmp_path / "out", "--by", "key", *LIMIT).code == 0
    again = command("sort", *files, tmp_path / "out", "--by", "key", *LIMIT, "--overwrite")
    assert again.code == 0
    (tmp_path / "out" / "notes.txt").touch()
    arguments = ["sort", source, tmp_path / "out", "--by", "key", *LIMIT]
    assert command(*arguments, "--overwrite").code == 1
    assert command(*arguments, "--overwrite-anything").code == 0
    assert pq.read_table(tmp_path / "out").num_rows == 5000
    assert not (tmp_path / "out" / "notes.txt").exists()


def test_explain_runs_nothing(source: Path, command, tmp_path: Path) -> None:
    arguments = [source, tmp_path / "out", "--by", "key", *LIMIT, "--partitions", 7]
    shown = command("explain", *arguments)
    assert (shown.code, shown.err) == (0, "")
    for word in (
        "partitions",
        "rounds",
        "merge factor",
        "peak memory",
        "tasks",
        "requests",
        "spill disk",
        "free",
        "output files",
        "files",
    ):
        assert word in shown.out
    bill = json.loads(command("explain", *arguments, "--json").out)
    assert (bill["partitions"], bill["rows"], bill["input_files"]) == (7, 5000, 3)
    assert bill["memory_bytes"] <= 2_000_000_000
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("strategy", ["auto", *strategy_names()])
def test_strategies_give_the_same_files(
    strategy: str, source: Path, command, tmp_path: Path
) -> None:
    arguments = ["--by", "key", "--partitions", 5, *LIMIT, "--json"]
    reference = json.loads(command("sort", source, tmp_path / "a", *arguments).out)
    other = json.loads(
        command("sort", source, tmp_path / "b", *arguments, "--strategy", strategy).out
    )
    assert other["files"] == reference["files"]


@pytest.mark.parametrize("strategy", strategy_names())
def test_with_copies_of_slow_tasks_the_files_are_the_same(
    strategy: str, source: Path, command, tmp_path: Path
) -> None:
    arguments = ["--by", "key", "--partitions", 5, *LIMIT, "--json", "--strategy", strategy]
    reference = json.loads(command("sort", source, tmp_path / "a", *arguments).out)
    copied = json.loads(command("sort", source, tmp_path / "b", *arguments, "--speculate").out)
    assert copied["files"] == reference["files"]


def test_spill_directories_are_left_empty(command, tmp_path: Path) -> None:
    command("gensort", "40MB", tmp_path / "records")
    spills = [tmp_path / "s1", tmp_path / "s2"]
    for folder in spills:
        folder.mkdir()
    arguments = [argument for folder in spills for argument in ("--spill-dir", folder)]
    done = command("sort", tmp_path / "records", tmp_path / "out", *LIMIT, *arguments)
    assert done.code == 0
    assert [list(folder.iterdir()) for folder in spills] == [[], []]


def test_interrupted_when_the_output_is_in_place(
    source: Path, command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["sort", source, tmp_path / "out", "--by", "key", *LIMIT]
    assert command(*arguments).code == 0
    plain = replacing.exchange

    def exchange(*arguments: Path) -> bool:
        signal.raise_signal(signal.SIGINT)
        return plain(*arguments)

    monkeypatch.setattr(replacing, "exchange", exchange)
    again = command(*arguments, "--overwrite", "--partitions", 3)
    assert again.code == 130
    assert again.sentence() == f"interrupted; the output {tmp_path}/out is complete and in place"
    assert len(list((tmp_path / "out").glob("part-*"))) == 3


def test_interrupted_by_the_user(tmp_path: Path) -> None:
    """Ctrl-C as soon as there is something to clean up."""
    program = [sys.executable, "-c", "from exoshuffle.cli import main; main()"]
    subprocess.run(
        [*program, "gensort", "200MB", str(tmp_path / "in")],
        check=True,
        capture_output=True,
        timeout=60,
    )
    arguments = ["sort", str(tmp_path / "in"), str(tmp_path / "out"), "--memory-limit", "250MB"]
    with subprocess.Popen([*program, *arguments], stderr=subprocess.PIPE, text=True) as running:
        while running.poll() is None and not list(tmp_path.glob(".out.exoshuffle-*")):
            os.sched_yield()
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
