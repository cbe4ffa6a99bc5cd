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
from tests.memory.measuring import measured


def zeros(num_values: int) -> pa.Array:
    """Returns numbers that take no room when they are compressed."""
    return pa.Array.from_buffers(
        pa.int64(), num_values, [None, pa.py_buffer(bytes(8 * num_values))]
    )


def one_page(path: Path, num_values: int, codec: str = "zstd") -> Path:
    """Writes a Parquet file of one page of numbers."""
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
    """Writes an Arrow IPC file of one batch of numbers."""
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
    """Writes a page and a batch of 400 MB, in 50 kB."""
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


def growing(path: Path, value_bytes: int) -> Path:
    """Writes a Parquet file with a column of texts: a page of short ones, and one of long ones."""
    short, long = (["x" * num_bytes] * 1024 for num_bytes in (1_200, value_bytes))
    table = pa.table({"n": range(2048), "s": pa.chunked_array([short, long])})
    pq.write_table(table, path, use_dictionary=False, compression="zstd")
    return path


def test_large_pages_behind_small_ones_are_refused(
    tmp_path: Path, refuse: Callable[..., Any]
) -> None:
    path = growing(tmp_path / "in.parquet", 200_000)
    assert path.stat().st_size < 100_000
    arguments = [path, tmp_path / "out", "--by", "n desc", "--memory-limit", "300MB"]
    refused = refuse("sort", *arguments)
    for words in ("page of", "206 MB", "300 MB", str(path), "set memory_limit to"):
        assert words in refused.message
    assert refused.peak_bytes < 150_000_000


def test_large_pages_behind_small_ones_are_planned_for(
    tmp_path: Path, measure: Callable[..., Any]
) -> None:
    path = growing(tmp_path / "in.parquet", 100_000)
    arguments = [path, tmp_path / "out", "--by", "n desc", "--memory-limit", "300MB"]
    measured = measure("sort", *arguments)
    assert measured.summary["rows"] == 2048
    assert measured.peak_bytes <= 300_000_000


def alike(num_small: int, num_large: int, text: str) -> pa.Table:
    """Returns short texts, and behind them a long text that repeats."""
    texts = [f"a{number}" for number in range(num_small)] + [text] * num_large
    return pa.table({"n": range(len(texts)), "s": pa.array(texts)})


@pytest.mark.parametrize(
    ("num_small", "encoding"), [(0, "PLAIN"), (0, "DELTA_BYTE_ARRAY"), (100_000, "PLAIN")]
)
def test_long_texts_lie_together(
    num_small: int, encoding: str, tmp_path: Path, measure: Callable[..., Any]
) -> None:
    """400 texts of a MB. Footers tell the size of all rows together, but not where texts share a beginning."""
    path = tmp_path / "in.parquet"
    pq.write_table(
        alike(num_small, 400, "x" * 1_000_000),
        path,
        use_dictionary=False,
        column_encoding={"n": "PLAIN", "s": encoding},
        write_batch_size=16 if encoding == "PLAIN" else 1024,
    )
    arguments = [path, tmp_path / "out", "--by", "n desc", "--memory-limit", "300MB"]
    measured = measure("sort", *arguments)
    assert measured.summary["rows"] == num_small + 400
    assert measured.peak_bytes <= 300_000_000


SHORT = [f"a{number}" for number in range(100_000)]
LONG = ["x" * 1_000_000] * 300
#: Texts of which long ones share all, or nearly all, with the one before; made on demand, as they are large.
SHARED: dict[str, Callable[[], list[Any]]] = {
    "first": lambda: LONG + SHORT,
    "middle": lambda: SHORT[:50_000] + LONG + SHORT[50_000:],
    "last": lambda: SHORT + [f"{text}{number}" for number, text in enumerate(LONG)],
    "among nulls": lambda: [
        *SHORT,
        *[None] * 1_000,
        *LONG[:150],
        *[None] * 50_000,
        *LONG[:150],
    ],
    "here and there": lambda: [
        LONG[0] if number % 1_000 == 7 else "a" for number in range(300_000)
    ],
    "in lists": lambda: [[text, None] for text in SHORT] + [[text] * 3 for text in LONG[:100]],
    "in structs": lambda: (
        [{"a": text, "b": None} for text in SHORT] + [{"a": text, "b": text} for text in LONG[:150]]
    ),
    "of 10 MB": lambda: SHORT + [LONG[0] * 10] * 30,
}
LEVELS = ("among nulls", "in lists", "in structs")


@pytest.mark.parametrize(
    ("place", "version"),
    [
        ("first", "1.0"),
        ("middle", "2.0"),
        ("last", "1.0"),
        ("here and there", "2.0"),
        ("of 10 MB", "1.0"),
        # Levels lie elsewhere in pages of the other version.
        *((place, version) for place in LEVELS for version in ("1.0", "2.0")),
    ],
)
def test_long_texts_that_share_their_beginnings(
    place: str, version: str, tmp_path: Path, measure: Callable[..., Any]
) -> None:
    """The file has 0.5 to 2 MB; only lengths in its pages tell how much values share."""
    path = tmp_path / "in.parquet"
    texts = SHARED[place]()
    table = pa.table({"n": range(len(texts)), "s": texts})
    leaves = {"in lists": ["s.list.element"], "in structs": ["s.a", "s.b"]}.get(place, ["s"])
    pq.write_table(
        table,
        path,
        use_dictionary=False,
        column_encoding={"n": "PLAIN"} | dict.fromkeys(leaves, "DELTA_BYTE_ARRAY"),
        data_page_version=version,
        compression="none" if version == "1.0" else "zstd",
    )
    arguments = [path, tmp_path / "out", "--by", "n desc", "--memory-limit", "300MB"]
    measured = measure("sort", *arguments)
    assert measured.summary["rows"] == len(texts)
    assert measured.peak_bytes <= 300_000_000


@pytest.mark.parametrize("value_bytes", [20_000_000, 60_000_000, 100_000_000])
def test_what_shares_its_beginning_and_does_not_fit_is_refused(
    value_bytes: int, tmp_path: Path, refuse: Callable[..., Any]
) -> None:
    """Beyond 64 MB, no page is looked at: any value may be as long as the page is."""
    path = tmp_path / "in.parquet"
    texts = [*SHORT, *["x" * value_bytes] * 3]
    pq.write_table(
        pa.table({"n": range(len(texts)), "s": texts}),
        path,
        use_dictionary=False,
        column_encoding={"n": "PLAIN", "s": "DELTA_BYTE_ARRAY"},
    )
    arguments = [path, tmp_path / "out", "--by", "n desc", "--memory-limit", "250MB"]
    refused = refuse("sort", *arguments)
    assert "250 MB" in refused.message
    assert refused.peak_bytes <= 250_000_000


#: Goes over files in a folder, one of which has long texts.
GOES_OVER = """
import exoshuffle as xs
xs.init(memory_limit="300MB", num_cpus=2)
rows = xs.read_parquet({folder!r})
print(rows.{operation}.write_parquet({out!r}).rows)
"""


@pytest.mark.parametrize(
    "operation", ["filter('n >= 0')", "map_batches(lambda rows: rows)", "random_shuffle(seed=1)"]
)
def test_one_of_many_files_has_long_texts(operation: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(5):
        texts = SHORT[:20_000] + (LONG if number == 3 else [])
        pq.write_table(
            pa.table({"n": range(len(texts)), "s": texts}),
            folder / f"{number}.parquet",
            use_dictionary=False,
            column_encoding={"n": "PLAIN", "s": "DELTA_BYTE_ARRAY"},
        )
    program = GOES_OVER.format(folder=str(folder), operation=operation, out=str(tmp_path / "out"))
    printed, peak_bytes = measured(program)
    assert printed.split() == ["100300"]
    assert peak_bytes <= 300_000_000


def test_a_long_value_that_repeats_behind_many_short_ones(
    tmp_path: Path, refuse: Callable[..., Any]
) -> None:
    """Indices of dictionaries do not tell where values are long: a map finds 150 MB where 1 MB was planned."""
    path = tmp_path / "in.parquet"
    pq.write_table(alike(100_000, 300, "x" * 1_000_000), path)
    arguments = [path, tmp_path / "out", "--by", "n desc", "--memory-limit", "300MB"]
    refused = refuse("sort", *arguments)
    assert "raise memory_limit to" in refused.message
    assert refused.peak_bytes <= 300_000_000


def test_large_pages_of_a_struct_are_decoded_together(
    tmp_path: Path, refuse: Callable[..., Any]
) -> None:
    """Each of the three leaves alone would fit."""
    path = tmp_path / "in.parquet"
    texts = ["x" * 1_200] * 1024 + ["x" * 60_000] * 1024
    rows = [{"a": text, "b": text, "c": text} for text in texts]
    table = pa.table({"n": range(2048), "t": rows})
    pq.write_table(table, path, use_dictionary=False, compression="zstd")
    arguments = [path, tmp_path / "out", "--by", "n desc", "--memory-limit", "300MB"]
    refused = refuse("sort", *arguments)
    assert "page of" in refused.message
    assert refused.peak_bytes < 150_000_000


def varint(content: bytes, at: int) -> int:
    """Returns where the number ends that begins there."""
    return next(end for end in range(at, at + 10) if content[end] < 0x80) + 1


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    "again",
    [
        pytest.param(bytes([0x05, 4]), id="in the long form"),
        pytest.param(bytes([0x06, 4]), id="of another type"),
    ],
)
def test_a_page_header_that_says_its_size_twice_is_refused(again: bytes, tmp_path: Path) -> None:
    """The decoder takes the last size, here 1 GiB; a look at the first fields does not find it."""
    path = tmp_path / "in.parquet"
    table = pa.table({"n": pa.array(range(200_000), pa.int64())})
    pq.write_table(table, path, use_dictionary=False, compression="lz4", data_page_size=2**30)
    content = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    at = start
    for field in (0x15, 0x15, 0x15, 0x2C, 0x15, 0x15, 0x15, 0x15):
        assert content[at] == field
        at = varint(content, at + 1) if field == 0x15 else at + 1
    # Statistics, whose last field says that they are exact, and the ends of three structures.
    assert content[at] == 0x1C
    end = content.index(bytes([0x11, 0x11, 0, 0, 0]), at) + 5
    size = bytes([0x80, 0x80, 0x80, 0x80, 8])
    # The rest is the value of a field that nobody knows.
    filler = end - at - len(size) - 7
    crafted = bytes([0, *again, *size, 0x08, 40, filler]) + b"x" * filler + bytes([0])
    content[at:end] = crafted
    path.write_bytes(content)
    with pytest.raises(InputError, match="the header of a page cannot be read"):
        xs.read_parquet(path).to_arrow()


def with_dictionary(path: Path, num_values: int) -> Path:
    """Writes an Arrow IPC file of a number, and a text of 2 kB from a dictionary of so many values."""
    texts = pa.array([f"{i:0>2000}" for i in range(num_values)])
    codes = pa.array([i % num_values for i in range(1000)], pa.int32())
    table = pa.table({"k": range(1000), "d": pa.DictionaryArray.from_arrays(codes, texts)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=options) as writer,
    ):
        writer.write_table(table)
    return path


#: Sorts one column of a file, or all.
SORTS = """
import sys, exoshuffle as xs
xs.init(memory_limit="300MB", num_cpus=2)
rows = xs.read_ipc(sys.argv[1])
rows = rows.select(sys.argv[3]) if len(sys.argv) > 3 else rows
print(rows.sort("k").write_ipc(sys.argv[2]).peak_memory_bytes)
"""


def test_large_dictionaries_are_decoded_only_where_they_are_wanted(tmp_path: Path) -> None:
    path = with_dictionary(tmp_path / "in.arrow", 200_000)
    program = [sys.executable, "-c", SORTS, str(path), str(tmp_path / "out")]
    one = subprocess.run([*program, "k"], check=False, capture_output=True, text=True, timeout=200)
    assert one.returncode == 0, one.stderr
    assert int(one.stdout) < 150_000_000
    program[-1] += " of both"
    both = subprocess.run(program, check=False, capture_output=True, text=True, timeout=200)
    assert "MemoryLimitError: decoding the largest batch" in both.stderr
