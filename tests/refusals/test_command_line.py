"""Commands that cannot work: one sentence, before any work is done.

A new refusal of ``sort`` goes into ``SORT``, where ``explain`` has to say the same; one of another command into
``COMMANDS``. All run in the world of ``support/world.py``, which must be the same afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Outcome
from tests.support.world import contents

BY = ["--by", "key"]
#: Name: (arguments but for the output, with paths in the world, output, exit code, words of the message).
SORT: dict[str, tuple[list[str], str, int, list[str]]] = {
    "output exists": (["good", *BY], "taken", 1, ["taken", "exists", "--overwrite"]),
    "output of somebody else": (
        ["good", *BY, "--overwrite"],
        "taken",
        1,
        ["taken", "did not write", "--overwrite-anything"],
    ),
    "output is a file": (["good", *BY], "file", 1, ["file", "name a directory"]),
    "output inside input": (["good", *BY], "good/out", 1, ["good", "inside the input"]),
    "output is the input": (["good", *BY, "--overwrite"], "good", 1, ["good", "holds the input"]),
    "output holds the input": (["good", *BY, "--overwrite"], ".", 1, ["holds the input"]),
    "output below a file": (["good", *BY], "file/out", 1, ["file"]),
    "memory limit too small": (
        ["good", *BY, "--memory-limit", "50MB"],
        "out",
        2,
        ["50.0 MB", "smallest that works"],
    ),
    "memory limit beyond the machine": (
        ["good", *BY, "--memory-limit", "1PB"],
        "out",
        2,
        ["1000 TB", "this machine has"],
    ),
    "memory limit is no size": (
        ["good", *BY, "--memory-limit", "lots"],
        "out",
        2,
        ["lots", "for example"],
    ),
    "memory limit negative": (["good", *BY, "--memory-limit", "-5"], "out", 2, ["-5"]),
    "copies of slow tasks without a strategy": (
        ["good", *BY, "--speculate"],
        "out",
        2,
        ["--strategy auto", "simple, push", "leave --speculate out"],
    ),
    "no partitions": (
        ["good", *BY, "--partitions", "0"],
        "out",
        2,
        ["0 partitions", "choose 1 or more"],
    ),
    "no CPUs": (["good", *BY, "--num-cpus", "0"], "out", 2, ["num_cpus is 0", "at least 1"]),
    "target size zero": (
        ["good", *BY, "--target-file-size", "0"],
        "out",
        2,
        ["target_file_size", "at least 1"],
    ),
    "compression unknown": (["good", *BY, "--compression", "rar"], "out", 2, ["rar", "snappy"]),
    "compression of CSV": (
        ["good", *BY, "--output-format", "csv", "--compression", "gzip"],
        "out",
        2,
        ["csv", "gzip"],
    ),
    "nested to CSV": (
        ["nested.parquet", "--by", "twice", "--output-format", "csv"],
        "out",
        1,
        ["CSV", "'key'", "List"],
    ),
    "table as records": (
        ["good", *BY, "--output-format", "records"],
        "out",
        2,
        ["tables", "records"],
    ),
    "spill directory missing": (
        ["good", *BY, "--spill-dir", "nospill"],
        "out",
        2,
        ["nospill", "create it"],
    ),
    "spill directories with a comma": (
        ["good", *BY, "--spill-dir", "empty,file"],
        "out",
        2,
        ["empty,file does not exist", "repeat --spill-dir"],
    ),
    "record size of a table": (
        ["good", *BY, "--record-size", "10"],
        "out",
        2,
        ["--record-size is for records", "parquet", "leave it out"],
    ),
    "key size of a table": (
        ["good", *BY, "--key-size", "4"],
        "out",
        2,
        ["--key-size is for records"],
    ),
    "delimiter of Parquet": (
        ["good", *BY, "--delimiter", "|"],
        "out",
        2,
        ["--delimiter is for csv", "parquet"],
    ),
    "column type of Parquet": (
        ["good", *BY, "--column-type", "key=text"],
        "out",
        2,
        ["type is given to column 'key'", "key=value", "only text files"],
    ),
    "key twice": (["good", "--by", "key, key desc"], "out", 2, ["'key' is named twice"]),
    "output found by a pattern": (["go*", *BY], "gone", 1, ["gone", "go*", "the next time"]),
    "output below what a pattern finds": (["goo*", *BY], "good/out", 1, ["goo*", "the next time"]),
    "files found by a pattern": (
        ["good/**/part-*.parquet", *BY],
        "good/x",
        1,
        ["part-*", "the next time"],
    ),
    "spill directory is a file": (
        ["good", *BY, "--spill-dir", "file"],
        "out",
        2,
        ["file", "directory"],
    ),
    "spill directory without files": (["good", *BY, "--spill-dir", "/proc"], "out", 2, ["/proc"]),
    "unknown key": (["good", "--by", "kye"], "out", 1, ["kye", "'key', 'text'"]),
    "unsortable key": (["nested.parquet", *BY], "out", 1, ["'key'", "List", "twice"]),
    "empty key": (["good", "--by", ""], "out", 2, ["--by"]),
    "unreadable key": (["good", "--by", "key sideways"], "out", 2, ["key sideways", "for example"]),
    "no key": (["good"], "out", 2, ["--by", "for example"]),
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
}


@pytest.mark.parametrize("name", SORT)
def test_sort(name: str, check_refused: Callable[..., None]) -> None:
    arguments, output, code, words = SORT[name]
    check_refused(["sort", arguments[0], output, *arguments[1:]], code, words)


@pytest.mark.parametrize(
    "name", [name for name in SORT if name not in ("nested to CSV", "output exists")]
)
@pytest.mark.parametrize("in_sort", [False, True])
def test_explaining_refuses_what_sorting_refuses(
    name: str, in_sort: bool, check_refused: Callable[..., None]
) -> None:
    arguments, where, code, words = SORT[name]
    start, more = ("sort", ["--explain"]) if in_sort else ("explain", [])
    check_refused([start, arguments[0], where, *arguments[1:], *more], code, words)


def test_explaining_refuses_in_the_same_words(
    world: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world)
    for name, (arguments, where, code, _) in SORT.items():
        if name == "nested to CSV":
            continue
        sorting, explaining = (
            command(word, arguments[0], where, *arguments[1:]) for word in ("sort", "explain")
        )
        assert (explaining.code, explaining.err) == (code, sorting.err)


@pytest.mark.parametrize(
    "arguments", [["sort"], ["sort", "x"], ["sort", "a", "b", "--nope"], ["nope"], ["gensort", "1"]]
)
def test_wrong_usage_is_shown_by_click(arguments: list[str], command: Callable[..., Any]) -> None:
    done = command(*arguments)
    assert done.code == 2
    assert "Error: " in done.err
    assert "Traceback" not in done.err


#: Arguments with paths relative to the world, exit code, words of the message.
COMMANDS: list[tuple[list[str], int, list[str]]] = [
    (["gensort", "many", "out"], 2, ["many", "for example"]),
    (["gensort", "1e6", "out"], 2, ["1e6", "number of records", "1000000", "size"]),
    (["gensort", "1,000", "out"], 2, ["1,000", "number of records"]),
    (["gensort", "1000.5", "out"], 2, ["1000.5", "number of records"]),
    (["gensort", "²", "out"], 2, ["²", "number of records"]),
    (["gensort", "٣", "out"], 2, ["٣", "number of records"]),
    (["gensort", "50B", "out"], 2, ["50B", "less than one record of 100 bytes"]),
    (["gensort", "9" * 5000, "out"], 2, ["number of records"]),
    (["gensort", "9" * 400 + "GB", "out"], 2, ["is not a size"]),
    (["gensort", "9" * 23, "out"], 1, ["9" * 23, "free", "fewer"]),
    (["gensort", "10", "out", "--start", str(2**128 - 9)], 2, ["10 records from 340"]),
    (["gensort", "10", "out", "--start", "9" * 39], 2, ["10 records from 999", "fewer"]),
    (["gensort", "10", "out", "--partitions", "100001"], 2, ["100001", "at most 100000"]),
    (["gensort", "500000TB", "out"], 1, ["500000 TB", "free", "another disk"]),
    (["shuffle", "good", "out", "--window", "²"], 2, ["²", "is not a size"]),
    (["gensort", "10", "taken"], 1, ["taken", "exists", "--overwrite"]),
    (["gensort", "10", "taken", "--overwrite"], 1, ["taken", "--overwrite-anything"]),
    (["gensort", "10", "file"], 1, ["file", "name a directory"]),
    (["gensort", "10", "out", "--partitions", "0"], 2, ["0 partitions", "at least 1"]),
    (["gensort", "10", "out", "--start", "-1"], 2, ["-1", "negative"]),
    (["valsort", "nowhere"], 1, ["nowhere", "does not exist"]),
    (["valsort", "empty"], 1, ["empty", "no data files"]),
    (["valsort", "odd.dat"], 1, ["odd.dat", "250 bytes", "100"]),
    (["explain", "nowhere", "out", "--by", "key"], 1, ["nowhere", "does not exist"]),
    (["explain", "good", "out", "--by", "kye"], 1, ["kye", "text"]),
    (
        ["explain", "good", "out", "--by", "key", "--memory-limit", "1MB"],
        2,
        ["1.00 MB", "smallest"],
    ),
    (["shuffle", "nowhere", "out"], 1, ["nowhere", "does not exist"]),
    (["shuffle", "good", "good"], 1, ["good", "another place"]),
    (["shuffle", "good", "out", "--window", "0"], 2, ["window is 0", "number of rows"]),
    (["shuffle", "good", "out", "--window", "-1"], 2, ["'-1' is not a size"]),
    (["shuffle", "good", "out", "--window", "9", "--partitions", "3"], 2, ["num_partitions"]),
    (["sample", "good", "out"], 2, ["one of n and fraction"]),
    (["sample", "good", "out", "--fraction", "2"], 2, ["fraction is 2.0", "at most 1"]),
    (["sort", "good", "out", "--by", "key", "--limit", "-1"], 2, ["limit is -1"]),
    (["repartition", "good", "out"], 2, ["num_partitions", "target_size"]),
    (["repartition", "good", "out", "--partitions", "0"], 2, ["0 partitions"]),
    (["repartition", "good", "out", "--partitions", "2", "--by", "kye"], 1, ["kye", "text"]),
    (
        ["repartition", "good", "out", "--partitions", "2", "--method", "range"],
        2,
        ["'range'", "name them in by="],
    ),
    (["sample", "s3://good/x", "out", "--fraction", "0.5"], 1, ["'s3'", "only local paths"]),
    (["distinct", "good", "s3://out"], 1, ["'s3'", "only local paths"]),
    (["groupby", "good", "out", "--agg", "sum(x"], 1, ["sum(x", "cannot read"]),
    (["groupby", "good", "out", "--agg", "n=count(),"], 2, ["n=count(),", "write for example"]),
    (["groupby", "good", "out", "--by", "kye", "--agg", "n=count()"], 1, ["kye"]),
    (["groupby", "good", "out", "--by", "key", "--agg", "n=best(text)"], 2, ["best"]),
    (["window", "good", "out", "--add", "n"], 2, ["--add 'n'", "write NAME=FUNCTION"]),
    (["window", "good", "out", "--add", "n=count"], 2, ["n='count'", "with its arguments"]),
    (["window", "good", "out", "--add", "n=best(key)"], 1, ["no window function 'best'"]),
    (["window", "good", "out", "--by", "kye", "--add", "n=rank()"], 1, ["kye"]),
    (
        ["window", "good", "out", "--add", "n=sum(key)", "--frame", "1"],
        2,
        ["--frame is '1'", "write FIRST:LAST"],
    ),
    (
        ["window", "good", "out", "--add", "n=sum(key)", "--range-frame=-1x:0"],
        2,
        ["--range-frame is '-1x:0'", "write FIRST:LAST"],
    ),
    (
        ["window", "good", "out", "--add", "n=sum(key)", "--range-frame=-1:0"],
        1,
        ["sum"],
    ),
    (["simulate", "nope.toml"], 1, ["nope.toml", "cannot be read", "No such file"]),
    (["simulate", "good"], 1, ["good", "cannot be read", "Is a directory"]),
    (["head", "nope"], 1, ["'nope' does not exist"]),
    (["head", "good", "--rows", "-1"], 2, ["n is -1"]),
    (["head", "good", "--columns", "kye"], 1, ["kye"]),
    (["cat", "good", "--columns", " "], 2, ["--columns names no column", "leave --columns out"]),
    (["cat", "good", "--limit", "-1"], 2, ["limit is -1"]),
    (["cat", "good", "--output-format", "records"], 2, ["tables cannot be written as records"]),
    (["count", "good", "--where", "kye > 1"], 1, ["'kye > 1'", "no column 'kye'"]),
    (["schema", "good", "--delimiter", ";"], 2, ["--delimiter is for csv"]),
    (["sort", "good", "out", *BY, "--where", "key >"], 1, ["cannot read", "'key >'"]),
    (["sort", "good", "out", *BY, "--where", ""], 1, ["it is empty"]),
    (["distinct", "good", "out", "--on", "kye"], 1, ["kye"]),
    (["join", "good", "good", "out", "--on", "kye"], 1, ["kye"]),
    (["join", "good", "good", "out", "--on", ""], 2, ["--on names no column"]),
    (["distinct", "good", "out", "--on", " "], 2, ["--on names no column", "leave --on out"]),
    (["repartition", "good", "out", "--partitions", "2", "--by", ""], 2, ["--by names no"]),
    (["join", "good", "good", "out"], 2, ["on"]),
    (["shuffle", "good", "out", "--memory-limit", "1MB"], 2, ["smallest that works"]),
    (
        ["join", "good", "good", "out", "--left-on", "key", "--right-on", "text"],
        1,
        ["'key' (int64)", "'text' (string)", "cast one"],
    ),
    (["join", "good", "good", "out", "--on", "key", "--suffix", ""], 2, ["'text'", "suffix"]),
    (["groupby", "good", "out", "--by", "key", "--agg", "s=sum(text)"], 1, ["sum", "string"]),
    (["sort", "good", "out.tsv", *BY, "--output-format", "jsonl"], 2, ["ends in .tsv", "jsonl"]),
    (["sort", "good", "out.csv.gz", *BY], 2, ["out.csv.gz", "ending of no format"]),
    (["sort", "good", "out.csv", *BY, "--output-format", "jsonl"], 2, ["ends in .csv", "jsonl"]),
    (
        ["sort", "good", "out.csv", *BY, "--target-file-size", "1MB"],
        2,
        ["target_file_size", "out.csv/"],
    ),
    (["sort", "good", "out.dat", *BY], 2, ["tables cannot be written as records"]),
]


@pytest.mark.parametrize(("arguments", "code", "words"), COMMANDS)
def test_commands(
    arguments: list[str], code: int, words: list[str], check_refused: Callable[..., None]
) -> None:
    check_refused(arguments, code, words)


@pytest.mark.parametrize("number", ["0", "-3"])
@pytest.mark.parametrize(
    "asked",
    [
        ["sort", "good", "out", "--by", "key"],
        ["shuffle", "good", "out"],
        ["repartition", "good", "out"],
        ["groupby", "good", "out", "--by", "key", "--agg", "n=count()"],
        ["window", "good", "out", "--by", "key", "--add", "n=rank()"],
        ["distinct", "good", "out", "--on", "key"],
        ["join", "good", "good", "out", "--on", "key"],
    ],
    ids=lambda asked: asked[0],
)
def test_partitions_on_the_command_line(
    asked: list[str], number: str, check_refused: Callable[..., None]
) -> None:
    check_refused([*asked, "--partitions", number], 2, [f"{number} partitions", "choose 1 or more"])


def test_more_partitions_than_memory_has_headers_for(check_refused: Callable[..., None]) -> None:
    asked = ["repartition", "good", "out", "--partitions", "1000000000000"]
    check_refused(asked, 2, ["1,000,000,000,000 partitions", "smallest", "fewer partitions"])


def test_a_window_larger_than_memory(
    process: Callable[..., Outcome], world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a program of its own: behind thousands of tests, this one takes more than the limit by itself."""
    monkeypatch.chdir(world)
    before = contents(world)
    done = process("shuffle", "good", "out", "--window", "9GB", "--memory-limit", "2GB")
    assert done.code == 2, done.err
    assert "9.00 GB" in done.sentence()
    assert "smaller window" in done.sentence()
    assert contents(world) == before
