"""Few long values among many short ones, where no plan knows of them: tasks come to one each at the same time.

Rows are right, and the program stays within its limit.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.errors import InputError
from tests.memory.measuring import measured

ROWS, LONG_BYTES = 100_000, 20_000_000
LIMIT_BYTES = 300_000_000
PROGRAM = """
import sys
import exoshuffle as xs

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
rows = xs.{read}({path!r})
sys.stdout.write(str({made}.write_parquet({out!r}).rows))
"""


def write_csv(table: pa.Table, path: Path) -> None:
    with path.open("w") as file:
        file.write("n,s\n")
        for n, s in zip(table["n"].to_pylist(), table["s"].to_pylist(), strict=True):
            file.write(f"{n},{s}\n")


#: The places of long rows in a file.
PLACES = {
    "first": range(6),
    "last": range(ROWS - 6, ROWS),
    "here and there": range(7, ROWS, ROWS // 6),
}
WAYS = {
    "scan": "rows",
    "filter": "rows.filter('n >= 0')",
    "filter by the text": "rows.filter('length(s) > 0')",
    "join": "rows.join(rows.select('n'), on='n')",
}
#: A page for each long text, or the beginning of one.
OPTIONS = {"use_dictionary": False, "write_batch_size": 1}
FORMATS: dict[str, tuple[str, str, Callable[[pa.Table, Path], None]]] = {
    "Parquet": (
        "in.parquet",
        "read_parquet",
        lambda table, path: pq.write_table(table, path, compression="none", **OPTIONS),
    ),
    "Parquet, compressed": (
        "in.parquet",
        "read_parquet",
        lambda table, path: pq.write_table(table, path, compression="snappy", **OPTIONS),
    ),
    "CSV": ("in.csv", "read_csv", write_csv),
}


def write_json(table: pa.Table, path: Path) -> None:
    with path.open("w") as file:
        for row in table.to_pylist():
            file.write(f"{json.dumps(row)}\n")


def texts(place: str) -> pa.Table:
    made = [f"short {number}" for number in range(ROWS)]
    for number in PLACES[place]:
        made[number] = f"{number:08}" * (LONG_BYTES // 8)
    return pa.table({"n": range(ROWS), "s": made})


def sums(rows: str) -> list[tuple[int, ...]]:
    """Of all rows, in whatever order."""
    with duckdb.connect() as connection:
        return connection.sql(
            f"select count(*), sum(n), sum(length(s)), bit_xor(hash(n, s)) from {rows}"  # noqa: S608
        ).fetchall()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("Parquet", "first"),
        ("Parquet", "last"),
        ("Parquet", "here and there"),
        ("Parquet, compressed", "last"),
        ("CSV", "here and there"),
    ],
)
def test_tasks_take_turns_with_long_values(kind: str, place: str, way: str, tmp_path: Path) -> None:
    name, read, write = FORMATS[kind]
    path, out = tmp_path / name, tmp_path / "out"
    write(texts(place), path)
    program = PROGRAM.format(
        limit=LIMIT_BYTES,
        folder=str(tmp_path),
        read=read,
        path=str(path),
        made=WAYS[way],
        out=str(out),
    )
    printed, peak_bytes = measured(program)
    assert printed == str(ROWS)
    assert peak_bytes <= LIMIT_BYTES
    source = f"read_csv('{path}', max_line_size={2 * LONG_BYTES})" if kind == "CSV" else f"'{path}'"
    assert sums(f"'{out}/*.parquet'") == sums(source)


ROOMY_BYTES = 400_000_000
MEETING_PROGRAM = """
import sys
import exoshuffle as xs
from exoshuffle.errors import MemoryLimitError

engine = xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
tasks = []
engine.add_observer(lambda event: tasks.append(event.name))
rows = xs.read_csv({path!r})
try:
    made = rows.join(rows.rename({{"s": "t"}}), on="n", strategy="simple").write_parquet({out!r})
    sys.stdout.write(str(made.rows))
except MemoryLimitError as error:
    sys.stdout.write(f"{{tasks}} {{error}}")
"""


def test_long_rows_that_may_meet_are_refused_before_they_move(tmp_path: Path) -> None:
    """Samples missed them: reduces were refused when all maps had run."""
    path, out = tmp_path / "in.csv", tmp_path / "out"
    table = texts("first").slice(0, 10_000)
    write_csv(pa.concat_tables([table.slice(1000), table.slice(3, 1)]), path)

    def joined(limit: int) -> tuple[str, int]:
        names = {"folder": str(tmp_path), "path": str(path), "out": str(out)}
        return measured(MEETING_PROGRAM.format(limit=limit, **names))

    refused, peak_bytes = joined(LIMIT_BYTES)
    assert re.fullmatch(
        r"\['measure'(, 'measure')*\] shuffling .* does not fit .* works is .*", refused
    )
    assert peak_bytes <= LIMIT_BYTES
    printed, peak_bytes = joined(ROOMY_BYTES)
    assert printed == str(9_001)
    assert peak_bytes <= ROOMY_BYTES


@pytest.mark.parametrize(
    ("name", "made"),
    [("in.csv", "rows.distinct()"), ("in.jsonl", "rows.random_shuffle(seed=1)")],
)
def test_fewer_tasks_run_than_cpus_where_rows_are_large(
    name: str, made: str, tmp_path: Path
) -> None:
    """They were refused: one needed 464 MB for a task on each CPU, and the other 309."""
    path, out = tmp_path / name, tmp_path / "out"
    is_csv = name.endswith("csv")
    write = write_csv if is_csv else write_json
    write(texts("here and there"), path)
    program = PROGRAM.format(
        limit=LIMIT_BYTES,
        folder=str(tmp_path),
        read="read_csv" if is_csv else "read_json",
        path=str(path),
        made=made,
        out=str(out),
    )
    printed, peak_bytes = measured(program)
    assert printed == str(ROWS)
    assert peak_bytes <= LIMIT_BYTES
    longest = 2 * LONG_BYTES
    of_csv, of_json = f"max_line_size={longest}", f"maximum_object_size={longest}"
    source = f"read_csv('{path}', {of_csv})" if is_csv else f"read_json('{path}', {of_json})"
    assert sums(f"'{out}/*.parquet'") == sums(source)


def test_tasks_read_one_at_a_time_where_a_batch_may_be_one_long_value(tmp_path: Path) -> None:
    """Batches of Arrow IPC do not tell: two tasks came to a text of 50 MB each, and peaked at 436 MB."""
    path, out, limit_bytes = tmp_path / "in.arrow", tmp_path / "out", 400_000_000
    made = [f"short {number}" for number in range(20_000)]
    for number in (3_000, 7_000, 11_000, 15_000):
        made[number] = f"{number:08}" * 6_250_000
    table = pa.table({"n": range(len(made)), "s": made})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2_000)
    program = PROGRAM.format(
        limit=limit_bytes,
        folder=str(tmp_path),
        read="read_ipc",
        path=str(path),
        made="rows",
        out=str(out),
    )
    printed, peak_bytes = measured(program)
    assert printed == "20000"
    assert peak_bytes <= limit_bytes
    with duckdb.connect() as connection:
        connection.register("given", table)
        assert (
            sums(f"'{out}/*.parquet'")
            == connection.sql(
                "select count(*), sum(n), sum(length(s)), bit_xor(hash(n, s)) from given"
            ).fetchall()
        )


@pytest.mark.parametrize("way", ["rows", "rows.filter('n > 0')"])
def test_a_value_of_arrow_ipc_beyond_the_limit_is_refused(way: str, tmp_path: Path) -> None:
    """Texts of 100 MB peaked at 542 MB within 500, and at 574 with a filter."""
    path, limit_bytes = tmp_path / "in.arrow", 500_000_000
    schema = pa.schema({"n": pa.int64(), "s": pa.string()})
    with pa.ipc.new_file(path, schema) as writer:
        for number in range(2):
            rows = {"n": [1, number], "s": ["short", f"{number:02}" * 50_000_000]}
            writer.write_batch(pa.record_batch(rows, schema=schema))
    program = PROGRAM.format(
        limit=limit_bytes,
        folder=str(tmp_path),
        read="read_ipc",
        path=str(path),
        made=way,
        out=str(tmp_path / "out"),
    )
    refused = f"""
import exoshuffle.errors
try:
{textwrap.indent(program, "    ")}
except exoshuffle.errors.MemoryLimitError as error:
    sys.stdout.write(str(error))
"""
    printed, peak_bytes = measured(refused)
    assert re.search(r"in\.arrow': row \d has 10\d MB, and the memory limit leaves \d+ MB", printed)
    assert peak_bytes <= limit_bytes


def test_a_join_knows_of_rows_that_it_has_not_seen(tmp_path: Path) -> None:
    """Two sides of 400 MB, which were taken for 4 MB; with twice as much, the join peaked at 1.8 GB within 600 MB."""
    path, out, limit_bytes = tmp_path / "in.parquet", tmp_path / "out", 700_000_000
    schema = pa.schema({"n": pa.int64(), "s": pa.string()})
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False) as writer:
        for group in range(6):
            made = [f"short {number}" for number in range(20_000)]
            for at in (3_000, 9_000, 15_000):
                made[at] = f"{group:02}" * 10_000_000
            numbers = range(group * 20_000, group * 20_000 + 20_000)
            writer.write_table(pa.table({"n": numbers, "s": made}, schema=schema))
    program = PROGRAM.format(
        limit=limit_bytes,
        folder=str(tmp_path),
        read="read_parquet",
        path=str(path),
        made="rows.join(rows.rename({'s': 't'}), on='n')",
        out=str(out),
    )
    printed, peak_bytes = measured(program)
    assert printed == "120000"
    assert peak_bytes <= limit_bytes
    with duckdb.connect() as connection:
        found = connection.sql(
            f"select count(*) filter (s = t), sum(length(s)) from '{out}/*.parquet'"  # noqa: S608
        ).fetchall()
        wanted = connection.sql(f"select count(*), sum(length(s)) from '{path}'").fetchall()  # noqa: S608
    assert found == wanted


def test_a_sort_by_values_of_which_some_are_long(tmp_path: Path) -> None:
    """Boundaries of partitions are sampled keys, of which every task has all: it peaked at 928 MB within 300."""
    path, out = tmp_path / "in.parquet", tmp_path / "out"
    FORMATS["Parquet, compressed"][2](texts("last"), path)
    limit_bytes = 400_000_000
    program = PROGRAM.format(
        limit=limit_bytes,
        folder=str(tmp_path),
        read="read_parquet",
        path=str(path),
        made="rows.sort('s')",
        out=str(out),
    )
    printed, peak_bytes = measured(program)
    assert printed == str(ROWS)
    assert peak_bytes <= limit_bytes
    assert sums(f"'{out}/*.parquet'") == sums(f"'{path}'")
    rows = f"read_parquet('{out}/*.parquet', filename=true, file_row_number=true)"
    earlier = "lag(s) over (order by filename, file_row_number)"
    with duckdb.connect() as connection:
        found = connection.sql(
            f"select count(*) from (select s, {earlier} earlier from {rows}) where earlier > s"  # noqa: S608
        ).fetchall()
    assert found == [(0,)]


@pytest.mark.usefixtures("in_process")
def test_an_encoding_that_the_footer_hides_is_refused(tmp_path: Path) -> None:
    """A page of 1 MB may stand for 1 TB of texts that share their beginnings; who looks is told by the footer."""
    path = tmp_path / "in.parquet"
    table = pa.table({"s": ["x" * 1_000] * 1_000})
    pq.write_table(table, path, use_dictionary=False, column_encoding={"s": "DELTA_BYTE_ARRAY"})
    content = bytearray(path.read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    # Thrift: a list of two numbers, which are 3 and 7, or 7 and 3; 7 is the encoding, and 0 is PLAIN.
    lists = [content.find(bytes([0x19, 0x25, *pair]), footer) for pair in ((6, 14), (14, 6))]
    [start] = [place for place in lists if place >= 0]
    content[content.index(14, start)] = 0
    path.write_bytes(content)
    encodings = pq.ParquetFile(path).metadata.row_group(0).column(0).encodings
    assert "DELTA_BYTE_ARRAY" not in encodings
    with pytest.raises(InputError, match="DELTA_BYTE_ARRAY, which the footer does not list"):
        xs.read_parquet(path).to_arrow()


def test_a_side_of_a_join_that_seemed_small_is_shuffled(tmp_path: Path) -> None:
    """Its rows were estimated by the short ones; the program waited without end for memory to keep the others."""
    path, out, limit_bytes = tmp_path / "in.parquet", tmp_path / "out", 500_000_000
    made = [f"short {number}" for number in range(100_000)]
    for number in range(3_000, 100_000, 6_000):
        made[number] = f"{number:08}" * (LONG_BYTES // 8)
    table = pa.table({"n": range(len(made)), "s": made})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, row_group_size=20_000)
    program = PROGRAM.format(
        limit=limit_bytes,
        folder=str(tmp_path),
        read="read_parquet",
        path=str(path),
        made='rows.join(rows.rename({"s": "z"}), on="n").select("n", "s")',
        out=str(out),
    )
    printed, peak_bytes = measured(program)
    assert printed == "100000"
    assert peak_bytes <= limit_bytes
    assert sums(f"'{out}/*.parquet'") == sums(f"'{path}'")
