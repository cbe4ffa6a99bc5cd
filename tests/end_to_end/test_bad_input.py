"""Bad input on the command line gets one sentence with the value, the limit and the remedy; nothing is half-written.

Each case: the arguments of ``sort`` before its output, the exit code, and what the sentence must say. The world they run
in is made by ``world`` below; it must be the same afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.end_to_end.oracle import write_files
from tests.end_to_end.tables import distributed

Contents = dict[str, bytes]


def _fill(root: Path) -> None:
    """Files good and bad."""
    write_files(root / "good", distributed("uniform", 2000), 2)
    (root / "empty").mkdir()
    (root / "only_hidden").mkdir()
    (root / "only_hidden" / "_SUCCESS").write_text("")
    for name, columns in (
        ("other_type", {"key": ["a"], "text": ["x"]}),
        ("other_name", {"kei": [1], "text": ["x"]}),
        ("more_columns", {"key": [1], "text": ["x"], "extra": [1]}),
    ):
        write_files(root / name, distributed("uniform", 10), 1)
        pq.write_table(pa.table(columns), root / name / "z.parquet")
    pq.write_table(pa.table({"key": [[1]], "twice": [1], "point": [{"x": 1}]}), root / "nested.parquet")
    content = (root / "good" / "part-000.parquet").read_bytes()
    (root / "truncated.parquet").write_bytes(content[: len(content) // 2])
    (root / "corrupt.parquet").write_bytes(content[:4] + b"\xaa" * 200 + content[204:])
    (root / "zero_bytes.parquet").write_bytes(b"")
    (root / "text.parquet").write_text("this is no Parquet file, but it is long enough to be one")
    (root / "text.arrow").write_text("this is no Arrow file, but it is long enough to be one")
    (root / "odd.dat").write_bytes(b"x" * 250)
    (root / "values.csv").write_text("key,v\n" + "1,2\n" * 10_050 + "1,oops\n")
    (root / "ragged.csv").write_text("key,v\n1,2\n1,2,3\n")
    (root / "twice.csv").write_text("key,key\n1,2\n")
    (root / "broken.jsonl").write_text('{"key": 1}\n{"key": \n')
    (root / "data.unknown").write_text("key\n1\n")
    (root / "mixed").mkdir()
    (root / "mixed" / "a.csv").write_text("key\n1\n")
    (root / "mixed" / "b.jsonl").write_text('{"key": 1}\n')
    (root / "taken").mkdir()
    (root / "taken" / "precious").write_text("data")
    (root / "file").write_text("data")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("world")
    _fill(root)
    return root


def _contents(root: Path) -> Contents:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b"directory"
        for path in root.rglob("*")
    }


BY = ["--by", "key"]

#: Name: (arguments with paths relative to the world, output, exit code, words of the message).
CASES: dict[str, tuple[list[str], str, int, list[str]]] = {
    "missing path": (["nowhere.parquet", *BY], "out", 1, ["nowhere.parquet", "does not exist", "check"]),
    "glob without match": (["*.orc", *BY], "out", 1, ["*.orc", "matches no file"]),
    "empty directory": (["empty", *BY], "out", 1, ["empty", "no data files"]),
    "only hidden files": (["only_hidden", *BY], "out", 1, ["only_hidden", "'_'", "skipped"]),
    "unknown extension": (["data.unknown", *BY], "out", 1, ["data.unknown", "pass the format", "parquet"]),
    "mixed formats": (["mixed", *BY], "out", 1, ["a.csv", "b.jsonl", "format"]),
    "type differs": (["other_type", *BY], "out", 1, ["'key'", "Int64", "Utf8", "part-000.parquet", "z.parquet"]),
    "name differs": (["other_name", *BY], "out", 1, ["'key'", "'kei'", "z.parquet"]),
    "more columns": (["more_columns", *BY], "out", 1, ["2 columns", "has 3", "'extra'", "z.parquet"]),
    "unknown key": (["good", "--by", "kye"], "out", 1, ["kye", "key, text"]),
    "unsortable key": (["nested.parquet", *BY], "out", 1, ["'key'", "List", "twice"]),
    "empty key": (["good", "--by", ""], "out", 2, ["--by"]),
    "unreadable key": (["good", "--by", "key sideways"], "out", 2, ["key sideways", "for example"]),
    "no key": (["good"], "out", 2, ["--by", "for example"]),
    "truncated Parquet": (["truncated.parquet", *BY], "out", 1, ["truncated.parquet", "not a readable Parquet file"]),
    "corrupt Parquet": (["corrupt.parquet", *BY], "out", 1, ["corrupt.parquet", "not a readable Parquet file"]),
    "empty Parquet": (["zero_bytes.parquet", *BY], "out", 1, ["zero_bytes.parquet", "not a readable Parquet file"]),
    "text as Parquet": (["text.parquet", *BY], "out", 1, ["text.parquet", "not a readable Parquet file"]),
    "text as Arrow": (["text.arrow", *BY], "out", 1, ["text.arrow", "not a readable Arrow IPC file"]),
    "Parquet as records": (["good", "--format", "records", "--record-size", "7"], "out", 1, ["record size 7", "multiple"]),
    "partial record": (["odd.dat"], "out", 1, ["odd.dat", "250 bytes", "record size 100"]),
    "key exceeds record": (["odd.dat", "--record-size", "50", "--key-size", "51"], "out", 2, ["51", "50"]),
    "record of no bytes": (["odd.dat", "--record-size", "0"], "out", 2, ["record_bytes is 0", "at least 1"]),
    "negative record size": (["odd.dat", "--record-size", "-5"], "out", 2, ["record_bytes is -5", "at least 1"]),
    "delimiter of two": (["values.csv", *BY, "--delimiter", "||"], "out", 2, ["||", "one ASCII character"]),
    "records by a column": (["odd.dat", "--record-size", "50", *BY], "out", 2, ["--by", "key"]),
    "bad CSV value": (["values.csv", *BY], "out", 1, ["values.csv", "line 10052", "'v'", "oops", "Int64"]),
    "ragged CSV": (["ragged.csv", *BY], "out", 1, ["ragged.csv", "line 3"]),
    "CSV column twice": (["twice.csv", *BY], "out", 1, ["twice.csv", "two columns named 'key'"]),
    "bad JSON": (["broken.jsonl", *BY], "out", 1, ["broken.jsonl", "line 2"]),
    "output exists": (["good", *BY], "taken", 1, ["taken", "exists", "--overwrite"]),
    "output is a file": (["good", *BY], "file", 1, ["file", "name a directory"]),
    "output inside input": (["good", *BY], "good/out", 1, ["good", "inside the input"]),
    "output is the input": (["good", *BY, "--overwrite"], "good", 1, ["good", "holds the input"]),
    "output holds the input": (["good", *BY, "--overwrite"], ".", 1, ["holds the input"]),
    "output below a file": (["good", *BY], "file/out", 1, ["file"]),
    "memory limit too small": (["good", *BY, "--memory-limit", "50MB"], "out", 2, ["50.0 MB", "smallest that works"]),
    "memory limit is no size": (["good", *BY, "--memory-limit", "lots"], "out", 2, ["lots", "for example"]),
    "memory limit negative": (["good", *BY, "--memory-limit", "-5"], "out", 2, ["-5"]),
    "no partitions": (["good", *BY, "--partitions", "0"], "out", 2, ["0 partitions", "between 1 and"]),
    "no CPUs": (["good", *BY, "--num-cpus", "0"], "out", 2, ["num_cpus is 0", "at least 1"]),
    "target size zero": (["good", *BY, "--target-file-size", "0"], "out", 2, ["target_file_size", "at least 1"]),
    "compression unknown": (["good", *BY, "--compression", "rar"], "out", 2, ["rar", "snappy"]),
    "compression of CSV": (["good", *BY, "--output-format", "csv", "--compression", "gzip"], "out", 2, ["csv", "gzip"]),
    "nested to CSV": (["nested.parquet", "--by", "twice", "--output-format", "csv"], "out", 1, ["CSV", "'key'", "List"]),
    "table as records": (["good", *BY, "--output-format", "records"], "out", 2, ["tables", "records"]),
    "spill directory missing": (["good", *BY, "--spill-dir", "nospill"], "out", 2, ["nospill", "create it"]),
    "spill directory is a file": (["good", *BY, "--spill-dir", "file"], "out", 2, ["file", "directory"]),
    "spill directory without files": (["good", *BY, "--spill-dir", "/proc"], "out", 2, ["/proc"]),
}


@pytest.mark.parametrize("name", CASES)
def test_one_sentence_and_nothing_written(
    name: str, filled: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, output, code, words = CASES[name]
    monkeypatch.chdir(filled)
    before = _contents(filled)
    done = command("sort", arguments[0], output, *arguments[1:])
    assert done.code == code, done.err
    message = done.sentence()
    for word in words:
        assert word in message
    assert done.out == ""
    assert _contents(filled) == before


@pytest.mark.parametrize("arguments", [["sort"], ["sort", "x"], ["sort", "a", "b", "--nope"], ["nope"], ["gensort", "1"]])
def test_wrong_usage_is_shown_by_click(arguments: list[str], command: Callable[..., Any]) -> None:
    done = command(*arguments)
    assert done.code == 2
    assert "Error: " in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["gensort", "many", "out"], 2, ["many", "for example"]),
        (["gensort", "10", "taken"], 1, ["taken", "exists", "--overwrite"]),
        (["gensort", "10", "file"], 1, ["file", "name a directory"]),
        (["gensort", "10", "out", "--partitions", "0"], 2, ["0 partitions", "at least 1"]),
        (["gensort", "10", "out", "--start", "-1"], 2, ["-1", "negative"]),
        (["valsort", "nowhere"], 1, ["nowhere", "does not exist"]),
        (["valsort", "empty"], 1, ["empty", "no data files"]),
        (["valsort", "odd.dat"], 1, ["odd.dat", "250 bytes", "100"]),
        (["explain", "nowhere", "out", "--by", "key"], 1, ["nowhere", "does not exist"]),
        (["explain", "good", "out", "--by", "kye"], 1, ["kye", "text"]),
        (["explain", "good", "out", "--by", "key", "--memory-limit", "1MB"], 2, ["1.00 MB", "smallest"]),
    ],
)
def test_the_other_commands_too(
    arguments: list[str],
    code: int,
    words: list[str],
    filled: Path,
    command: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(filled)
    before = _contents(filled)
    done = command(*arguments)
    assert done.code == code, done.err
    message = done.sentence()
    for word in words:
        assert word in message
    assert _contents(filled) == before
