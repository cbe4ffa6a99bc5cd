"""``partition_by``: folders ``key=value`` that DuckDB, Polars and pyarrow read back, one file each."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle._native import StoredPath
from exoshuffle.dataset.write import partitioning
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.dataset.write.seal import is_sealed
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError, OutputError, SchemaError
from tests.support.duck import duck
from tests.support.formats import READERS, WRITERS

#: Texts that are hard to make names of folders of.
TEXTS = [
    "plain", "a/b", "k=v", "100%", "%41", "é", "日本", "x y", " x ", "a+b", "a:b*?", "'q'", '"d"', "#", "[0]", "{x}",
    "back\\slash", "line\nbreak", "tab\t", ".", "..", "~", "007", "-1", "true", "NULL", "^|<>&$!;,@",
]  # fmt: skip


def rows_by(name: str, root: Path) -> list[dict[str, object]]:
    """The rows that another program reads, by ``x``; Polars in a process of its own, as it keeps threads."""
    if name == "duckdb":
        with duck() as connection:
            read = connection.read_parquet(f"{root}/**/*.parquet", hive_partitioning=True)
            return list(read.order("x").to_arrow_table().to_pylist())
    if name == "pyarrow":
        read = pyarrow.dataset.dataset(root, partitioning="hive").to_table().sort_by("x")
        return list(read.to_pylist())
    program = (
        "import sys, pickle, polars as pl; "
        "rows = pl.scan_parquet(sys.argv[1], hive_partitioning=True).sort('x').collect().to_dicts(); "
        "sys.stdout.buffer.write(pickle.dumps(rows))"
    )
    arguments = [sys.executable, "-c", program, str(root)]
    done = subprocess.run(arguments, capture_output=True, check=True, timeout=60)
    rows: list[dict[str, object]] = pickle.loads(done.stdout)  # noqa: S301  ours
    return rows


def source(tmp_path: Path, table: pa.Table) -> xs.Dataset:
    (tmp_path / "in").mkdir(exist_ok=True)
    pq.write_table(table, tmp_path / "in" / "f.parquet", row_group_size=1000)
    return xs.read_parquet(tmp_path / "in")


def plain(table: pa.Table) -> list[dict[str, object]]:
    return list(table.to_pylist())


def folders(root: Path) -> list[str]:
    return sorted({str(path.parent.relative_to(root)) for path in root.rglob("part-*")})


@pytest.mark.parametrize("name", ["duckdb", "polars", "pyarrow"])
def test_others_read_the_values_back(name: str, tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    table = pa.table({"x": range(len(TEXTS) + 1), "text": [*TEXTS, None]})
    source(tmp_path, table).write_parquet(tmp_path / "out", partition_by="text")
    assert rows_by(name, tmp_path / "out") == plain(table)
    assert plain(xs.read_parquet(tmp_path / "out").sort("x").to_arrow()) == plain(table)
    assert len(folders(tmp_path / "out")) == len(TEXTS) + 1
    assert not any(
        len(list((tmp_path / "out" / f).iterdir())) > 1 for f in folders(tmp_path / "out")
    )


def test_texts_that_mean_nothing_or_null_to_others_come_back_here(
    tmp_path: Path, engine: LocalEngine
) -> None:
    del engine
    table = pa.table({"x": range(3), "text": ["", "__HIVE_DEFAULT_PARTITION__", None]})
    source(tmp_path, table).write_parquet(tmp_path / "out", partition_by="text")
    assert plain(xs.read_parquet(tmp_path / "out").sort("x").to_arrow()) == plain(table)


@pytest.mark.parametrize("extension", sorted(WRITERS))
def test_every_format_and_several_columns(
    tmp_path: Path, extension: str, engine: LocalEngine
) -> None:
    del engine
    days = [dt.date(2024, 1, 1 + i % 3) if i % 7 else None for i in range(5000)]
    table = pa.table(
        {
            "n": pa.array([i % 4 - 2 for i in range(5000)], pa.int32()),
            "x": range(5000),
            "day": days,
            "text": [f"t{i % 5}" for i in range(5000)],
            "tag": pa.array([f"v{i % 2}" for i in range(5000)]).dictionary_encode(),
        }
    )
    result = getattr(source(tmp_path, table).sort("x", num_partitions=3), WRITERS[extension])(
        tmp_path / "out", partition_by=["day", "n", "tag"]
    )
    assert result.rows == 5000
    assert {file["name"].count("/") for file in result.files} == {3}
    assert (
        len(folders(tmp_path / "out"))
        == len(result.files)
        == len(
            set(zip(*(table.column(name).to_pylist() for name in ("day", "n", "tag")), strict=True))
        )
    )
    assert is_sealed(StoredPath(tmp_path / "out"))
    read = READERS[extension](tmp_path / "out")
    assert read.schema.names == ["x", "text", "day", "n", "tag"]
    back = read.select("n", "x", "day", "text", "tag").sort("x").to_arrow()
    assert plain(back) == plain(table)
    for file in result.files:
        size = (tmp_path / "out" / file["name"]).stat().st_size
        assert file["bytes"] == size


def test_types_become_the_text_that_readers_take_for_them(
    tmp_path: Path, engine: LocalEngine
) -> None:
    del engine
    berlin = pa.timestamp("us", "Europe/Berlin")
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 600)  # noqa: DTZ001  without a zone
    table = pa.table(
        {
            "x": [1],
            "flag": [True],
            "big": pa.array([2**64 - 1], pa.uint64()),
            "money": pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
            "at": pa.array([moment], pa.timestamp("us")),
            "zoned": pa.array([moment], pa.timestamp("us"))
            .cast(pa.timestamp("us", "UTC"))
            .cast(berlin),
            "view": pa.array(["v"], pa.string_view()),
        }
    )
    by = ["flag", "big", "money", "at", "zoned", "view"]
    result = source(tmp_path, table).write_parquet(tmp_path / "out", partition_by=by)
    expected = [
        "flag=true", "big=18446744073709551615", "money=1.50", "at=2024-01-02 03%3A04%3A05.000600",
        "zoned=2024-01-02 04%3A04%3A05.000600%2B01%3A00", "view=v",
    ]  # fmt: skip
    assert result.files[0]["name"].split("/")[:-1] == expected
    [row] = rows_by("duckdb", tmp_path / "out")
    assert (row["at"], row["flag"], row["money"]) == ("2024-01-02 03:04:05.000600", "true", "1.50")
    read = xs.read_parquet(tmp_path / "out").to_arrow()
    assert read.column("at")[0].as_py() == moment
    assert read.schema.field("zoned").type == pa.timestamp("us", "UTC")
    assert read.column("zoned").cast(berlin).equals(table.column("zoned"))


def test_categories_as_polars_writes_them(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    views = pa.array(["c", "d"], pa.string_view())
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.uint32()), views)
    table = pa.table({"x": [1, 2, 3], "coded": coded})
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table)
    result = xs.read_ipc(tmp_path / "in.arrow").write_parquet(
        tmp_path / "out", partition_by="coded"
    )
    assert [(file["name"].split("/")[0], file["rows"]) for file in result.files] == [
        ("coded=c", 1),
        ("coded=d", 2),
    ]


def test_a_sort_before_it_is_the_order_in_each_folder(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    table = pa.table(
        {"k": [i * 7919 % 13 for i in range(120_000)], "x": [i * 31 % 977 for i in range(120_000)]}
    )
    table = table.append_column("i", pa.array(range(120_000)))
    dataset = source(tmp_path, table)
    sorted_by = {
        "fused": dataset.sort("x", descending=True, num_partitions=3),
        "with a step behind": dataset.sort("x", descending=True, num_partitions=3).filter("i >= 0"),
        "by the key too": dataset.sort(["x", "k"], descending=[True, False], num_partitions=3),
    }
    expected = sorted(zip(*table.to_pydict().values(), strict=True), key=lambda row: -row[1])
    for name, ordered in sorted_by.items():
        ordered.write_parquet(tmp_path / name, partition_by="k", target_file_size="20kB")
        assert len(list((tmp_path / name / "k=0").iterdir())) > 1
        for k in range(13):
            files = sorted((tmp_path / name / f"k={k}").iterdir())
            read = pa.concat_tables(pq.read_table(file, partitioning=None) for file in files)
            assert list(zip(read["x"].to_pylist(), read["i"].to_pylist(), strict=True)) == [
                (x, i) for key, x, i in expected if key == k
            ]
    assert (
        sorted_by["fused"].explain(options=WriteOptions("parquet", partition_by="k")).before == ()
    )
    by_chance = dataset.random_shuffle(3)
    by_chance.write_parquet(tmp_path / "chance", partition_by="k")
    in_order = [row["i"] for row in plain(by_chance.to_arrow()) if row["k"] == 5]
    read = pq.read_table(tmp_path / "chance" / "k=5", partitioning=None)
    assert read["i"].to_pylist() == in_order


def test_too_many_folders_are_refused_before_anything_is_in_place(
    tmp_path: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engine
    dataset = source(tmp_path, pa.table({"k": [i // 2 for i in range(400)], "x": range(400)}))
    options = WriteOptions("parquet", partition_by="k")
    monkeypatch.setattr(partitioning, "MAX_FOLDERS", 150)
    wanted = r"by k makes at least 200 folders, and an output has 150 at most; partition by coarser"
    for run in (
        lambda: dataset.explain(options=options),
        lambda: dataset.write(tmp_path / "out", options),
    ):
        with pytest.raises(OutputError, match=wanted):
            run()
    # Not seen in the rows looked into, but when all are there.
    monkeypatch.setattr(partitioning, "SAMPLED_ROWS", 10)
    with pytest.raises(OutputError, match=r"makes 200 folders"):
        dataset.write(tmp_path / "out", options)
    assert {path.name for path in tmp_path.iterdir()} <= {"in", "spill"}


def test_the_bill_counts_folders(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    dataset = source(tmp_path, pa.table({"k": [i % 31 for i in range(9000)], "x": range(9000)}))
    bill = dataset.explain(tmp_path / "out", options=WriteOptions("parquet", partition_by="k"))
    assert (bill.operator, bill.output_folders, bill.output_files) == ("partition_by", 31, 31)
    assert "about 31, in about 31 folders (an estimate from a sample of rows)" in str(bill)
    assert bill.to_dict()["output_folders"] == 31


def test_no_rows(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    dataset = source(tmp_path, pa.table({"k": ["a"], "x": [1]}))
    result = dataset.filter("x > 1").write_parquet(tmp_path / "out", partition_by="k")
    assert [file["name"] for file in result.files] == [
        "k=__HIVE_DEFAULT_PARTITION__/part-00000.parquet"
    ]
    read = xs.read_parquet(tmp_path / "out")
    assert read.schema.names == ["x", "k"]
    assert read.to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("by", "error", "match"),
    [
        ("z", SchemaError, "there is no column"),
        (["k", "x", "f", "", ".hidden"], SchemaError, "all columns"),
        ("f", SchemaError, "'f' of type double.*cast it"),
        # Readers would find a column of no name, or leave out the folders as hidden.
        ("", SchemaError, "column '', whose folders .*; rename it"),
        (["k", ".hidden"], SchemaError, "column '.hidden', whose folders .*; rename it"),
        ([], OptionsError, "names no column"),
        (3, OptionsError, "partition_by names 3"),
    ],
)
def test_what_cannot_be_folders(
    tmp_path: Path, by: object, error: type[Exception], match: str, engine: LocalEngine
) -> None:
    del engine
    dataset = xs.from_pydict({"k": [1], "x": [1], "f": [1.5], "": [1], ".hidden": [1]})
    with pytest.raises(error, match=match):
        dataset.write_parquet(tmp_path / "out", partition_by=by)  # type: ignore[arg-type]


def test_names_that_are_too_long_and_single_files(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    dataset = source(tmp_path, pa.table({"k": ["v" * 300], "x": [1]}))
    with pytest.raises(OutputError, match=r"folder of k = 'v{199}.*302 bytes.*at most 255"):
        dataset.write_parquet(tmp_path / "out", partition_by="k")
    with pytest.raises(OptionsError, match="partition_by makes several files"):
        dataset.write_parquet(tmp_path / "out.parquet", partition_by="k")
    assert {path.name for path in tmp_path.iterdir()} <= {"in", "spill"}


def test_on_the_command_line(tmp_path: Path, command) -> None:
    table = pa.table({"day": [f"2024-01-0{1 + i % 3}" for i in range(300)], "x": range(300)})
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "f.parquet")
    shared = ("--by", "x desc", "--partition-by", "day", "--memory-limit", "1GB")
    done = command("sort", tmp_path / "in", tmp_path / "out", *shared, "--json")
    assert done.code == 0
    assert len(json.loads(done.out)["files"]) == 3
    again = command("sort", tmp_path / "out", tmp_path / "again", *shared, "--output-format", "csv")
    assert (again.code, again.err) == (0, "")
    lines = (tmp_path / "again" / "day=2024-01-02" / "part-00000.csv").read_text().split()
    assert lines[:2] == ["x", "298"]
    bill = command("sort", tmp_path / "in", tmp_path / "bill", *shared, "--explain")
    assert "in about 3 folders" in bill.out
    refused = command("sort", tmp_path / "out", tmp_path / "out" / "inside", *shared)
    assert refused.code == 1
    replaced = command("sort", tmp_path / "in", tmp_path / "out", *shared, "--overwrite")
    assert (replaced.code, replaced.err) == (0, "")
