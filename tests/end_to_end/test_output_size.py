"""The bill says how large files will be, refuses what writing refuses, and writing refuses what cannot have room."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.write import output
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import DiskFullError
from tests.support.generated import generated
from tests.support.oracle import write_files

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
    rel = 0.25 if file_format in ("parquet", "arrow") else 0.5
    if file_format == "parquet" and name == "dictionary" and not is_sorted:
        # These small files become one, whose dictionaries are theirs together.
        assert bill.output_is_most
        assert bill.output_bytes / 2 < result.bytes < bill.output_bytes * (1 + rel)
    else:
        assert result.bytes == pytest.approx(bill.output_bytes, rel=rel)
        assert not (file_format == "parquet" and bill.output_is_most)


@pytest.mark.parametrize("name", ["plain", "zstd"])
@pytest.mark.usefixtures("engine")
def test_what_is_compressed_is_billed_by_its_rows(name: str, folder: Path, tmp_path: Path) -> None:
    dataset = read(folder, name).sort("k")
    plain = dataset.explain(tmp_path / "out", options=WriteOptions("parquet"))
    bill = dataset.explain(tmp_path / "out", options=WriteOptions("parquet", "zstd"))
    assert bill.output_is_most
    assert bill.output_bytes == plain.output_bytes
    assert "at most " in str(bill)
    assert "at most " not in str(plain)
    for found, verdict in ((bill, "  <- may not fit"), (plain, "  <- does not fit")):
        tight = dataclasses.replace(found, output_free_bytes=1000)
        assert not tight.fits_on_disk
        assert str(tight).endswith(f"of 1.00 kB free{verdict}")
    assert dataset.write_parquet(tmp_path / "out", compression="zstd").bytes < bill.output_bytes


@pytest.mark.parametrize("small", ["left", "right", "none"])
@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
@pytest.mark.usefixtures("engine")
def test_cross_joins_are_billed_by_what_they_make(
    small: str, file_format: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small == "none":
        monkeypatch.setattr("exoshuffle.dataset.jobs.small_sides.MAX_BROADCAST_BYTES", 0)
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
    result = left.join(wide, on="id").write_parquet(tmp_path / "out", compression="none")
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
    result = first.write_parquet(tmp_path / "out", compression="none")
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


def with_free(monkeypatch: pytest.MonkeyPatch, num_bytes: int) -> None:
    """Makes the disk of outputs look as if it had so much room; that of spilling keeps its own."""
    monkeypatch.setattr(output, "free_bytes", lambda _: num_bytes)


#: Name: how the result is made, and written.
WRITTEN: dict[str, tuple[Callable[[Path], Dataset], WriteOptions]] = {
    "sorted": (lambda folder: read(folder, "plain").sort("k"), WriteOptions("parquet")),
    "compressed input": (lambda folder: read(folder, "zstd").sort("k"), WriteOptions("parquet")),
    "shuffled twice": (
        lambda folder: read(folder, "snappy").repartition(3).sort("k"),
        WriteOptions("parquet"),
    ),
    "scan": (lambda folder: read(folder, "zstd"), WriteOptions("parquet")),
    "records": (
        lambda folder: xs.read_records(folder / "records", record_size=100, key_size=10).sort(),
        WriteOptions("records"),
    ),
    "arrow": (
        lambda folder: read(folder, "dictionary").random_shuffle(1),
        WriteOptions("arrow"),
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_surely_has_no_room_is_refused_before_the_first_task(
    name: str,
    folder: Path,
    engine: LocalEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, options = WRITTEN[name]
    size = make(folder).write(tmp_path / "all", options).bytes
    tasks: collections.Counter[str] = collections.Counter()
    engine.add_observer(lambda event: tasks.update([event.name]))
    # Output that has room is written.
    with_free(monkeypatch, size)
    assert make(folder).write(tmp_path / "again", options).bytes == size
    tasks.clear()
    with_free(monkeypatch, size // 2)
    with pytest.raises(
        DiskFullError, match=rf"^the output takes at least .* and {tmp_path} has .* free; write to"
    ):
        make(folder).write(tmp_path / "out", options)
    xs.shutdown()
    assert not tasks
    assert not (tmp_path / "out").exists()


UNSURE: dict[str, tuple[Callable[[Dataset], Dataset], WriteOptions]] = {
    "compressed": (lambda rows: rows.sort("k"), WriteOptions("parquet", "zstd")),
    "fewer rows": (lambda rows: rows.filter("id < 10").sort("k"), WriteOptions("parquet")),
    "first rows": (lambda rows: rows.limit(10), WriteOptions("parquet")),
    "groups": (lambda rows: rows.group_by("small").agg(n="count"), WriteOptions("parquet")),
    "text": (lambda rows: rows.limit(10).sort("k"), WriteOptions("csv")),
}


@pytest.mark.parametrize("name", UNSURE)
@pytest.mark.usefixtures("engine")
def test_what_may_have_room_is_not_refused(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_free(monkeypatch, 10_000)
    make, options = UNSURE[name]
    assert make(read(folder, "plain")).write(tmp_path / "out", options).rows


@pytest.mark.usefixtures("engine")
def test_values_that_repeat_may_have_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted, a column of few values takes next to nothing."""
    table = pa.table({"k": pa.array([row % 5 for row in range(200_000)], pa.int64())})
    write_files(tmp_path / "in", table, 2)
    with_free(monkeypatch, 20_000)
    result = xs.read_parquet(tmp_path / "in").sort("k").write_parquet(tmp_path / "out")
    assert result.bytes < 20_000


def test_spilled_and_written_on_one_disk_count_together(
    tmp_path: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engine
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "some.dat").write_bytes(bytes(range(100)) * 1_200_000)
    dataset = xs.read_records(tmp_path / "in", record_size=100, key_size=10).sort()
    bill = dataset.explain(tmp_path / "out")
    assert bill.shares_disk
    assert bill.spilled_bytes > 40_000_000
    assert bill.output_bytes == 120_000_000
    monkeypatch.setattr("exoshuffle.dataset.explain.explain.free_bytes", lambda _: 130_000_000)
    assert not dataset.explain(tmp_path / "out").fits_on_disk
    with_free(monkeypatch, 130_000_000)
    with pytest.raises(DiskFullError, match=r"114 MB beside about \d+\.\d MB that are spilled"):
        dataset.write_records(tmp_path / "out")
    monkeypatch.setattr(output, "is_same_disk", lambda *_: False)
    assert dataset.write_records(tmp_path / "out").bytes == 120_000_000
