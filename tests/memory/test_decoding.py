"""Pages and batches that are far larger in memory than in their file: decoded within the limit, or refused before.

A file of 25 kB may hold a page of 800 MB, which decoders make in one piece.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.errors import InputError


def zeros(num_values: int) -> pa.Array:
    """Numbers that take no room when they are compressed."""
    return pa.Array.from_buffers(
        pa.int64(), num_values, [None, pa.py_buffer(bytes(8 * num_values))]
    )


def one_page(path: Path, num_values: int, codec: str = "zstd") -> Path:
    """A Parquet file of one page of numbers."""
    pq.write_table(
        pa.table({"n": zeros(num_values), "small": pa.nulls(num_values, pa.int8())}),
        path,
        use_dictionary=False,
        compression=codec,
        data_page_size=2**30,
        max_rows_per_page=num_values,
        row_group_size=num_values,
    )
    return path


def one_batch(path: Path, num_values: int, codec: str = "zstd") -> Path:
    """An Arrow IPC file of one batch of numbers."""
    table = pa.table({"n": zeros(num_values)})
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=options) as writer,
    ):
        writer.write_table(table)
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page and a batch of 400 MB, in 50 kB."""
    folder = tmp_path_factory.mktemp("large")
    return {
        "page": one_page(folder / "in.parquet", 50_000_000),
        "batch": one_batch(folder / "in.arrow", 50_000_000),
    }


@pytest.mark.parametrize("command", [["sort", "--by", "n"], ["repartition", "--partitions", 1]])
@pytest.mark.parametrize("unit", ["page", "batch"])
def test_what_does_not_fit_is_refused(
    unit: str,
    command: list[Any],
    large: dict[str, Path],
    tmp_path: Path,
    refuse: Callable[..., Any],
) -> None:
    assert large[unit].stat().st_size < 100_000
    limit = ["--memory-limit", "300MB"]
    refused = refuse(command[0], large[unit], tmp_path / "out", *command[1:], *limit)
    for words in (f"{unit} of", "400 MB", "300 MB", str(large[unit]), "set memory_limit to"):
        assert words in refused.message
    assert refused.peak_bytes < 150_000_000


#: Reads a column whose pages are small, beside one whose page does not fit.
SELECTS = """
import sys, exoshuffle as xs
xs.init(memory_limit="300MB", num_cpus=2)
print(xs.read_parquet(sys.argv[1]).select("small").write_parquet(sys.argv[2]).rows)
"""


def test_a_column_that_nobody_reads_is_not_refused(large: dict[str, Path], tmp_path: Path) -> None:
    program = [sys.executable, "-c", SELECTS, str(large["page"]), str(tmp_path / "out")]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout.split() == ["50000000"]


@pytest.mark.parametrize("make", [one_page, one_batch])
def test_what_fits_is_decoded_alone(
    make: Callable[..., Path], tmp_path: Path, measure: Callable[..., Any]
) -> None:
    path = make(tmp_path / ("in.parquet" if make is one_page else "in.arrow"), 10_000_000)
    measured = measure(
        "repartition", path, tmp_path / "out", "--partitions", 8, "--memory-limit", "350MB"
    )
    assert measured.summary["rows"] == 10_000_000
    assert measured.peak_bytes <= 350_000_000


def test_a_value_that_repeats(tmp_path: Path, measure: Callable[..., Any]) -> None:
    """A text of 100 kB, 10,000 times, in a page of a few bytes: 1 GB of rows in a file of 60 kB."""
    number = pa.array(range(5_000))
    text = pa.DictionaryArray.from_arrays(pa.nulls(5_000, pa.int32()).fill_null(0), ["x" * 100_000])
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"number": number, "text": text}), path)
    arguments = [path, tmp_path / "out", "--by", "number desc", "--memory-limit", "300MB"]
    measured = measure("sort", *arguments)
    assert measured.summary["rows"] == 5_000
    assert measured.peak_bytes <= 300_000_000


@pytest.mark.usefixtures("in_process")
def test_sizes_that_the_file_cannot_hold_are_not_believed(tmp_path: Path) -> None:
    """The size of the page in its header is replaced by one of 134 MB, for which snappy has too few bytes."""
    path = one_page(tmp_path / "in.parquet", 2_000_000, "snappy")
    content = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    # Thrift: field 2, a number; the one before it is the kind of the page.
    size = chunk.data_page_offset + 3
    assert content[size - 1] == 0x15
    assert [byte >= 0x80 for byte in content[size : size + 4]] == [True, True, True, False]
    content[size : size + 4] = b"\xfe\xff\xff\x7f"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"claims to have 134217727 bytes .* can hold"):
        xs.read_parquet(path).to_arrow()


def test_a_large_page_behind_small_ones_is_refused(
    tmp_path: Path, refuse: Callable[..., Any]
) -> None:
    """Only the first page of a column is looked at before: here 1 MB, and behind it one of 200 MB."""
    texts = [f"y{n}" for n in range(300_000)] + [f"{n}" + "x" * 200_000 for n in range(1_000)]
    path = tmp_path / "in.parquet"
    table = pa.table({"n": range(len(texts)), "s": pa.array(texts, pa.large_string())})
    pq.write_table(table, path, use_dictionary=False, compression="zstd", row_group_size=10**6)
    limit = ["--memory-limit", "300MB"]
    refused = refuse("sort", path, tmp_path / "out", "--by", "n desc", *limit)
    assert "a page has 201 MB in memory, and the memory limit leaves 25 MB" in refused.message
    assert refused.peak_bytes < 200_000_000
