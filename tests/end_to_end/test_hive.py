"""Folders ``key=value`` as columns: what is read of them, against DuckDB and Polars, and which files a filter opens."""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import InputError, OptionsError
from tests.support.duck import duck

#: Folders of a tree of three keys, as Spark names them.
FOLDERS = [
    f"day=2024-01-0{1 + i % 3}/n={-i}/name={name}"
    for i, name in enumerate(["a%2Fb%3Dc", "é", "__HIVE_DEFAULT_PARTITION__", "a%25", "x y", "007"])
]
READERS: dict[str, Callable[..., xs.Dataset]] = {
    "parquet": xs.read_parquet,
    "arrow": xs.read_ipc,
    "csv": xs.read_csv,
    "jsonl": xs.read_json,
}


def write(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        pyarrow.feather.write_feather(table, str(path))
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def tree(root: Path, folders: list[str], suffix: str = "parquet") -> Path:
    """A file of ten rows in each folder, beside what Spark leaves there."""
    for i, folder in enumerate(folders):
        rows = {"x": list(range(10 * i, 10 * i + 10)), "y": [f"y{i}"] * 10}
        write(pa.table(rows), root / folder / f"part-00000-5e3f.c000.{suffix}")
        (root / folder / f".part-00000-5e3f.c000.{suffix}.crc").write_bytes(b"crc")
    (root / "_SUCCESS").touch()
    return root


def by_duckdb(root: Path) -> pa.Table:
    with duck() as connection:
        read = connection.read_parquet(f"{root}/**/*.parquet", hive_partitioning=True)
        return read.order("x").to_arrow_table()


def by_polars(root: Path) -> list[dict[str, object]]:
    """By a program of its own, as Polars keeps threads and a pipe."""
    program = (
        "import sys, pickle, polars as pl; "
        "rows = pl.scan_parquet(sys.argv[1], hive_partitioning=True).sort('x').collect().to_dicts(); "
        "sys.stdout.buffer.write(pickle.dumps(rows))"
    )
    arguments = [sys.executable, "-c", program, f"{root}/**/*.parquet"]
    done = subprocess.run(arguments, capture_output=True, check=True, timeout=60)
    rows: list[dict[str, object]] = pickle.loads(done.stdout)  # noqa: S301  ours
    return rows


def plain(table: pa.Table) -> list[dict[str, object]]:
    return list(table.to_pylist())


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    return tree(tmp_path / "in", FOLDERS)


def test_the_rows_are_those_of_duckdb_and_polars(spark: Path, engine: LocalEngine) -> None:
    del engine
    read = xs.read_parquet(spark).sort("x").to_arrow()
    expected = by_duckdb(spark)
    assert read.schema.names == expected.schema.names == ["x", "y", "day", "n", "name"]
    assert read.schema.types == expected.schema.types
    assert plain(read) == plain(expected)
    assert plain(read) == by_polars(spark)


@pytest.mark.parametrize("suffix", READERS)
def test_every_format_and_every_operation(
    tmp_path: Path, spark: Path, suffix: str, engine: LocalEngine
) -> None:
    del engine
    expected = plain(by_duckdb(spark))
    root = tree(tmp_path / "other", FOLDERS, suffix)
    rows = READERS[suffix](root)
    assert plain(rows.sort("x", num_partitions=2).to_arrow()) == expected
    assert plain(rows.random_shuffle(1).sort("x").to_arrow()) == expected
    assert plain(rows.random_shuffle(1, window=7).sort("x").to_arrow()) == expected
    assert plain(rows.top_k(3, "x").to_arrow()) == expected[:-4:-1]
    assert plain(rows.sample(fraction=1.0).to_arrow()) == plain(rows.to_arrow())
    assert plain(rows.union(rows).distinct().sort("x").to_arrow()) == expected
    counted = rows.group_by("name").agg(n="count").sort("name", nulls="first").to_arrow()
    names = sorted({row["name"] or "" for row in expected})
    assert plain(counted) == [{"name": name or None, "n": 10} for name in names]
    joined = rows.join(rows.select("x", other="n"), on="x", strategy="simple")
    assert joined.filter("n = other").to_arrow().num_rows == 60
    # One column is read, or none of the file's.
    alone = rows.select("day", "n").to_arrow()
    assert sorted(alone.column("n").to_pylist()) == sorted(row["n"] for row in expected)
    assert rows.select("y").to_arrow().num_rows == 60


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-5"], pa.int64()),
        (["007", "12"], pa.string()),
        (["+7"], pa.string()),
        (["99999999999999999999"], pa.string()),
        (["1.5", "2"], pa.string()),
        (["true", "false"], pa.string()),
        (["2024-01-02", "2024-1-3", "__HIVE_DEFAULT_PARTITION__"], pa.date32()),
        (["2024-02-30"], pa.string()),
        (["2024-01-02", "5"], pa.string()),
        (["2024-01-02T03:04:05", "2024-01-03T00:00:00.123"], pa.timestamp("us")),
        (["__HIVE_DEFAULT_PARTITION__"], pa.string()),
        (["", "5"], pa.string()),
        (["x%", "%zz", "%C3%A9", "a+b"], pa.string()),
    ],
)
def test_types_and_values_are_those_of_duckdb(
    tmp_path: Path, values: list[str], kind: pa.DataType, engine: LocalEngine
) -> None:
    del engine
    root = tree(tmp_path / "in", [f"k={value}" for value in values])
    read = xs.read_parquet(root).sort("x").to_arrow()
    expected = by_duckdb(root)
    assert read.schema.field("k").type == expected.schema.field("k").type == kind
    assert plain(read) == plain(expected)


def test_timestamps_with_spaces_and_offsets_are_those_of_polars(
    tmp_path: Path, engine: LocalEngine
) -> None:
    del engine
    for name, values in {
        "spaces": ["2024-01-02 03%3A04%3A05", "2024-01-03 00:00:00"],
        "offsets": ["2024-01-02T03:04:05Z", "2024-01-03T00:00:00+01:00"],
    }.items():
        root = tree(tmp_path / name, [f"k={value}" for value in values])
        read = xs.read_parquet(root).sort("x").to_arrow()
        assert plain(read) == by_polars(root)


def test_the_folder_wins_over_a_column_of_the_file(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    for suffix, reader in READERS.items():
        for k in (1, 2):
            rows = {"x": [k], "k": [f"own {k}"], "y": [k]}
            write(pa.table(rows), tmp_path / suffix / f"k={k}" / f"f.{suffix}")
        read = reader(tmp_path / suffix).sort("x").to_arrow()
        assert plain(read) == [{"x": 1, "k": 1, "y": 1}, {"x": 2, "k": 2, "y": 2}]
    assert plain(read) == plain(by_duckdb(tmp_path / "parquet"))
    assert xs.read_json(tmp_path / "jsonl", hive=False).top_k(1, "x").to_arrow().column(
        "k"
    ).to_pylist() == ["own 2"]


def test_globs_and_lists_and_single_files_have_the_columns_too(
    spark: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engine
    names = ["x", "y", "day", "n", "name"]
    found = sorted(map(str, spark.rglob("*.parquet")))
    for paths in (f"{spark}/**/*.parquet", [*found], found[0], spark / "day=2024-01-01"):
        assert xs.read_parquet(paths).schema.names == names
    assert xs.read_parquet(spark, hive=False).schema.names == ["x", "y"]
    monkeypatch.chdir(spark / "day=2024-01-01")
    assert xs.read_parquet(".").schema.names == ["x", "y", "n", "name"]


def test_types_can_be_given(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    root = tree(tmp_path / "in", ["k=12", "k=7"], "csv")
    assert xs.read_csv(root, hive={"k": "text"}).schema.field("k").type == pa.string()
    assert xs.read_csv(root, schema={"k": "text", "x": "text"}).schema.types[::2] == [
        pa.string(),
        pa.string(),
    ]
    stamps = tree(tmp_path / "stamps", ["k=2024-01-02"])
    read = xs.read_parquet(stamps, hive=pa.schema({"k": pa.timestamp("s")})).to_arrow()
    assert read.column("k")[0].as_py() == dt.datetime(2024, 1, 2)  # noqa: DTZ001  folders say no zone
    with pytest.raises(InputError, match=r"k=2024-01-02.*k = '2024-01-02'.*Int64.*text"):
        xs.read_parquet(stamps, hive={"k": "int64"})
    with pytest.raises(OptionsError, match=r"'day'.*day=value"):
        xs.read_parquet(stamps, hive={"day": "int64"})
    with pytest.raises(OptionsError, match="hive is 'yes'; write True, False"):
        xs.read_parquet(stamps, hive="yes")  # type: ignore[arg-type]
    with pytest.raises(OptionsError, match="'k' the type string, and hive int64"):
        xs.read_csv(root, schema={"k": "text"}, hive={"k": "int64"})


@pytest.mark.parametrize(
    "folders", [["a=1", "b"], ["b", "a=1"], ["a=1", "b=1"], ["a=1", "a=1/b=1"]]
)
def test_mixed_layouts_are_refused_by_the_names_of_files(
    tmp_path: Path, folders: list[str], engine: LocalEngine
) -> None:
    del engine
    root = tree(tmp_path / "in", folders)
    with pytest.raises(InputError, match=r"hive=False") as error:
        xs.read_parquet(root)
    for folder in folders:
        assert f"{root / folder}/part-" in str(error.value)
    assert xs.read_parquet(root, hive=False).to_arrow().num_rows == 20
    with pytest.raises(InputError, match="two folders with the key 'a'"):
        xs.read_parquet(tree(tmp_path / "twice", ["a=1/a=2"]))


def spoiled(path: Path) -> None:
    """Ruins the pages of a file, but not what it says about itself."""
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little")
    content[4 : len(content) - footer - 8] = b"\xff" * (len(content) - footer - 12)
    path.write_bytes(content)


def test_files_that_a_filter_leaves_out_are_not_read(spark: Path, engine: LocalEngine) -> None:
    del engine
    for path in spark.rglob("*.parquet"):
        if "day=2024-01-02" not in str(path):
            spoiled(path)
    rows = xs.read_parquet(spark)
    with pytest.raises(InputError, match="not a readable Parquet file"):
        rows.filter("x > 0").to_arrow()
    day = "day = '2024-01-02'"
    conditions = [
        day,
        f"x < 1000 AND ({day} AND y <> 'nothing')",
        f"{day} OR {day}",
        "DAY BETWEEN '2024-01-02' AND DATE '2024-01-02' + 0",
        "n IN (-1, -4)",
    ]
    for condition in conditions:
        kept = rows.filter(condition)
        assert len(kept.files) == 2
        assert sorted(kept.to_arrow().column("x").to_pylist()) == [*range(10, 20), *range(40, 50)]
        bill = kept.sort("x").explain()
        assert (bill.input_files, bill.pruned_files) == (2, 4)
        assert "4 files pruned by filters on partition columns" in str(bill)
    steps = rows.rename({"day": "d"}).with_columns(z="x + 1").select("z", "d").filter("z > 0")
    assert len(steps.filter("d = '2024-01-02'").files) == 2
    both = rows.union(rows).filter(day)
    assert both.to_arrow().num_rows == 40
    assert rows.filter(day).select("day").distinct().to_arrow().num_rows == 1


def test_filters_that_say_nothing_of_folders_leave_out_nothing(
    tmp_path: Path, engine: LocalEngine
) -> None:
    del engine
    for k in (1, 2):
        write(pa.table({"K": [1, 2], "x": [k, k]}), tmp_path / f"k={k}" / "f.parquet")
    rows = xs.read_parquet(tmp_path)
    # A column of the file whose name differs in case, a column that was replaced, steps that may do anything.
    for kept in (
        rows.filter("K = 2"),
        rows.with_columns(k="x + 5").filter("k > 5"),
        rows.filter("x = 1 OR k = 2"),
        rows.drop("k").rename({"K": "k"}).filter("k = 2"),
        rows.map_batches(lambda table: table).filter("k = 1"),
        rows.random_shuffle(1).filter("k = 1"),
        rows.filter("1 / (k - 1) > 0 OR x = 1"),
    ):
        assert len(kept.files) == 2
    assert rows.filter("K = 2").to_arrow().num_rows == 2
    nothing = rows.filter("k = 3")
    assert nothing.files == []
    assert nothing.sort("x").to_arrow().schema == rows.schema
    assert nothing.group_by("k").agg(n="count").to_arrow().num_rows == 0


@pytest.mark.parametrize("suffix", READERS)
def test_random_orders_are_the_same_with_fewer_files(
    tmp_path: Path, suffix: str, engine: LocalEngine
) -> None:
    del engine
    rows = READERS[suffix](tree(tmp_path / "in", FOLDERS, suffix))
    everything = rows.random_shuffle(7).filter("n = -4").to_arrow()
    assert everything.num_rows == 10
    assert rows.filter("n = -4").random_shuffle(7).to_arrow() == everything
    assert everything.column("x").to_pylist() != sorted(everything.column("x").to_pylist())


def test_on_the_command_line(spark: Path, tmp_path: Path, command) -> None:
    limit = ("--memory-limit", "1GB")
    assert command("sort", spark, tmp_path / "out", "--by", "name, x desc", *limit).code == 0
    sorted_rows = pq.read_table(tmp_path / "out")
    assert sorted_rows.column("name")[0].as_py() == "007"
    by = ("--by", "day", "--agg", "n=count()")
    assert command("groupby", spark, tmp_path / "days", *by, *limit).code == 0
    assert pq.read_table(tmp_path / "days").column("n").to_pylist() == [20, 20, 20]
    text = ("--column-type", "n=text")
    assert command("sort", spark, tmp_path / "text", "--by", "n, x", *text, *limit).code == 0
    assert pq.read_table(tmp_path / "text").schema.field("n").type == pa.string()
    missing = command("sort", spark, tmp_path / "none", "--by", "day", "--no-hive", *limit)
    assert missing.code == 1
    assert "there is no column" in missing.sentence()


def test_short_lines_of_text_with_long_values_stay_within_the_limit(
    tmp_path: Path, engine: LocalEngine
) -> None:
    """A row of two bytes in the file has 120 more as it travels, which a plan by sizes of files would not know."""
    del engine
    folder = tmp_path / f"k={'v' * 120}"
    folder.mkdir()
    (folder / "f.csv").write_text("x\n" + "1\n" * 200_000)
    bill = xs.read_csv(tmp_path).sort("x").explain()
    assert bill.row_bytes > 100 * 200_000
    assert abs(bill.rows - 200_000) < 20_000


def test_links_and_unreadable_names_beside_folders(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    root = tree(tmp_path / "in", ["_k=1", "_k=2"])
    (root / "_temporary" / "0").mkdir(parents=True)
    write(pa.table({"z": [1]}), root / "_temporary" / "0" / "f.parquet")
    assert xs.read_parquet(root).schema.names == ["x", "y", "_k"]
    os.symlink(root / "_k=1", root / "_k=3")
    assert sorted(set(xs.read_parquet(root).to_arrow().column("_k").to_pylist())) == [1, 2, 3]


@pytest.mark.usefixtures("engine")
def test_a_schema_names_the_columns_of_folders_and_of_files_without_a_header(
    tmp_path: Path,
) -> None:
    for key in ("a", "b"):
        (tmp_path / f"key={key}").mkdir()
        (tmp_path / f"key={key}" / "x.csv").write_text(f"1,{key}{key}\n")
    rows = xs.read_csv(tmp_path, header=False)
    again = xs.read_csv(tmp_path, header=False, schema=rows.schema)
    assert again.schema == rows.schema
    assert again.to_arrow().equals(rows.to_arrow())
    # Wherever it is named; what is in the files too is counted among their columns.
    names = pa.schema({"key": pa.string(), "n": pa.int64(), "s": pa.string()})
    found = xs.read_csv(tmp_path, header=False, schema=names).to_arrow()
    assert found.to_pylist() == [
        {"n": 1, "s": "aa", "key": "a"},
        {"n": 1, "s": "bb", "key": "b"},
    ]
    inside = pa.schema({"n": pa.int64(), "key": pa.string()})
    found = xs.read_csv(tmp_path, header=False, schema=inside).to_arrow()
    assert found.to_pylist() == [{"n": 1, "key": "a"}, {"n": 1, "key": "b"}]
    with pytest.raises(OptionsError, match="has 2 columns, but the schema given names 4"):
        xs.read_csv(tmp_path, header=False, schema=names.append(pa.field("z", pa.int64())))
