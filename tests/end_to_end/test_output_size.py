"""The bill says how large files will be, and refuses what writing refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.write import WriteOptions
from tests.end_to_end.generated import generated
from tests.end_to_end.test_bad_options import CASES

ROWS = 40_000
TABLE = generated(ROWS, keys=30_000, seed=3).drop_columns(["nested"])
LIMIT = ("--memory-limit", "2GB")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows, compressed in several ways, and as records."""
    made = tmp_path_factory.mktemp("sizes")
    for name, more in {
        "plain": {"use_dictionary": False, "compression": "none"},
        "snappy": {"use_dictionary": False, "compression": "snappy"},
        "zstd": {"use_dictionary": False, "compression": "zstd"},
        "dictionary": {"use_dictionary": True, "compression": "zstd"},
    }.items():
        (made / name).mkdir()
        for part in range(3):
            rows = TABLE.slice(part * ROWS // 3, ROWS // 3)
            pq.write_table(rows, made / name / f"{part}.parquet", **more)
    (made / "records").mkdir()
    (made / "records" / "some.dat").write_bytes(bytes(range(100)) * 5_000)
    return made


def read(folder: Path, name: str) -> Dataset:
    return xs.read_parquet(folder / name)


@pytest.mark.parametrize("name", ["plain", "snappy", "zstd", "dictionary"])
@pytest.mark.parametrize("file_format", ["parquet", "arrow", "csv", "jsonl"])
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.usefixtures("engine")
def test_what_is_not_compressed_is_as_large_as_the_bill_says(
    name: str, file_format: str, is_sorted: bool, folder: Path, tmp_path: Path
) -> None:
    dataset = read(folder, name)
    dataset = dataset.sort("k", num_partitions=3) if is_sorted else dataset
    options = WriteOptions(file_format)
    bill = dataset.explain(tmp_path / "out", options=options)
    result = dataset.write(tmp_path / "out", options)
    # How many digits numbers have is not known before.
    assert result.bytes == pytest.approx(
        bill.output_bytes, rel=0.25 if file_format in ("parquet", "arrow") else 0.5
    )
    if file_format == "parquet":
        assert not bill.output_is_most


@pytest.mark.parametrize("name", ["plain", "zstd"])
@pytest.mark.usefixtures("engine")
def test_what_is_compressed_is_billed_by_its_rows(name: str, folder: Path, tmp_path: Path) -> None:
    dataset = read(folder, name).sort("k")
    plain = dataset.explain(tmp_path / "out")
    bill = dataset.explain(tmp_path / "out", options=WriteOptions("parquet", "zstd"))
    assert bill.output_is_most
    assert bill.output_bytes == plain.output_bytes
    assert "at most " in str(bill)
    assert "at most " not in str(plain)
    assert dataset.write_parquet(tmp_path / "out", compression="zstd").bytes < bill.output_bytes


@pytest.mark.parametrize("small", ["left", "right", "none"])
@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
@pytest.mark.usefixtures("engine")
def test_cross_joins_are_billed_by_what_they_make(
    small: str, file_format: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small == "none":
        monkeypatch.setattr("exoshuffle.dataset.execute.MAX_BROADCAST_BYTES", 0)
    few, many = (read(folder, "plain").select("id", "text").limit(count) for count in (30, 3000))
    joined = (many if small == "right" else few).join(
        few if small == "right" else many, how="cross"
    )
    options = WriteOptions(file_format)
    bill = joined.explain(tmp_path / "out", options=options)
    result = joined.write(tmp_path / "out", options)
    assert result.rows == 90_000
    # Columns of new names may get dictionaries in Parquet.
    assert bill.output_is_most == (file_format == "parquet")
    if bill.output_is_most:
        assert bill.output_bytes / 4 < result.bytes < bill.output_bytes * 1.1
    else:
        assert result.bytes == pytest.approx(bill.output_bytes, rel=0.25)
    assert bill.output_files == len(result.files)
    assert bill.fits_on_disk


@pytest.mark.usefixtures("engine")
def test_a_broadcast_join_is_billed_by_what_it_makes(folder: Path, tmp_path: Path) -> None:
    left = read(folder, "plain")
    wide = left.select("id").with_columns(a="id + 1", b="id + 2", c="id + 3")
    bill = left.join(wide, on="id").explain(tmp_path / "out")
    result = left.join(wide, on="id").write_parquet(tmp_path / "out")
    assert bill.strategy == "none"
    assert bill.output_bytes > 1.4 * left.explain().output_bytes
    assert result.bytes == pytest.approx(bill.output_bytes, rel=0.25)


@pytest.mark.parametrize("count", [3, 20_000])
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.usefixtures("engine")
def test_the_first_rows_are_billed_alone(
    count: int, is_sorted: bool, folder: Path, tmp_path: Path
) -> None:
    dataset = read(folder, "plain")
    first = (dataset.sort("k") if is_sorted else dataset).limit(count)
    bill = first.explain(tmp_path / "out")
    result = first.write_parquet(tmp_path / "out")
    assert bill.output_files == len(result.files)
    # Beside its rows, a file has a footer.
    assert result.bytes == pytest.approx(bill.output_bytes, rel=0.25, abs=3000)


@pytest.mark.parametrize("size", ["1KB", "300KB", "1GB"])
def test_a_target_size_makes_as_many_files_as_are_billed(
    size: str, folder: Path, command: Callable[..., Any], tmp_path: Path
) -> None:
    arguments = [folder / "plain", tmp_path / "out", "--by", "k", "--partitions", 2, *LIMIT]
    arguments += ["--target-file-size", size, "--json"]
    files = json.loads(command("sort", *arguments).out)["files"]
    assert (len(files) > 2) == (size != "1GB")
    for words in (["explain", *arguments], ["sort", *arguments, "--explain"]):
        bill = json.loads(command(*words, "--overwrite").out)
        assert bill["output_files"] == pytest.approx(len(files), rel=0.3)


@pytest.mark.parametrize(
    "name", [name for name in CASES if name not in ("nested to CSV", "output exists")]
)
@pytest.mark.parametrize("in_sort", [False, True])
def test_explaining_refuses_what_sorting_refuses(
    name: str, in_sort: bool, check_refused: Callable[..., None]
) -> None:
    arguments, where, code, words = CASES[name]
    start, more = ("sort", ["--explain"]) if in_sort else ("explain", [])
    check_refused([start, arguments[0], where, *arguments[1:], *more], code, words)


def test_explaining_refuses_in_the_same_words(
    world: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world)
    for name, (arguments, where, code, _) in CASES.items():
        if name == "nested to CSV":
            continue
        sorting, explaining = (
            command(word, arguments[0], where, *arguments[1:]) for word in ("sort", "explain")
        )
        assert (explaining.code, explaining.err) == (code, sorting.err)
