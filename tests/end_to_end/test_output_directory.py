"""An output directory appears complete or not at all, is what its result says, and is read by others as it is."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle._native import StoredPath
from exoshuffle.dataset.write import replacing
from exoshuffle.dataset.write.seal import PREFIX
from exoshuffle.errors import OutputError
from tests.support.formats import READERS, WRITERS
from tests.support.oracle import write_files
from tests.support.tables import distributed

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_files(tmp_path / "in", distributed("uniform", 20_000), 3)


def _names(directory: Path) -> list[str]:
    """But for the seal."""
    names = sorted(path.name for path in directory.iterdir())
    return [name for name in names if not name.startswith(".exoshuffle-")]


#: Number of rows of a directory of Parquet files, as others count them; pandas asks pyarrow. Polars keeps threads, so
#: it has a process of its own.
OTHERS: dict[str, Callable[[str], int]] = {
    "pyarrow": lambda out: pq.read_table(f"{out}/").num_rows,
    "pyarrow, dataset": lambda out: ds.dataset(out).count_rows(),
    **{
        f"duckdb, {pattern}": lambda out, pattern=pattern: len(
            duckdb.connect().execute(f"from read_parquet('{out}{pattern}')").fetchall()
        )
        for pattern in ("/*.parquet", "/*", "/**")
    },
    "exoshuffle": lambda out: xs.read_parquet(out).to_arrow().num_rows,
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_read_it_as_it_is(name: str, source: Path, tmp_path: Path) -> None:
    xs.read_parquet(source).sort("key", num_partitions=3).write_parquet(tmp_path / "out")
    assert OTHERS[name](str(tmp_path / "out")) == 20_000


POLARS = """
import polars as pl
for name in ("parquet/", "parquet", "parquet/*", "parquet/**/*.parquet"):
    print(pl.read_parquet(name).height, pl.scan_parquet(name).collect(engine="streaming").height)
print(pl.scan_csv("csv").collect().height, pl.scan_ndjson("jsonl").collect().height)
"""


def test_polars_reads_it_as_it_is(source: Path, tmp_path: Path) -> None:
    dataset = xs.read_parquet(source).sort("key", num_partitions=3)
    for extension in ("parquet", "csv", "jsonl"):
        getattr(dataset, WRITERS[extension])(tmp_path / extension)
    arguments = [sys.executable, "-c", POLARS]
    done = subprocess.run(
        arguments, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["20000"] * 10, done.stderr


@pytest.mark.parametrize("extension", WRITERS)
@pytest.mark.parametrize("target_file_size", [None, "50kB"])
def test_the_result_has_rows_bytes_and_checksums(
    extension: str, target_file_size: str | None, source: Path, tmp_path: Path
) -> None:
    dataset = xs.read_parquet(source).sort("key", num_partitions=4)
    result = getattr(dataset, WRITERS[extension])(
        tmp_path / "out", target_file_size=target_file_size
    )
    assert _names(tmp_path / "out") == [file["name"] for file in result.files]
    for file in result.files:
        content = (tmp_path / "out" / file["name"]).read_bytes()
        assert file["bytes"] == len(content)
        assert file["crc32"] == zlib.crc32(content)
        if extension == "parquet":
            assert file["rows"] == pq.read_metadata(tmp_path / "out" / file["name"]).num_rows
    assert sum(file["rows"] for file in result.files) == result.rows == 20_000
    assert sum(file["bytes"] for file in result.files) == result.bytes
    assert _names(tmp_path) == ["in", "out", "spill"]


@pytest.mark.parametrize("extension", WRITERS)
def test_target_file_size_makes_more_files_in_order(
    extension: str, source: Path, tmp_path: Path
) -> None:
    dataset = xs.read_parquet(source).sort("key", num_partitions=2)
    result = getattr(dataset, WRITERS[extension])(tmp_path / "out", target_file_size=60_000)
    assert len(result.files) >= 4
    assert all(file["bytes"] < 250_000 for file in result.files)
    assert [file["name"] for file in result.files] == sorted(file["name"] for file in result.files)
    keys = READERS[extension](tmp_path / "out").to_arrow()["key"].to_pylist()
    assert keys == dataset.to_arrow()["key"].to_pylist()


def test_an_existing_output_stays_unless_overwritten(source: Path, tmp_path: Path) -> None:
    dataset = xs.read_parquet(source)
    dataset.sort("key", num_partitions=5).write_parquet(tmp_path / "out")

    def contents() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / "out").glob("[!.]*")}

    before = contents()
    with pytest.raises(OutputError, match=r"out exists; .*overwrite"):
        dataset.sort("text", num_partitions=2).write_parquet(tmp_path / "out")
    assert contents() == before
    dataset.sort("text", num_partitions=2).write_parquet(tmp_path / "out", overwrite=True)
    assert _names(tmp_path / "out") == ["part-00000.parquet", "part-00001.parquet"]
    assert _names(tmp_path) == ["in", "out", "spill"]


def test_an_empty_directory_and_missing_parents_are_fine(source: Path, tmp_path: Path) -> None:
    dataset = xs.read_parquet(source).sort("key")
    (tmp_path / "empty").mkdir()
    assert dataset.write_parquet(tmp_path / "empty").rows == 20_000
    assert dataset.write_parquet(tmp_path / "a" / "b" / "c").rows == 20_000


def test_a_failed_overwrite_keeps_the_old_result(source: Path, tmp_path: Path) -> None:
    dataset = xs.read_parquet(source).sort("key", num_partitions=2)
    dataset.write_parquet(tmp_path / "out")
    before = _names(tmp_path / "out")
    broken = tmp_path / "broken"
    write_files(broken, distributed("uniform", 5000), 2)
    file = broken / "part-001.parquet"
    content = bytearray(file.read_bytes())
    content[4:60] = b"\xaa" * 56
    file.write_bytes(content)
    with pytest.raises(xs.ExoshuffleError, match=r"part-001\.parquet"):
        xs.read_parquet(broken).sort("text").write_parquet(tmp_path / "out", overwrite=True)
    assert _names(tmp_path / "out") == before
    assert _names(tmp_path) == ["broken", "in", "out", "spill"]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("in/out", "inside the input"),
        ("in", "holds the input"),
        ("", "holds the input"),
        ("in/part-000.parquet", "inside the input"),
        ("link/out", "inside the input"),
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_the_input_is_never_touched(
    output: str, message: str, overwrite: bool, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(source)
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    with pytest.raises(OutputError, match=message):
        xs.read_parquet(source).sort("key").write_parquet(tmp_path / output, overwrite=overwrite)
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before


def test_an_output_beside_the_input_files_is_fine(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", distributed("uniform", 100), 2)
    with pytest.raises(OutputError, match="inside the input"):
        xs.read_parquet(source).sort("key").write_parquet(source / "out")
    xs.read_parquet(source / "part-000.parquet").sort("key").write_parquet(source / "one")
    xs.read_parquet(f"{source}/*.parquet").sort("key").write_parquet(source / "all")


def test_an_output_inside_a_nested_input_is_an_error(tmp_path: Path) -> None:
    write_files(tmp_path / "in" / "deep", distributed("uniform", 100), 2)
    with pytest.raises(OutputError, match="inside the input"):
        xs.read_parquet(tmp_path / "in").sort("key").write_parquet(tmp_path / "in" / "out")


def test_an_output_below_a_file_cannot_be_made(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        xs.read_parquet(source).sort("key").write_parquet(tmp_path / "file" / "out")


def test_an_output_that_is_a_link_is_made_where_the_link_leads(
    source: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    dataset = xs.read_parquet(source).sort("key")
    dataset.write_parquet(tmp_path / "link")
    dataset.write_parquet(f"{tmp_path}/link/", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "part-00000.parquet").is_file()
    assert _names(tmp_path) == ["elsewhere", "in", "link", "spill"]


def test_no_output_takes_the_place_of_the_working_directory(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "below").mkdir(parents=True)
    (tmp_path / "here" / "precious").write_text("")
    dataset = xs.read_parquet(source).sort("key")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(OutputError, match=r"path is empty; name"):
        dataset.write_parquet("", overwrite=True)
    for folder in (".", "below"):
        monkeypatch.chdir(tmp_path / "here" / folder)
        with pytest.raises(OutputError, match=r"here is or holds the working directory.*another"):
            dataset.write_parquet(tmp_path / "here", overwrite=True)
    assert _names(tmp_path / "here") == ["below", "precious"]


def test_a_working_directory_that_was_removed_is_no_obstacle(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = xs.read_parquet(source).sort("key")
    dataset.write_parquet(tmp_path / "out")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert dataset.write_parquet(tmp_path / "out", overwrite=True).rows == 20_000


@pytest.mark.parametrize(
    ("name", "message"),
    [("a\0b", "character 0"), ("x" * 300, "File name too long"), ("x/" * 3000, "name too long")],
)
def test_names_that_no_directory_can_have(
    name: str, message: str, source: Path, tmp_path: Path
) -> None:
    with pytest.raises(OutputError, match=message):
        xs.read_parquet(source).write_parquet(f"{tmp_path}/{name}")


def test_names_as_long_as_a_directory_can_have(source: Path, tmp_path: Path) -> None:
    name = "ü" * 127
    dataset = xs.read_parquet(source).sort("key")
    for overwrite in (False, True):
        dataset.write_parquet(tmp_path / name, overwrite=overwrite)
    assert _names(tmp_path) == ["in", "spill", name]


def test_a_disk_that_is_full_at_the_end_is_an_error_of_the_output(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = replacing.sync

    def full(path: StoredPath) -> None:
        if path.name.startswith(PREFIX):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        sync(path)

    monkeypatch.setattr(replacing, "sync", full)
    with pytest.raises(OutputError, match=r"cannot put .*out in place: No space left"):
        xs.read_parquet(source).sort("key").write_parquet(tmp_path / "out")
    assert _names(tmp_path) == ["in", "spill"]
