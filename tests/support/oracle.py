"""The rows that a sorted result must have, according to DuckDB and pyarrow, and how two tables are compared to the
bit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

import exoshuffle as xs
from exoshuffle.operators.core.keys import SortKey
from tests.support.duck import duck

ROW = "row_number"


def with_row_numbers(table: pa.Table) -> pa.Table:
    """The table with a column that tells where each row was: as the last key, it makes any sort stable."""
    return table.append_column(ROW, pa.array(range(len(table)), pa.int64()))


def expected(table: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    """The rows in the order of DuckDB's ORDER BY; the table has row numbers."""
    order = ", ".join(
        f'"{key.column}" {"desc" if key.descending else "asc"} nulls {"first" if key.nulls_first else "last"}'
        for key in keys
    )
    needed = table.select([*dict.fromkeys(key.column for key in keys), ROW])
    with duck(needed=needed) as connection:
        rows = connection.sql(f"select {ROW} from needed order by {order}, {ROW}").to_arrow_table()  # noqa: S608
    return _take(table, rows.column(0).combine_chunks())


def _take(table: pa.Table, rows: pa.Array) -> pa.Table:
    """``Table.take``, also of views, for which pyarrow has no kernel."""
    solid = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    movable = pa.schema(
        [field.with_type(solid.get(field.type, field.type)) for field in table.schema]
    )
    return table.cast(movable).take(rows).cast(table.schema)


def assert_same(actual: pa.Table, wanted: pa.Table) -> None:
    """Same columns, types, and values; floats by their bits."""
    assert actual.schema.equals(wanted.schema), f"{actual.schema}\n\n{wanted.schema}"
    assert actual.num_rows == wanted.num_rows
    for name in wanted.column_names:
        got, want = _plain(actual[name]), _plain(wanted[name])
        if not got.equals(want):
            first = next(i for i in range(len(want)) if not got[i].equals(want[i]))
            raise AssertionError(f"{name}[{first}] is {got[first]}, wanted {want[first]}")


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a form that ``equals`` compares to the bit: dictionaries as values, floats as integers."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if pa.types.is_floating(kind):
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
    return column


def check_both_strategies(
    source: Path, keys: Sequence[SortKey], num_partitions: int, wanted: pa.Table
) -> None:
    """Sorts the Parquet files of ``source`` by either strategy, beside it: the wanted rows, and the same files."""
    written = {}
    for strategy in ("simple", "push"):
        output = source.parent / strategy
        dataset = xs.read_parquet(source).sort_keys(
            keys, strategy=strategy, num_partitions=num_partitions
        )
        files = dataset.write_parquet(output).files
        assert_same(read_directory(output, "parquet"), wanted)
        written[strategy] = [(file, (output / file["name"]).read_bytes()) for file in files]
    assert written["simple"] == written["push"]


def read_directory(directory: Path, extension: str, schema: pa.Schema | None = None) -> pa.Table:
    """All files of an output directory in order of their names, as pyarrow reads them, with the types of ``schema``."""
    readers = {
        "parquet": lambda path: pq.ParquetFile(path).read(),
        "arrow": lambda path: pa.ipc.open_file(path).read_all(),
        "csv": lambda path: pyarrow.csv.read_csv(path, convert_options=_csv_types(schema)),
        "jsonl": lambda path: pyarrow.json.read_json(path, parse_options=_json_types(schema)),
    }
    files = sorted(Path(directory).glob(f"*.{extension}"))
    assert files
    return pa.concat_tables([readers[extension](str(file)) for file in files])


def _csv_types(schema: pa.Schema | None) -> pyarrow.csv.ConvertOptions:
    types = None if schema is None else {field.name: field.type for field in schema}
    return pyarrow.csv.ConvertOptions(
        column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
    )


def _json_types(schema: pa.Schema | None) -> pyarrow.json.ParseOptions:
    return pyarrow.json.ParseOptions(explicit_schema=schema)


def write_files(
    directory: Path, table: pa.Table, num_files: int, rows_per_group: int = 1000
) -> Path:
    """The table as ``num_files`` Parquet files of several row groups, each file a stretch of it."""
    directory.mkdir(parents=True, exist_ok=True)
    for index in range(num_files):
        start, stop = (i * len(table) // num_files for i in (index, index + 1))
        part = table.slice(start, stop - start)
        pq.write_table(part, directory / f"part-{index:03}.parquet", row_group_size=rows_per_group)
    return directory
