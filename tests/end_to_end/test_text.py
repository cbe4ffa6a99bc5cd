"""CSV and JSON lines: types come from the first rows, and later rows that do not fit are errors, never other values."""

from __future__ import annotations

import csv
import datetime as dt
import random
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.errors import InputError, OptionsError

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
        ('{"k": 1}', '{"k": 1, "late": 5}', ["'late'", "first 10000 rows"]),
        ('{"k": 1, "o": {"a": 1}}', '{"k": 1, "o": {"late": 5}}', ["'late'", "first 10000 rows"]),
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
