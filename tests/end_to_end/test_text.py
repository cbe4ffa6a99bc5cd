"""CSV and JSON lines: types come from the first rows, and later rows that do not fit are errors, never other values."""

from __future__ import annotations

import csv
import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.opening import open_dataset
from exoshuffle.errors import InputError, OptionsError
from tests.support.formats import WRITERS

pytestmark = pytest.mark.usefixtures("engine")

#: More rows than types are inferred from.
MANY = 10_001


def test_types_of_csv_are_inferred(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(
        "i,f,d,t,b,s\n2,1.5,2020-01-02,2020-01-02T03:04:05,true,x\n1,,2019-01-01,,false,\n"
    )
    dataset = xs.read_csv(tmp_path / "in.csv").sort("i")
    kinds = {field.name: str(field.type) for field in dataset.schema}
    assert kinds["i"] == "int64"
    assert kinds["f"] == "double"
    assert kinds["d"] == "date32[day]"
    assert kinds["t"].startswith("timestamp")
    assert kinds["b"] == "bool"
    row = dataset.to_arrow().to_pylist()[1]
    assert row["d"] == dt.date(2020, 1, 2)
    assert row["t"] == dt.datetime(2020, 1, 2, 3, 4, 5)  # noqa: DTZ001  CSV has no zone
    assert dataset.to_arrow().to_pylist()[0]["f"] is None


def test_csv_with_another_delimiter_and_windows_line_ends(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b'k;v\r\n2;"a;b"\r\n1;c\r\n')
    result = xs.read_csv(tmp_path / "in.csv", delimiter=";").sort("k").to_arrow()
    assert result.to_pylist() == [{"k": 1, "v": "c"}, {"k": 2, "v": "a;b"}]


@pytest.mark.parametrize("delimiter", ["", ";;", "é", "\n"])
def test_a_delimiter_is_one_ascii_character(delimiter: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("k\n1\n")
    with pytest.raises(OptionsError, match="delimiter"):
        xs.read_csv(tmp_path / "in.csv", delimiter=delimiter)


def test_quoted_line_ends_at_the_cuts_between_splits(tmp_path: Path) -> None:
    rng = random.Random(4)
    rows = [[rng.randrange(1000), 'a\n"b",\r\n' * (i % 5) + "x", i] for i in range(60_000)]
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["key", "text", "row"], *rows])
    dataset = xs.read_csv(tmp_path / "in.csv").sort("key", num_partitions=3)
    assert dataset.explain().splits > 1
    result = dataset.to_arrow()
    wanted = sorted(rows, key=lambda row: row[0])
    assert [list(row.values()) for row in result.to_pylist()] == wanted


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"\xef\xbb\xbfk,v\n2,a\n1,b")
    (tmp_path / "in.jsonl").write_bytes(b'\xef\xbb\xbf{"k": 2}\n{"k": 1}')
    assert xs.read_csv(tmp_path / "in.csv").sort("k").to_arrow()["v"].to_pylist() == ["b", "a"]
    assert xs.read_json(tmp_path / "in.jsonl").sort("k").to_arrow()["k"].to_pylist() == [1, 2]


def test_keys_of_json_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"k":1}\n{"v":"x","k":0}\n{}\n')
    result = xs.read_json(tmp_path / "in.jsonl").sort("k").to_arrow()
    assert result.to_pylist() == [{"k": 0, "v": "x"}, {"k": 1, "v": None}, {"k": None, "v": None}]


def test_integers_of_json_keep_all_their_digits(tmp_path: Path) -> None:
    values = [2**63 - 1, -(2**63), 2**53 + 1, 0]
    lines = [f'{{"k": {value}, "nested": {{"list": [{value}]}}}}' for value in values]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    result = xs.read_json(tmp_path / "in.jsonl").sort("k").to_arrow().to_pylist()
    assert result == [{"k": value, "nested": {"list": [value]}} for value in sorted(values)]


@pytest.mark.parametrize(
    ("first", "late", "words"),
    [
        ('{"k": 1}', '{"k": 2.5}', ["'k'", "2.5", "Int64"]),
        ('{"k": 1}', '{"k": "x"}', ["'k'", "x", "Int64"]),
        ('{"k": 1}', '{"k": 99999999999999999999}', ["'k'", "99999999999999999999", "Int64"]),
        ('{"k": 1, "l": [1]}', '{"k": 1, "l": [2.5]}', ["'l'"]),
        ('{"k": 1}', '{"k": 1, "late": 5}', ["'late'", "first 10,000 rows"]),
        ('{"k": 1, "o": {"a": 1}}', '{"k": 1, "o": {"late": 5}}', ["'late'", "first 10,000 rows"]),
    ],
)
def test_late_rows_of_json_that_do_not_fit(
    first: str, late: str, words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text(f"{first}\n" * MANY + late + "\n")
    with pytest.raises(InputError) as caught:
        xs.read_json(tmp_path / "in.jsonl").sort("k").write_json(tmp_path / "out")
    for word in ["in.jsonl", f"line {MANY + 1}", *words]:
        assert word in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("late", ["2.5", "x", "99999999999999999999"])
def test_late_rows_of_csv_that_do_not_fit(late: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("k,v\n" + "1,2\n" * MANY + f"1,{late}\n")
    with pytest.raises(InputError, match=rf"line {MANY + 2}.*'v'.*{late}.*Int64"):
        xs.read_csv(tmp_path / "in.csv").sort("k").write_csv(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _through(source: Path, output: str, **options: Any) -> list[str]:
    """The lines of what is written of one file, in the order of its rows, by way of a shuffle."""
    read = {"csv": xs.read_csv, "jsonl": xs.read_json}[source.suffix[1:]]
    out = source.parent / "out"
    getattr(read(source, **options).repartition(1), WRITERS[output])(out)
    return (out / f"part-00000.{output}").read_text().splitlines()


@pytest.mark.parametrize(
    "values",
    [
        ["007", "010"],
        ["00.5", "1.5"],
        ["+4915112345678", "1"],
        ["123456789012345678.12", "1.5"],
        ["9007199254740993", "1.5"],
        ["0.1234567890123456789", "1.5"],
        ["18446744073709551615", "1"],
        ["18446744073709551615", "-1"],
        ["18446744073709551616", "1"],
        ["0.30000000000000004", "2.5"],
        ["2020-02-31", "2020-01-01"],
        ["2020-01-01T00:00:00+02:00", "2020-01-01T00:00:00"],
        ["2020-01-01T00:00:00 Europe/Berlin", "x"],
    ],
)
def test_values_of_csv_stay_as_they_are_written(values: list[str], tmp_path: Path) -> None:
    rows = [f"{value},x" for value in values]
    (tmp_path / "in.csv").write_text("\n".join(["v,t", *rows]))
    assert _through(tmp_path / "in.csv", "csv") == ["v,t", *rows]


def test_timestamps_of_csv_with_offsets_keep_their_instant(tmp_path: Path) -> None:
    text = (
        "t,n\n2020-01-01T00:00:00+02:00,1\n2020-01-01 00:00:00.25Z,2\n2020-01-01 00:00:00-0530,3\n"
    )
    (tmp_path / "in.csv").write_text(text)
    result = xs.read_csv(tmp_path / "in.csv").to_arrow()
    assert result.schema.field("t").type == pa.timestamp("ms", "UTC")
    wanted = pyarrow.csv.read_csv(tmp_path / "in.csv")["t"]
    assert result["t"].cast(wanted.type).equals(wanted)
    assert _through(tmp_path / "in.csv", "csv") == [
        "t,n",
        "2019-12-31T22:00:00Z,1",
        "2020-01-01T00:00:00.250Z,2",
        "2020-01-01T05:30:00Z,3",
    ]


def test_what_csv_writes_in_one_way_only(tmp_path: Path) -> None:
    """A number has no trailing zeros, and a boolean no capitals; nothing is null, and in quotes an empty string."""
    (tmp_path / "in.csv").write_text('d,b,s\n1.10,TRUE,""\n2,False,\n')
    assert _through(tmp_path / "in.csv", "csv") == ["d,b,s", '1.1,true,""', "2.0,false,"]


def test_an_empty_string_is_written_in_quotes(tmp_path: Path) -> None:
    table = pa.table({"s": ["", None, "x"], "n": [1, 2, None]})
    pq.write_table(table, tmp_path / "in.parquet")
    xs.read_parquet(tmp_path / "in.parquet").repartition(1).write_csv(tmp_path / "out")
    file = tmp_path / "out" / "part-00000.csv"
    assert file.read_text() == 's,n\n"",1\n,2\nx,\n'
    convert = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    assert pyarrow.csv.read_csv(file, convert_options=convert).equals(table)


TYPES = {"zip": "text", "price": "decimal(12,2)", "n": pa.int32()}


@pytest.mark.parametrize("schema", [TYPES, pa.schema([("zip", pa.string())])])
def test_types_of_csv_can_be_given(schema: Any, tmp_path: Path) -> None:
    rows = ["1,1.10,7,8", "2,2.20,8,9"]
    (tmp_path / "in.csv").write_text("\n".join(["zip,price,n,m", *rows]))
    result = xs.read_csv(tmp_path / "in.csv", schema=schema).schema
    assert result.field("zip").type == pa.string()
    assert result.field("m").type == pa.int64()
    if schema is TYPES:
        assert result.field("price").type == pa.decimal128(12, 2)
        assert result.field("n").type == pa.int32()
        assert _through(tmp_path / "in.csv", "csv", schema=schema)[1:] == rows


def test_a_late_value_is_read_as_the_type_given(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("k,v\n" + "1,2\n" * MANY + "1,x\n")
    (tmp_path / "in.jsonl").write_text('{"k":1}\n' * MANY + '{"k":0,"v":"x"}\n')
    for dataset in (
        xs.read_csv(tmp_path / "in.csv", schema={"v": "text"}),
        xs.read_json(tmp_path / "in.jsonl", schema={"v": "text"}),
    ):
        assert "x" in dataset.sort("k").to_arrow()["v"].to_pylist()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"c": "text"}, ["'c'", "'a', 'b'", "in.csv"]),
        ({"a": "varchar"}, ["'a'", "'varchar'", "text, bool, int64"]),
        ({"a": "decimal(39,2)"}, ["decimal(39,2)", "38"]),
        ({"a": pa.list_(pa.int64())}, ["'a'", "List", "CSV"]),
        (["a"], ["['a']", "dict"]),
    ],
)
def test_types_that_cannot_be_given(schema: Any, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    with pytest.raises(OptionsError) as caught:
        xs.read_csv(tmp_path / "in.csv", schema=schema)
    for word in words:
        assert word in str(caught.value)


def test_csv_without_a_header(tmp_path: Path) -> None:
    rows = [f"{i * 7919 % 1000},x{i}" for i in range(1000)]
    for part in range(2):
        (tmp_path / f"in-{part}.csv").write_text("\n".join(rows[part * 500 : part * 500 + 500]))
    paths = str(tmp_path / "in-*.csv")
    result = xs.read_csv(paths, header=False).sort("column_0").to_arrow()
    options = pyarrow.csv.ReadOptions(column_names=["column_0", "column_1"])
    files = sorted(tmp_path.glob("*.csv"))
    wanted = pa.concat_tables([pyarrow.csv.read_csv(file, options) for file in files])
    assert result.equals(wanted.sort_by("column_0"))
    named = pa.schema([("n", pa.int64()), ("t", pa.string())])
    assert xs.read_csv(paths, header=False, schema=named).to_arrow().schema == named
    one = xs.read_csv(paths, header=False, schema={"column_0": "text"}).schema
    assert one.types == [pa.string(), pa.string()]
    with pytest.raises(OptionsError, match=r"2 columns.*names 1"):
        xs.read_csv(paths, header=False, schema=pa.schema([("n", pa.int64())]))


@pytest.mark.parametrize("compression", ["lz4", "bz2"])
def test_compressed_text_is_refused(compression: str, tmp_path: Path) -> None:
    name = {"bz2": "bzip2"}.get(compression, compression)
    for path in (tmp_path / "in.csv", tmp_path / "in.jsonl"):
        with pa.output_stream(str(path), compression=compression) as file:
            file.write(b"a,b\n1,2\n")
        read = xs.read_csv if path.suffix == ".csv" else xs.read_json
        with pytest.raises(InputError, match=f"{path.name}.*{name}.*decompress it first"):
            read(path)
    (tmp_path / "x.csv.xz").write_bytes(b"")
    with pytest.raises(InputError, match=r"x\.csv\.xz.*xz.*decompress it first"):
        open_dataset(tmp_path / "x.csv.xz")


@pytest.mark.parametrize(
    ("values", "written"),
    [
        (["18446744073709551615", "1"], ["18446744073709551615", "1"]),
        (["99999999999999999999", "1"], ['"99999999999999999999"', '"1"']),
        (["9007199254740993", "1.5"], ['"9007199254740993"', '"1.5"']),
        (["9007199254740992", "1.5"], ["9.007199254740992e15", "1.5"]),
        (["0.1234567890123456789"], ['"0.1234567890123456789"']),
        (["[18446744073709551615]", "[1]"], ["[18446744073709551615]", "[1]"]),
        (["null", "null"], ["null", "null"]),
        (["[]", "[null]"], ["[]", "[null]"]),
    ],
)
def test_values_of_json_keep_their_digits(
    values: list[str], written: list[str], tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text("\n".join(f'{{"n":1,"v":{value}}}' for value in values))
    assert _through(tmp_path / "in.jsonl", "jsonl") == [f'{{"n":1,"v":{v}}}' for v in written]


def test_a_late_value_of_a_column_of_nulls_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"k":1,"v":null}\n' * MANY + '{"k":1,"v":5}\n')
    with pytest.raises(InputError, match=rf"line {MANY + 1}.*'v'.*5.*Null.*--column-type v=text"):
        xs.read_json(tmp_path / "in.jsonl").sort("k").write_json(tmp_path / "out")
    result = xs.read_json(tmp_path / "in.jsonl", schema={"v": "int64"}).sort("v").to_arrow()
    assert result["v"].to_pylist()[0] == 5


def test_json_has_no_numbers_for_nan_and_infinity(tmp_path: Path) -> None:
    table = pa.table({"f": [float("nan"), float("inf"), -float("inf"), 1.5, None]})
    pq.write_table(table, tmp_path / "in.parquet")
    xs.read_parquet(tmp_path / "in.parquet").repartition(1).write_json(tmp_path / "out")
    lines = (tmp_path / "out" / "part-00000.jsonl").read_text().splitlines()
    assert lines == ['{"f":null}'] * 3 + ['{"f":1.5}', '{"f":null}']


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.list_(pa.binary(3)),
        pa.struct([("inner", pa.large_binary())]),
        pa.timestamp("s", "Mars/Olympus"),
    ],
)
def test_what_text_cannot_hold_is_refused_before_any_work(
    kind: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), pa.schema([("odd", kind)])) as writer:
        writer.write_table(pa.table({"odd": pa.nulls(3, pa.null()).cast(kind)}))
    dataset = xs.read_ipc(tmp_path / "in.arrow").repartition(1)
    monkeypatch.setattr("exoshuffle.dataset.write.write.Execution", None)
    for write in (dataset.write_json, dataset.write_csv):
        with pytest.raises(InputError, match=r"'odd' of type .*drop or cast the column"):
            write(tmp_path / "out")
