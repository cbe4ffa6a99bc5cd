"""Columns of text files: by the names of headers and keys, whatever their order and wherever they are first seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import exoshuffle as xs
from exoshuffle.errors import InputError, SchemaError
from tests.support.matrix import cut_small

pytestmark = pytest.mark.usefixtures("engine")

Step = Callable[[xs.Dataset], xs.Dataset]

#: Steps that ask for all columns, each in its own way.
ALL_COLUMNS: dict[str, Step] = {
    "sort": lambda data: data.sort("a"),
    "filter": lambda data: data.filter("a >= 0"),
    "with_columns": lambda data: data.with_columns(b="a + 1"),
    "rename": lambda data: data.rename({"a": "b"}),
    "distinct": lambda data: data.distinct(),
    "random_shuffle": lambda data: data.random_shuffle(seed=1),
    "sample": lambda data: data.sample(fraction=1.0, seed=1),
    "map_batches": lambda data: data.map_batches(lambda table: table),
}


def lines(path: Path, late: dict[str, Any], rows: int = 10_001, **other: Any) -> Path:
    """Rows that types are inferred from, and one more."""
    early = "".join(json.dumps({"a": i, **other}) + "\n" for i in range(rows))
    path.write_text(early + json.dumps(late) + "\n")
    return path


@pytest.mark.parametrize("step", ALL_COLUMNS)
@pytest.mark.parametrize("value", [5, None])
def test_a_key_that_comes_late_is_not_lost(step: str, value: Any, tmp_path: Path) -> None:
    data = xs.read_json(lines(tmp_path / "in.jsonl", {"a": 1, "late": value}))
    with pytest.raises(
        InputError, match=r"line 10002: the key 'late' .*schema=.'late': 'text'"
    ) as caught:
        ALL_COLUMNS[step](data).to_arrow()
    assert "--column-type late=text" in str(caught.value)


def test_a_late_key_is_read_as_the_type_that_is_given_or_not_asked_for(tmp_path: Path) -> None:
    path = lines(tmp_path / "in.jsonl", {"a": 1, "late": 5}, b=0)
    given = xs.read_json(path, schema={"late": "int64"}).filter("late is not null").to_arrow()
    assert given.to_pylist() == [{"a": 1, "b": None, "late": 5}]
    assert xs.read_json(path).select("a").to_arrow().num_rows == 10_002
    assert xs.read_json(path, bad_rows="skip").sort("a").to_arrow().num_rows == 10_001


@pytest.mark.parametrize("columns", [["s"], ["a", "s"]])
@pytest.mark.parametrize("late", [{"s": {"x": 1, "y": 2}}, {"s": {"l": [{"x": 1, "y": 2}]}}])
def test_a_late_key_within_a_column_is_not_lost(
    columns: list[str], late: dict[str, Any], tmp_path: Path
) -> None:
    path = lines(tmp_path / "in.jsonl", late, s={"x": 0, "l": [{"x": 1}]})
    with pytest.raises(InputError, match="line 10002: the key 'y' of column 's'"):
        xs.read_json(path).select(*columns).to_arrow()
    assert xs.read_json(path).select("a").to_arrow().num_rows == 10_002


def test_files_of_csv_are_read_by_the_names_in_their_headers(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,name,when\n" + "".join(f"{i},x{i},\n" for i in range(3000)))
    (tmp_path / "2.csv").write_text('when,id,name\n2024-01-01,5.5,"y,"\n,6.25,\n')
    (tmp_path / "3.csv").write_text("")
    paths = sorted(map(str, tmp_path.glob("*.csv")))
    table = xs.read_csv(paths).sort("id").to_arrow()
    query = f"FROM read_csv({paths[:2]}, union_by_name=true) ORDER BY id"
    assert table.to_pylist() == duckdb.sql(query).to_arrow_table().to_pylist()
    assert [str(kind) for kind in table.schema.types] == ["double", "string", "date32[day]"]
    picked = xs.read_csv(paths).filter("name = 'y,'").select("when", "id").to_arrow()
    assert [list(row.values()) for row in picked.to_pylist()] == [[table["when"][6].as_py(), 5.5]]


def test_bad_rows_and_folders_of_files_in_another_order(tmp_path: Path) -> None:
    for day, content in {"1": "a,b\n1,x\n", "2": "b,a\ny,2\nz,3,4\nw,\n"}.items():
        (tmp_path / "in" / f"day={day}").mkdir(parents=True)
        (tmp_path / "in" / f"day={day}" / "in.csv").write_text(content)
    data = xs.read_csv(tmp_path / "in", bad_rows=tmp_path / "bad.txt", schema={"a": "int64"})
    rows = [list(row.values()) for row in data.sort("b").to_arrow().to_pylist()]
    assert rows == [[None, "w", 2], [1, "x", 1], [2, "y", 2]]
    data.sort("b").write_parquet(tmp_path / "out")
    assert "z,3,4" in (tmp_path / "bad.txt").read_text()


def test_files_of_other_columns_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,x\n")
    (tmp_path / "2.csv").write_text("a,c\n1,x\n")
    with pytest.raises(
        SchemaError, match=r"'b' and 'c' are each in one of them only.*union"
    ) as caught:
        xs.read_csv(tmp_path)
    assert "1.csv" in str(caught.value)
    assert "2.csv" in str(caught.value)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("values", [["1", "", "2", "", ""], ["x", "", '"y"'], ["", "1.5"]])
def test_a_line_without_anything_is_a_null_of_the_only_column(
    values: list[str], end: str, tmp_path: Path
) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes("".join(value + end for value in ["a", *values]).encode())
    column = xs.read_csv(path).to_arrow()["a"].to_pylist()
    assert (
        column
        == duckdb.sql(f"FROM read_csv('{path}', header=true)").to_arrow_table()["a"].to_pylist()
    )
    assert sorted(map(str, column)) == sorted(
        map(str, xs.read_csv(path).repartition(2).to_arrow()["a"].to_pylist())
    )


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_cuts_make_no_rows_of_the_only_column(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_small(monkeypatch)
    values = [None if i % 7 == 0 else i for i in range(2000)]
    text = end.join(["a", *("" if value is None else str(value) for value in values), ""])
    (tmp_path / "in.csv").write_bytes(text.encode())
    data = xs.read_csv(tmp_path / "in.csv")
    assert data.sort("a").explain().splits >= 8
    for made in (data.to_arrow(), data.sort("a").to_arrow(), data.filter("true").to_arrow()):
        found = made["a"].to_pylist()
        assert sorted(map(str, found)) == sorted(map(str, values))


def test_the_only_column_beside_others_of_folders_and_without_quotes(tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    (tmp_path / "k=1" / "in.csv").write_text("#c\n\n1\n#c\n\n2\n")
    options: dict[str, Any] = {"header": False, "comment": "#", "quote": None}
    table = xs.read_csv(tmp_path, **options).to_arrow()
    assert table["column_0"].to_pylist() == [None, 1, None, 2]
    assert xs.read_csv(tmp_path, **options).select("k").to_arrow().num_rows == 4


def test_what_another_program_writes_of_a_column_with_nulls_is_read(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a\n1\n\n3\n\n")  # as Polars and pyarrow do
    assert xs.read_csv(tmp_path / "in.csv").to_arrow()["a"].to_pylist() == [1, None, 3, None]


@pytest.mark.parametrize("header", ['a,"b\n', 'a,"b"c\n'])
def test_a_header_that_is_none_is_not_said_to_be_a_row(header: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(header + "1,x\n")
    with pytest.raises(
        InputError, match=r"line 1, the header: .*skip_rows=1 and header=False"
    ) as caught:
        xs.read_csv(tmp_path / "in.csv", bad_rows="skip")
    assert "bad_rows" not in str(caught.value)


def test_rows_without_keys_need_columns(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("{}\n{}\n")
    with pytest.raises(InputError, match="no columns: none of its first 10,000 rows"):
        xs.read_json(tmp_path / "in.jsonl")
    given = xs.read_json(tmp_path / "in.jsonl", schema={"a": "int64"}).to_arrow()
    assert given.to_pylist() == [{"a": None}] * 2


@pytest.mark.parametrize(
    ("text", "what", "program"),
    [
        ('[{"a":1},{"a":2}]\n', "an array", "'.[]'"),
        ('[\n{"a":1},\n{"a":2}\n]\n', "an array", "'.[]'"),
        ('{\n  "a": 1\n}\n', "an object", "'.'"),
    ],
)
def test_a_document_of_json_is_told_from_lines(
    text: str, what: str, program: str, tmp_path: Path
) -> None:
    (tmp_path / "in.json").write_text(text)
    with pytest.raises(InputError, match=f"line 1: it begins {what} .*jq -c") as caught:
        xs.read_json(tmp_path / "in.json")
    assert program in str(caught.value)
