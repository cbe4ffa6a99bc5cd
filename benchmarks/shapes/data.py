"""The tables of the shapes, a folder for each set of them, with a folder of files for each table.

Guarantee: the same size gives the same rows. A half-written set is never taken for a whole one: the folder gets its
name when it is complete. Random numbers are hashes of row numbers by DuckDB. So memory stays small, and every machine
with the same DuckDB has the same rows.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.db_data import group_input, join_input
from benchmarks.shapes.sizes import Size
from benchmarks.shapes.tpch_sql import NAMES
from benchmarks.tpch import tpch_input

NUM_FILES = 8
#: Small enough that an engine can spread one file over its threads.
ROW_GROUP_ROWS = 122_880
PLAIN = "COMPRESSION uncompressed"
ZSTD = "COMPRESSION zstd"
#: A prime greater than any number of rows: rows times it, modulo their number, are in no order.
PRIME = 3_266_489_917


def _random(number: int) -> str:
    """Returns SQL for one of 32 random numbers of row ``i``."""
    return f"hash(32 * i + {number})"


def _events(num_rows: int) -> str:
    """Returns SQL for the columns of a table of events."""
    return f"""
        (i * {PRIME} % {num_rows})::BIGINT AS id,
        ({_random(1)} % {max(1, num_rows // 40)})::INTEGER AS "user",
        format('c{{:03d}}', ({_random(2)} % 200)::BIGINT) AS country,
        ({_random(3)} % 10000000) / 1000 AS amount,
        format('name-{{:08d}}', ({_random(4)} % {max(1, num_rows // 4)})::BIGINT) AS name,
        TIMESTAMP '2024-01-01' + to_seconds(({_random(5)} % 31536000)::BIGINT) AS ts,
        ({_random(6)} % 100)::INTEGER AS quantity
    """


def events(size: Size, folder: Path) -> None:
    """Events as zstd Parquet: numbers, a time, and text with few values and with many."""
    _copy(folder / "events", size.rows, _events(size.rows), ZSTD)


def csv(size: Size, folder: Path) -> None:
    """Events as CSV, a quarter of them."""
    num_rows = size.rows // 4
    _copy(folder / "events", num_rows, _events(num_rows), "FORMAT csv, HEADER")


def tiny(size: Size, folder: Path) -> None:
    """Events, 10,000 whatever the size, and a table of countries."""
    del size
    _copy(folder / "events", 10_000, _events(10_000), PLAIN, num_files=1)
    country = "format('c{:03d}', i) AS country, 'land ' || i AS label"
    _copy(folder / "countries", 200, country, PLAIN, num_files=1)


def files(size: Size, folder: Path) -> None:
    """A hundred events in each of very many files."""
    num_rows = size.files * 100
    _copy(folder / "events", num_rows, _events(num_rows), PLAIN, num_files=size.files)


def texts(size: Size, folder: Path) -> None:
    """Texts of 1,000 to 4,000 characters, each of random words of eight; a fortieth of the rows."""
    num_rows = max(1, size.rows // 40)
    words = f"list_transform(range((125 + {_random(1)} % 376)::BIGINT), lambda n: md5(n || '-' || i)[:8])"
    columns = f"(i * {PRIME} % {num_rows})::BIGINT AS id, array_to_string({words}, '') AS text"
    _copy(folder / "texts", num_rows, columns, PLAIN)


def nested(size: Size, folder: Path) -> None:
    """Lists of text and structs beside a key; a quarter of the rows."""
    num_rows = size.rows // 4
    tags = (
        f"list_transform(range(({_random(1)} % 4)::BIGINT), lambda n: 'tag' || (hash(i + n) % 50))"
    )
    place = f"{{'x': {_random(2)} % 1000, 'y': ({_random(3)} % 1000) / 8}}"
    columns = (
        f"(i * {PRIME} % {num_rows})::BIGINT AS id, {tags} AS tags, "
        f"{place}::STRUCT(x BIGINT, y DOUBLE) AS place"
    )
    _copy(folder / "nested", num_rows, columns, PLAIN)


def hundred(size: Size, folder: Path) -> None:
    """A table of 110 columns of integers, floats and text; an eighth of the rows."""
    num_rows = size.rows // 8
    kinds = ("{}::BIGINT % 1000000", "({} % 1000000) / 7", "'text ' || ({} % 100000)")
    values = [
        f"{kinds[n % 3].format(f'(hash(128 * i + {n}) >> 2)')} AS c{n:03}" for n in range(1, 110)
    ]
    _copy(
        folder / "hundred",
        num_rows,
        ", ".join([f"(i * {PRIME} % {num_rows})::BIGINT AS id", *values]),
        PLAIN,
    )


def wide(size: Size, folder: Path) -> None:
    """A table of very many columns: 2,000 rows of integers in ten groups."""
    values = [
        f"(hash({size.columns} * i + {n}) % 1000)::BIGINT AS c{n:04}"
        for n in range(1, size.columns)
    ]
    columns = ", ".join([f"((i * {PRIME} % 2000))::BIGINT AS id", *values])
    _copy(folder / "wide", 2_000, columns, PLAIN, num_files=1)


def dictionaries(size: Size, folder: Path) -> None:
    """Columns that Arrow has as dictionaries, one of 1,000 values and one of ten."""
    columns = f"""
        (i * {PRIME} % {size.rows})::BIGINT AS id,
        format('city number {{:04d}}', ({_random(1)} % 1000)::BIGINT) AS city,
        format('kind {{}}', ({_random(2)} % 10)::BIGINT) AS kind,
        ({_random(3)} % 1000)::BIGINT AS value
    """
    kind = pa.dictionary(pa.int32(), pa.string())
    _copy(folder / "plain", size.rows, columns, PLAIN)
    _rewritten(folder / "plain", folder / "dictionaries", {"city": kind, "kind": kind})


def views(size: Size, folder: Path) -> None:
    """Lineitem and orders of TPC-H: their text is Arrow's string_view."""
    _moved(tpch_input(size.tpch, folder), folder)


def strings(size: Size, folder: Path) -> None:
    """The same rows with plain strings."""
    made = tpch_input(size.tpch, folder)
    for table in made.iterdir():
        _rewritten(table, folder / table.name, {})
    made.rmdir()


def tpch(size: Size, folder: Path) -> None:
    """All tables of TPC-H."""
    _moved(tpch_input(size.tpch, folder, NAMES), folder)


def db_group(size: Size, folder: Path) -> None:
    """The table of db-benchmark that is grouped."""
    _moved(group_input(size.db_rows, folder), folder)


def db_join(size: Size, folder: Path) -> None:
    """The tables of db-benchmark that are joined."""
    _moved(join_input(size.db_rows, folder), folder)


DATA: dict[str, Callable[[Size, Path], None]] = {
    made.__name__: made
    for made in (
        events,
        csv,
        tiny,
        files,
        texts,
        nested,
        hundred,
        wide,
        dictionaries,
        views,
        strings,
        tpch,
        db_group,
        db_join,
    )
}


def data_input(name: str, size: Size, root: Path) -> Path:
    """Returns the folder of a set of tables, which the first call generates.

    Args:
        name: One of ``DATA``.
        size: How large it is.
        root: Where folders are.
    """
    parts = (f"{size.tpch:g}", size.db_rows, size.rows, size.columns, size.files)
    folder = root / f"shapes-{'-'.join(map(str, parts))}" / name
    if not folder.exists():
        unfinished = folder.with_name(f"{name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        DATA[name](size, unfinished)
        unfinished.rename(folder)
    return folder


def _moved(made: Path, folder: Path) -> None:
    """Takes tables out of the folder in which a generator made them."""
    for table in made.iterdir():
        table.rename(folder / table.name)
    made.rmdir()


def _copy(
    folder: Path, num_rows: int, columns: str, options: str, num_files: int = NUM_FILES
) -> None:
    """Writes a table of columns that are computed from the row number ``i``."""
    folder.mkdir(parents=True)
    ending = "csv" if "csv" in options else "parquet"
    sized = "" if ending == "csv" else f", FORMAT parquet, ROW_GROUP_SIZE {ROW_GROUP_ROWS}"
    with _duckdb() as connection:
        for index in range(num_files):
            first, last = (num_rows * i // num_files for i in (index, index + 1))
            connection.execute(
                f"COPY (SELECT {columns} FROM range({first}, {last}) numbers(i)) "
                f"TO '{folder}/part-{index:05}.{ending}' ({options}{sized})"
            )


@contextlib.contextmanager
def _duckdb() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"memory_limit": "1GB"}) as connection:
        yield connection


def _rewritten(source: Path, folder: Path, types: dict[str, pa.DataType]) -> None:
    """Writes the files of a folder again with other types; text that is not named becomes plain strings."""
    folder.mkdir()
    for path in sorted(source.iterdir()):
        with pq.ParquetFile(path) as file:
            schema = _with_types(file.schema_arrow, types)
            with pq.ParquetWriter(folder / path.name, schema, compression="none") as writer:
                for batch in file.iter_batches(ROW_GROUP_ROWS):
                    writer.write_table(pa.Table.from_batches([batch]).cast(schema))
        path.unlink()
    source.rmdir()


def _with_types(schema: pa.Schema, types: dict[str, pa.DataType]) -> pa.Schema:
    def kind(field: pa.Field) -> pa.DataType:
        is_text = pa.types.is_string_view(field.type) or pa.types.is_large_string(field.type)
        return types.get(field.name, pa.string() if is_text else field.type)

    return pa.schema([pa.field(field.name, kind(field), field.nullable) for field in schema])
