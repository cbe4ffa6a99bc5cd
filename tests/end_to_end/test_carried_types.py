"""Types that rows carry along: every operator hands them on unchanged, or says in a sentence what it cannot."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.errors import InputError, SchemaError

pytestmark = pytest.mark.usefixtures("engine")

#: Operators that pick rows; what they make of a number ``k``, which is unique, and a column ``carried``.
OPERATORS: dict[str, Callable[[xs.Dataset], xs.Dataset]] = {
    "filter": lambda rows: rows.filter("k > 0"),
    "sample": lambda rows: rows.sample(fraction=1.0),
    "distinct": lambda rows: rows.distinct("k"),
    "top_k": lambda rows: rows.top_k(3, "k"),
    "first": lambda rows: rows.group_by("k").agg(carried=("carried", "first")),
    "join": lambda rows: rows.join(rows.select("k"), on="k"),
    "shuffled join": lambda rows: rows.join(rows.select("k"), on="k", num_partitions=2),
    "right join": lambda rows: rows.select("k").join(rows, on="k", how="right"),
}
PAIR = pa.struct([("x", pa.string_view()), ("y", pa.list_(pa.binary_view()))])


def _file(folder: Path, table: pa.Table, name: int = 0) -> Path:
    file = folder / f"{name}.arrows"
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return file


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.list_(pa.string_view()), [["a"], ["b", None], None, []]),
        (pa.large_list(pa.binary_view()), [[b"a"], [b"b" * 20, None], None, []]),
        (pa.list_(pa.string_view(), 2), [["a", "b"], ["c", None], None, ["d" * 20, "e"]]),
        (PAIR, [{"x": "a", "y": [b"b"]}, {"x": None, "y": None}, None, {"x": "c" * 20, "y": []}]),
        (pa.map_(pa.string_view(), pa.int8()), [[("a", 1)], [("b" * 20, None)], None, []]),
    ],
    ids=str,
)
def test_views_within_other_types(
    kind: pa.DataType, values: list[object], operator: str, tmp_path: Path
) -> None:
    plain = pa.table({"k": [3, 1, 2, 0], "carried": pa.array(values, _without_views(kind))})
    table = plain.cast(pa.schema([("k", pa.int64()), ("carried", kind)]))
    rows = OPERATORS[operator](xs.read_ipc(_file(tmp_path, table))).to_arrow()
    assert rows.schema.field("carried").type == kind
    expected = dict(zip(plain["k"].to_pylist(), plain["carried"].to_pylist(), strict=True))
    found = dict(zip(rows["k"].to_pylist(), rows["carried"].to_pylist(), strict=True))
    assert len(found) >= 3
    assert found == {key: expected[key] for key in found}


def _without_views(kind: pa.DataType) -> pa.DataType:
    text, binary = pa.string(), pa.binary()
    return {
        pa.list_(pa.string_view()): pa.list_(text),
        pa.large_list(pa.binary_view()): pa.large_list(binary),
        pa.list_(pa.string_view(), 2): pa.list_(text, 2),
        PAIR: pa.struct([("x", text), ("y", pa.list_(binary))]),
        pa.map_(pa.string_view(), pa.int8()): pa.map_(text, pa.int8()),
    }[kind]


def _numbered(first: int) -> pa.Table:
    values = pa.DictionaryArray.from_arrays(
        pa.array(range(100), pa.int8()), [f"v{first + i}" for i in range(100)]
    )
    return pa.table({"k": range(first, first + 100), "carried": values})


@pytest.mark.parametrize("operator", ["distinct", "first"])
def test_dictionaries_of_files_become_one_with_wider_keys(operator: str, tmp_path: Path) -> None:
    for first in (0, 100):
        _file(tmp_path, _numbered(first), name=first)
    rows = OPERATORS[operator](xs.read_ipc(tmp_path / "*.arrows")).to_arrow()
    assert rows.schema.field("carried").type == pa.dictionary(pa.int32(), pa.string())
    assert rows.num_rows == 200
    assert rows["carried"].to_pylist() == [f"v{k}" for k in rows["k"].to_pylist()]


@pytest.mark.parametrize("operator", ["distinct", "first"])
def test_dictionaries_that_cannot_become_one(operator: str, tmp_path: Path) -> None:
    parts = pa.concat_tables([_numbered(0), _numbered(100), _numbered(0)])
    rows = OPERATORS[operator](xs.read_ipc(_file(tmp_path, parts)))
    with pytest.raises(InputError, match=r"more distinct values .* wider key type or"):
        rows.to_arrow()


@pytest.mark.parametrize("operator", ["filter", "sample", "distinct", "top_k", "first"])
def test_rows_that_cannot_be_picked(operator: str, tmp_path: Path) -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1, 4], pa.int32()), ["a", "b"])
    rows = xs.read_ipc(_file(tmp_path, pa.table({"k": [3, 1, 3, 0], "carried": runs})))
    assert rows.sort("k").to_arrow()["k"].to_pylist() == [0, 1, 3, 3]
    with pytest.raises(SchemaError, match=r"rows cannot be picked.*run_end_encoded"):
        OPERATORS[operator](rows).to_arrow()


def test_a_type_that_there_are_no_empty_tables_of(tmp_path: Path) -> None:
    union = pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()),
        pa.array([0, 0, 1], pa.int32()),
        [pa.array([1, 2]), pa.array(["x"])],
    )
    rows = xs.read_ipc(_file(tmp_path, pa.table({"k": [1, 2, 2], "carried": union})))
    assert rows.filter("k > 1").to_arrow()["carried"].to_pylist() == ["x", 2]
    assert rows.with_columns(z="k + 1").to_arrow()["z"].to_pylist() == [2, 3, 3]
    counted = rows.group_by("k").count().sort("k").to_arrow()
    assert counted["count"].to_pylist() == [1, 2]
    assert rows.distinct("k").schema == rows.schema


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.decimal128(5, 2), [decimal.Decimal("1.50"), None, decimal.Decimal("2.25")]),
        (pa.decimal256(50, 2), [decimal.Decimal("1.50"), None, decimal.Decimal("2.25")]),
        (pa.float16(), [1.5, None, 2.5]),
        (pa.bool_(), [True, None, False]),
    ],
    ids=str,
)
def test_dictionaries_in_parquet_that_the_decoder_refuses(
    kind: pa.DataType, values: list[object], tmp_path: Path
) -> None:
    """They are read as their values, within other types, too; pyarrow writes such files."""
    column = pa.array(values, kind).dictionary_encode()
    within = pa.StructArray.from_arrays([column], ["x"])
    table = pa.table({"k": [1, 2, 3], "carried": column, "within": within})
    pq.write_table(table, tmp_path / "in.parquet")
    rows = xs.read_parquet(tmp_path / "in.parquet")
    assert rows.schema.field("carried").type == kind
    made = rows.sort("k").to_arrow()
    assert made["carried"].to_pylist() == values
    assert [row["x"] for row in made["within"].to_pylist()] == values
