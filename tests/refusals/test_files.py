"""Files that cannot be read, and paths that name none: one sentence, with the value, the limit and the remedy.

A new refusal of a file goes into ``FILES``. The command line reads it in the world of ``support/world.py``, which must
be the same afterwards. A new refusal of a path goes into ``PATHS``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import CorruptFileError, InputError, OutputError
from tests.support.oracle import write_files
from tests.support.tables import distributed

Untyped: Any = xs
TABLE = pa.table({"k": [3, 1, 2, 1], "x": [0.5, 1.5, 2.5, 3.5], "s": ["a", "b", "c", "d"]})

BY = ["--by", "key"]

#: Name: (arguments of ``sort`` with paths relative to the world, output, exit code, words of the message).
FILES: dict[str, tuple[list[str], str, int, list[str]]] = {
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
    "bad CSV value": (
        ["values.csv", *BY],
        "out",
        1,
        ["values.csv", "line 10052", "'v'", "oops", "Int64", "--column-type v=text"],
    ),
    "ragged CSV": (["ragged.csv", *BY], "out", 1, ["ragged.csv", "line 3"]),
    "semicolons in CSV": (
        ["semicolons.csv", "--by", "key;price;v"],
        "out",
        1,
        ["line 2", "as if the delimiter were ';'", 'delimiter=";"', "--delimiter ';'"],
    ),
    "tabs in CSV": (
        ["tabs.csv", "--by", '"key\tv"'],
        "out",
        1,
        ["line 10052", r"as if the delimiter were '\t'", r"--delimiter '\t'"],
    ),
    "pipes in CSV": (
        ["pipes.csv", "--by", '"key|v"'],
        "out",
        1,
        [
            "pipes.csv' would be one column, \"key|v\", and each of its first lines has as many '|' as the header",
            'write delimiter="|" (--delimiter \'|\'), or delimiter="," for one column',
        ],
    ),
    "CSV column twice": (["twice.csv", *BY], "out", 1, ["twice.csv", "two columns named 'key'"]),
    "bad JSON": (["broken.jsonl", *BY], "out", 1, ["broken.jsonl", "line 2"]),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, check_refused: Callable[..., None]) -> None:
    arguments, output, code, words = FILES[name]
    check_refused(["sort", arguments[0], output, *arguments[1:]], code, words)


@pytest.mark.parametrize("consume", [lambda d: d.to_arrow(), lambda d: list(d.iter_batches())])
def test_corrupt_files_are_named_when_read_into_memory(
    consume: Callable[[xs.Dataset], object], engine: LocalEngine, tmp_path: Path
) -> None:
    del engine
    source = write_files(tmp_path / "in", distributed("uniform", 5000), 2)
    file = source / "part-001.parquet"
    content = file.read_bytes()
    file.write_bytes(content[:4] + b"\xaa" * 60 + content[64:])
    with pytest.raises(CorruptFileError, match=r"part-001\.parquet.*not a readable Parquet file"):
        consume(xs.read_parquet(source).sort("text"))


def test_a_failed_write_leaves_the_engine_usable(
    dataset: xs.Dataset, engine: LocalEngine, tmp_path: Path
) -> None:
    del engine
    broken = write_files(tmp_path / "broken", distributed("uniform", 50_000), 40)
    for file in list(broken.iterdir())[::7]:
        content = file.read_bytes()
        file.write_bytes(content[:4] + b"\xaa" * 60 + content[64:])
    for strategy in ("simple", "push"):
        with pytest.raises(CorruptFileError):
            xs.read_parquet(broken).sort("text", strategy=strategy).write_parquet(tmp_path / "out")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "in.parquet", "spill"]
    dataset.sort("k").write_parquet(tmp_path / "out")
    assert pq.read_table(tmp_path / "out").num_rows == 4


# --- paths -------------------------------------------------------------------------------------------------------


PATHS: dict[str, tuple[Any, str]] = {
    "none": (None, "path is None; it must be text or a path object"),
    "bytes": (b"data", "path is b'data'; it must be text"),
    "a number": (7, "path is 7; it must be text"),
    "S3": ("s3://bucket/key", "'s3://bucket/key' has the scheme 's3', and only local paths"),
    "HTTP": ("https://x.org/a.parquet", "has the scheme 'https'"),
    "another machine": ("file://there/data", "is on 'there'; write file:///"),
    "another encoding": ("\udcff.parquet", "is not UTF-8 text; rename"),
}


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("listed", [False, True])
def test_paths_to_read(name: str, listed: bool) -> None:
    path, message = PATHS[name]
    with pytest.raises(InputError, match=message):
        xs.read_parquet([path] if listed else path)


@pytest.mark.parametrize("name", PATHS)
def test_paths_to_write(
    name: str,
    dataset: xs.Dataset,
    engine: LocalEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del engine
    monkeypatch.chdir(tmp_path)
    path, message = PATHS[name]
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(OutputError, match=message):
        dataset.write_parquet(path)
    if path is not None:
        with pytest.raises(OutputError, match=message):
            dataset.explain(path)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("path", "message"), [("", "path is empty; name a file"), ("a\0b", "has a character 0")]
)
def test_paths_that_name_nothing(
    path: str, message: str, dataset: xs.Dataset, engine: LocalEngine
) -> None:
    del engine
    with pytest.raises(InputError, match=message):
        xs.read_parquet([path])
    # An empty path is the working directory, which overwriting would replace.
    with pytest.raises(OutputError, match=message):
        dataset.write_parquet(path, overwrite=True)


def test_open_files_are_no_paths(dataset: xs.Dataset) -> None:
    with (
        open(dataset.files[0], "rb") as file,
        pytest.raises(InputError, match=r"path is <_io\.Buff"),
    ):
        Untyped.read_parquet(file)
    with pytest.raises(InputError, match=r"path is pyarrow\.Table k: int64 .*…; it must be text"):
        Untyped.read_parquet(TABLE)


def test_wrong_paths(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    with pytest.raises(InputError, match=r"nowhere.* does not exist"):
        xs.read_parquet(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no input paths"):
        xs.read_parquet([])
    with pytest.raises(InputError, match="no data files"):
        xs.read_csv(tmp_path / "spill")


@pytest.fixture(params=[pl.Int128, pl.UInt128])
def wide(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with files of integers of 128 bits. It comes before the engine: Polars keeps descriptors open."""
    frame = pl.DataFrame({"a": pl.Series([1, None], dtype=request.param)})
    frame.write_parquet(tmp_path / "wide.parquet")
    frame.write_ipc(tmp_path / "wide.arrow")
    return tmp_path


def test_integers_of_128_bits_name_a_cast(wide: Path, engine: LocalEngine) -> None:
    del engine
    for read, name in ((xs.read_parquet, "wide.parquet"), (xs.read_ipc, "wide.arrow")):
        with pytest.raises(
            InputError, match=r"128.*cast them to pl\.Int64 or pl\.Decimal\(38, 0\)"
        ):
            read(wide / name)
