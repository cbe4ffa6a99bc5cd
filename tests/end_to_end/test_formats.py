"""Every format is read, sorted and written; pyarrow reads the result and finds every row in order."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError, OutputError
from exoshuffle.operators.core.keys import SortKey
from tests.support.duck import duck
from tests.support.formats import READERS, WRITERS
from tests.support.oracle import assert_same, expected, read_directory, with_row_numbers

pytestmark = pytest.mark.usefixtures("engine")

KEYS = [SortKey("name", True), SortKey("score")]


#: Timestamps with zones, of which text files tell the instant only.
ZONES = {
    "utc": pa.timestamp("ms", "UTC"),
    "berlin": pa.timestamp("us", "Europe/Berlin"),
    "east": pa.timestamp("us", "+02:00"),
}


def _table(num_rows: int = 2000) -> pa.Table:
    """Types that all formats can hold, with text that needs quoting and escaping."""
    rng = random.Random(2)
    # In seconds from 2000 to 2030, with the hours that clocks in Berlin skip and repeat.
    seconds = [
        rng.choice([None, rng.randrange(946_684_800, 1_893_456_000)]) for _ in range(num_rows)
    ]
    seconds[:3] = [1_585_443_600, 1_603_584_000, 1_603_587_600]
    instants = pa.array(seconds, pa.timestamp("s"))
    words = [
        "plain",
        'with "quotes"',
        "with, comma",
        "line\nbreak",
        "tab\t",
        "é水🍌",
        " space ",
        "\\back",
    ]
    return with_row_numbers(
        pa.table(
            {
                "name": [rng.choice([None, *words]) for _ in range(num_rows)],
                "score": pa.array(
                    [rng.choice([None, rng.uniform(-1e9, 1e9)]) for _ in range(num_rows)]
                ),
                "count": pa.array([rng.randrange(-(2**60), 2**60) for _ in range(num_rows)]),
                "flag": [rng.choice([None, True, False]) for _ in range(num_rows)],
                **{name: instants.cast(kind) for name, kind in ZONES.items()},
            }
        )
    )


def _write(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=300)
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".jsonl":
        import json

        lines = [
            json.dumps(row, ensure_ascii=row["row_number"] % 2 == 0, default=dt.datetime.isoformat)
            for row in table.to_pylist()
        ]
        path.write_text("\n".join(lines))
    else:
        make = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
        with make(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=300)


@pytest.mark.parametrize("output", WRITERS)
@pytest.mark.parametrize("source", READERS)
def test_from_every_format_to_every_format(source: str, output: str, tmp_path: Path) -> None:
    table = _table()
    for index, start in enumerate((0, 700, 1400)):
        _write(table.slice(start, 700), tmp_path / f"in-{index}.{source}")
    types = {"schema": ZONES} if source in ("csv", "jsonl") else {}
    files = READERS[source](str(tmp_path / f"in-*.{source}"), **types)
    dataset = files.sort_keys(KEYS, num_partitions=3)
    getattr(dataset, WRITERS[output])(tmp_path / "out")
    result = read_directory(tmp_path / "out", output, table.schema)
    assert_same(result, expected(table, KEYS))


@pytest.mark.parametrize("output", ["csv", "jsonl"])
def test_duckdb_reads_the_instants_of_zoned_timestamps(output: str, tmp_path: Path) -> None:
    table = _table()
    _write(table, tmp_path / "in.parquet")
    getattr(xs.read_parquet(tmp_path / "in.parquet"), WRITERS[output])(tmp_path / "out")
    epochs = ", ".join(f"epoch_us({name}::timestamptz)" for name in ZONES)
    with duck(table=table) as connection:
        found = connection.sql(f"select {epochs} from '{tmp_path}/out/*.{output}'").fetchall()  # noqa: S608
    wanted = [table[name].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist() for name in ZONES]
    assert found == list(zip(*wanted, strict=True))


@pytest.mark.parametrize("output", WRITERS)
def test_an_unsorted_dataset_is_rewritten_in_order(output: str, tmp_path: Path) -> None:
    table = _table()
    _write(table, tmp_path / "in.parquet")
    getattr(xs.read_parquet(tmp_path / "in.parquet"), WRITERS[output])(tmp_path / "out")
    assert_same(read_directory(tmp_path / "out", output, table.schema), table)


def test_types_and_metadata_survive_parquet(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field(
                "k",
                pa.timestamp("us", "Europe/Berlin"),
                nullable=False,
                metadata={"unit": "berlin"},
            ),
            pa.field("price", pa.decimal128(12, 2)),
            pa.field("kind", pa.dictionary(pa.int32(), pa.string())),
            pa.field("big", pa.large_string()),
        ],
        metadata={"owner": "tests"},
    )
    rows = [
        {
            "k": dt.datetime(2020, 1, i, tzinfo=dt.timezone.utc),
            "price": decimal.Decimal(i) / 4,
            "kind": "ab"[i % 2],
            "big": "x" * i,
        }
        for i in (3, 1, 2)
    ]
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table, tmp_path / "in.parquet")
    xs.read_parquet(tmp_path / "in.parquet").sort("k").write_parquet(tmp_path / "out")
    result = pq.ParquetFile(tmp_path / "out" / "part-00000.parquet").read()
    assert result.schema.remove_metadata().equals(schema.remove_metadata())
    assert result.schema.metadata[b"owner"] == b"tests"
    assert result.field("k").metadata[b"unit"] == b"berlin"
    assert result["big"].to_pylist() == ["x", "xx", "xxx"]


def test_dictionaries_are_written_where_they_save(tmp_path: Path) -> None:
    num_rows = 60_000
    numbers = [row * 7919 % num_rows for row in range(num_rows)]
    table = pa.table(
        {
            "once": numbers,
            "text": [f"number {number}" for number in numbers],
            "few": [number % 100 for number in numbers],
            "words": pa.array(["aye", None, "nay"] * (num_rows // 3)),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    rows = xs.read_parquet(tmp_path / "in.parquet").repartition(1)
    rows.write_parquet(tmp_path / "out", compression="none")
    written = pq.ParquetFile(tmp_path / "out" / "part-00000.parquet")
    group = written.metadata.row_group(0)
    chunks = [group.column(index) for index in range(4)]
    has_dictionary = {chunk.path_in_schema: chunk.has_dictionary_page for chunk in chunks}
    assert has_dictionary == {"once": False, "text": False, "few": True, "words": True}
    assert written.read().sort_by("once")["few"].equals(table.sort_by("once")["few"])


@pytest.mark.parametrize("name", ["out", "out.arrow"])
@pytest.mark.parametrize("operator", ["scan", "filter", "sort"])
def test_dictionaries_of_all_batches_are_one_in_an_ipc_file(
    operator: str, name: str, tmp_path: Path
) -> None:
    """Each batch brings its own; the file format takes one that is extended, and none that is replaced."""
    num_rows = 20_000
    words = [None if row % 7 == 0 else f"word {row // 100 * 31 % 211}" for row in range(num_rows)]
    plain = pa.table(
        {"k": range(num_rows), "w": words, "n": [row // 512 for row in range(num_rows)]}
    )
    table = plain.set_column(1, "w", plain["w"].dictionary_encode())
    table = table.set_column(2, "n", plain["n"].dictionary_encode())
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=3000)
    rows = xs.read_parquet(tmp_path / "in.parquet")
    made = {"scan": rows, "filter": rows.filter("k >= 0"), "sort": rows.sort("k")}[operator]
    made.write_ipc(tmp_path / name)
    files = sorted((tmp_path / "out").glob("*.arrow")) or [tmp_path / name]
    found = pa.concat_tables([pa.ipc.open_file(str(file)).read_all() for file in files])
    assert found.schema.field("w").type == made.schema.field("w").type
    assert found.to_pylist() == plain.to_pylist()


SECONDS = {
    "at": (pa.timestamp("s"), pa.timestamp("ms"), [0, None, -1]),
    "zoned": (pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC"), [0, 1_700_000_000, None]),
    "time": (pa.time32("s"), pa.time32("ms"), [None, 1, 86_399]),
    "day": (pa.date64(), pa.date32(), [86_400_000, None, -86_400_000]),
    "list": (pa.list_(pa.timestamp("s")), pa.list_(pa.timestamp("ms")), [[1], None, [None, 2]]),
    "struct": (
        pa.struct([("x", pa.time32("s"))]),
        pa.struct([("x", pa.time32("ms"))]),
        [{"x": 5}, None, {"x": None}],
    ),
}


@pytest.mark.parametrize("options", [{}, {"target_file_size": "1kB"}, {"partition_by": "k"}])
@pytest.mark.parametrize("operator", ["scan", "sort"])
def test_seconds_are_written_as_milliseconds(operator: str, options: dict, tmp_path: Path) -> None:
    """Parquet has no seconds: written as they are, they were plain numbers to all that do not read Arrow's schema."""
    types, stored, values = ({name: row[i] for name, row in SECONDS.items()} for i in range(3))
    columns = {name: pa.array(values[name], types[name]) for name in types}
    table = pa.table({"k": [1, 1, 1], "i": [0, 1, 2], **columns})
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), table.schema) as writer:
        writer.write_table(table)
    rows = xs.read_ipc(tmp_path / "in.arrow")
    (rows if operator == "scan" else rows.sort("i")).write_parquet(tmp_path / "out", **options)
    files = (tmp_path / "out").rglob("*.parquet")
    found = pa.concat_tables(pq.read_table(file, partitioning=None) for file in files)
    for name, kind in stored.items():
        assert found.schema.field(name).type.equals(kind) or name in ("list", "struct")
        assert found[name].to_pylist() == table[name].to_pylist()


def test_timestamps_of_text_are_timestamps_in_parquet(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("k,when_\n1,2024-01-31 12:34:56\n2,\n")
    xs.read_csv(tmp_path / "in.csv").sort("k").write_parquet(tmp_path / "out.parquet")
    with duck() as connection:
        read = connection.read_parquet(str(tmp_path / "out.parquet"))
        found = read.select("typeof(when_), when_").fetchall()
    moment = dt.datetime(2024, 1, 31, 12, 34, 56)  # noqa: DTZ001  a column without a zone
    assert found == [("TIMESTAMP", moment), ("TIMESTAMP", None)]


def test_a_file_whose_dictionary_has_too_many_values(tmp_path: Path) -> None:
    """The error is the writer's, also behind steps in Python, which end early by it."""
    values = [[f"v{row}" for row in range(start, start + 100)] for start in (0, 100)]
    kind = pa.dictionary(pa.int8(), pa.string())
    with pa.ipc.new_stream(str(tmp_path / "in.arrows"), pa.schema([("w", kind)])) as writer:
        for part in values:
            writer.write_table(pa.table({"w": pa.array(part).dictionary_encode().cast(kind)}))
    rows = xs.read_ipc(tmp_path / "in.arrows").filter("w <> ''")
    with pytest.raises(OutputError, match=r"'w' has more values .* a wider key type or"):
        rows.write_ipc(tmp_path / "out")


COMPRESSIONS = {
    "parquet": ["none", "snappy", "zstd", "lz4", "gzip"],
    "arrow": ["none", "zstd", "lz4"],
}


@pytest.mark.parametrize(
    ("output", "compression"), [(f, c) for f, all_ in COMPRESSIONS.items() for c in all_]
)
def test_compression(output: str, compression: str, tmp_path: Path) -> None:
    table = _table(500).append_column("long", pa.array(["compress me " * 20] * 500))
    _write(table, tmp_path / "in.parquet")
    dataset = xs.read_parquet(tmp_path / "in.parquet").sort_keys(KEYS, num_partitions=2)
    result = getattr(dataset, WRITERS[output])(tmp_path / "out", compression=compression)
    assert_same(read_directory(tmp_path / "out", output), expected(table, KEYS))
    if output == "parquet":
        column = (
            pq.ParquetFile(tmp_path / "out" / "part-00000.parquet").metadata.row_group(0).column(0)
        )
        wanted = {"none": "UNCOMPRESSED", "lz4": "LZ4"}.get(compression, compression.upper())
        assert column.compression.startswith(wanted)
    elif compression != "none":
        assert result.bytes < 500 * 240


def test_a_wrong_compression_lists_the_right_ones(tmp_path: Path) -> None:
    _write(_table(10), tmp_path / "in.parquet")
    dataset = xs.read_parquet(tmp_path / "in.parquet").sort("name")
    with pytest.raises(OptionsError, match=r"snappy.*none, zstd, lz4"):
        dataset.write_ipc(tmp_path / "out", compression="snappy")
    with pytest.raises(OptionsError, match=r"brotli.*none, snappy, zstd, lz4, gzip"):
        dataset.write_parquet(tmp_path / "out", compression="brotli")
    assert not (tmp_path / "out").exists()
