"""Bad input on the command line gets one sentence: the value, the limit, the remedy.

Each case: the arguments of ``sort`` but for its output, the output, the exit code, and what the sentence must say. The
directory that they run in must be the same afterwards.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

BY = ["--by", "key"]

#: Name: (arguments with paths relative to the world, output, exit code, words of the message).
CASES: dict[str, tuple[list[str], str, int, list[str]]] = {
    "missing path": (
        ["nowhere.parquet", *BY],
        "out",
        1,
        ["nowhere.parquet", "does not exist", "check"],
    ),
    "glob without match": (["*.orc", *BY], "out", 1, ["*.orc", "matches no file"]),
    "empty directory": (["empty", *BY], "out", 1, ["empty", "no data files"]),
    "only hidden files": (["only_hidden", *BY], "out", 1, ["only_hidden", "'_'", "skipped"]),
    "unknown extension": (
        ["data.unknown", *BY],
        "out",
        1,
        ["data.unknown", "pass the format", "parquet"],
    ),
    "mixed formats": (["mixed", *BY], "out", 1, ["a.csv", "b.jsonl", "format", "'mixed/*."]),
    "another file in a directory": (
        ["with_readme", *BY],
        "out",
        1,
        ["README.txt", "by a pattern: 'with_readme/*.parquet'"],
    ),
    "another file in a directory, with a format": (
        ["with_readme", *BY, "--format", "parquet"],
        "out",
        1,
        ["README.txt", "by a pattern: 'with_readme/*.parquet'"],
    ),
    "empty CSV": (["empty.csv", *BY], "out", 1, ["empty.csv", "is empty"]),
    "empty JSON lines": (["empty.jsonl", *BY], "out", 1, ["empty.jsonl", "is empty"]),
    "type differs": (
        ["other_type", *BY],
        "out",
        1,
        ["'key'", "Int64", "Utf8", "part-000.parquet", "z.parquet"],
    ),
    "name differs": (["other_name", *BY], "out", 1, ["'key'", "'kei'", "z.parquet"]),
    "more columns": (
        ["more_columns", *BY],
        "out",
        1,
        ["2 columns", "has 3", "'extra'", "z.parquet"],
    ),
    "unknown key": (["good", "--by", "kye"], "out", 1, ["kye", "'key', 'text'"]),
    "unsortable key": (["nested.parquet", *BY], "out", 1, ["'key'", "List", "twice"]),
    "empty key": (["good", "--by", ""], "out", 2, ["--by"]),
    "unreadable key": (["good", "--by", "key sideways"], "out", 2, ["key sideways", "for example"]),
    "no key": (["good"], "out", 2, ["--by", "for example"]),
    "truncated Parquet": (
        ["truncated.parquet", *BY],
        "out",
        1,
        ["truncated.parquet", "not a readable Parquet file"],
    ),
    "corrupt Parquet": (
        ["corrupt.parquet", *BY],
        "out",
        1,
        ["corrupt.parquet", "not a readable Parquet file"],
    ),
    "empty Parquet": (
        ["zero_bytes.parquet", *BY],
        "out",
        1,
        ["zero_bytes.parquet", "not a readable Parquet file"],
    ),
    "text as Parquet": (
        ["text.parquet", *BY],
        "out",
        1,
        ["text.parquet", "not a readable Parquet file"],
    ),
    "text as Arrow": (
        ["text.arrow", *BY],
        "out",
        1,
        ["text.arrow", "not a readable Arrow IPC file"],
    ),
    "Parquet as records": (
        ["good", "--format", "records", "--record-size", "7"],
        "out",
        1,
        ["record size 7", "multiple"],
    ),
    "partial record": (["odd.dat"], "out", 1, ["odd.dat", "250 bytes", "record size 100"]),
    "key exceeds record": (
        ["odd.dat", "--record-size", "50", "--key-size", "51"],
        "out",
        2,
        ["51", "50"],
    ),
    "record of no bytes": (
        ["odd.dat", "--record-size", "0"],
        "out",
        2,
        ["record_bytes is 0", "at least 1"],
    ),
    "negative record size": (
        ["odd.dat", "--record-size", "-5"],
        "out",
        2,
        ["record_bytes is -5", "at least 1"],
    ),
    "delimiter of two": (
        ["values.csv", *BY, "--delimiter", "||"],
        "out",
        2,
        ["||", "one ASCII character"],
    ),
    "column type without a type": (
        ["values.csv", *BY, "--column-type", "key"],
        "out",
        2,
        ["'key'", "NAME=TYPE", "zip=text"],
    ),
    "column type unknown": (
        ["values.csv", *BY, "--column-type", "key=varchar"],
        "out",
        2,
        ["'key'", "'varchar'", "text, bool"],
    ),
    "two types of a column": (
        ["values.csv", *BY, "--column-type", "key=text", "--column-type", "key=int64"],
        "out",
        2,
        ["'key'", "'text'", "'int64'", "leave out one"],
    ),
    "column type of no column": (
        ["values.csv", *BY, "--column-type", "kye=text"],
        "out",
        2,
        ["'kye'", "values.csv", "'key', 'v'"],
    ),
    "records by a column": (["odd.dat", "--record-size", "50", *BY], "out", 2, ["--by", "key"]),
    "bad CSV value": (
        ["values.csv", *BY],
        "out",
        1,
        ["values.csv", "line 10052", "'v'", "oops", "Int64", "--column-type v=text"],
    ),
    "ragged CSV": (["ragged.csv", *BY], "out", 1, ["ragged.csv", "line 3"]),
    "CSV column twice": (["twice.csv", *BY], "out", 1, ["twice.csv", "two columns named 'key'"]),
    "bad JSON": (["broken.jsonl", *BY], "out", 1, ["broken.jsonl", "line 2"]),
}


@pytest.mark.parametrize("name", CASES)
def test_one_sentence_and_nothing_written(name: str, check_refused: Callable[..., None]) -> None:
    arguments, output, code, words = CASES[name]
    check_refused(["sort", arguments[0], output, *arguments[1:]], code, words)
