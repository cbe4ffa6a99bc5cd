"""``schema=`` takes what ``.schema`` gives, and errors name the nearest of thousands of names."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import ExoshuffleError, InputError, SchemaError

TEXT = pa.array(["b", None, "a"])
#: Columns of every type that CSV can hold.
COLUMNS = {
    "text": TEXT,
    "large": TEXT.cast(pa.large_string()),
    "view": TEXT.cast(pa.string_view()),
    "coded": TEXT.dictionary_encode(),
    "coded by bytes": TEXT.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.large_string())),
    "bool": pa.array([True, None, False]),
    **{
        name: pa.array([1, None, 3], pa.type_for_alias(name))
        for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    },
    "half": pa.array([0.5, None, 2], pa.float16()),
    "float": pa.array([0.5, None, 2], pa.float32()),
    "double": pa.array([0.1, None, 2]),
    "decimal": pa.array([1, None, 3]).cast(pa.decimal128(21, 2)),
    "wide": pa.array([1, None, 3]).cast(pa.decimal128(21, 2)).cast(pa.decimal256(50, 2)),
    "date": pa.array([1, None, 3], pa.date32()),
    "time": pa.array([1_000_000, None, 3_000_000], pa.time64("us")),
    "moment": pa.array([1, None, 3], pa.timestamp("us")),
    "zoned": pa.array([1, None, 3], pa.timestamp("us", "UTC")),
    "seconds": pa.array([1, None, 3], pa.timestamp("s")),
}
#: And what JSON lines can hold beside.
NESTED = {
    "list": pa.array([[1], None, []], pa.list_(pa.int16())),
    "views": pa.array([["a"], None, []], pa.list_(pa.string_view())),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_what_schema_gives_schema_takes(kind: str, tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    columns = COLUMNS if kind == "csv" else COLUMNS | NESTED
    table = pa.table({"n": [1, 2, 3], **columns})
    table = table.drop_columns(["half"]) if kind == "jsonl" else table
    feather.write_feather(table, str(tmp_path / "in.arrow"), compression="uncompressed")
    source = xs.read_ipc(tmp_path / "in.arrow")
    assert source.schema.equals(table.schema)
    if kind == "csv":
        source.write_csv(tmp_path / "out")
        read = xs.read_csv(tmp_path / "out", schema=source.schema)
    else:
        source.write_json(tmp_path / "out")
        read = xs.read_json(tmp_path / "out", schema=source.schema)
    assert read.schema.types == source.schema.types
    for made in (read.to_arrow(), read.sort("n").to_arrow()):
        assert made.select(table.column_names).to_pylist() == table.to_pylist()


USES = {
    "sort": lambda rows: rows.sort("Colum_1234"),
    "select": lambda rows: rows.select("Colum_1234"),
    "filter": lambda rows: rows.filter("Colum_1234 > 3"),
    "group": lambda rows: rows.group_by("Colum_1234").agg(n="count()"),
    "aggregate": lambda rows: rows.group_by("column_1").agg(n=("Colum_1234", "sum")),
    "join": lambda rows: rows.join(rows, on="Colum_1234"),
    "repartition": lambda rows: rows.repartition(3, by="Colum_1234"),
    "drop": lambda rows: rows.drop("Colum_1234"),
    "rename": lambda rows: rows.rename({"Colum_1234": "x"}),
    "distinct": lambda rows: rows.distinct("Colum_1234"),
    "top_k": lambda rows: rows.top_k(3, "Colum_1234"),
}


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wide") / "in.csv"
    names = ",".join(f"column_{number}" for number in range(3000))
    path.write_text(f"{names}\n{','.join(['1'] * 3000)}\n")
    return path


@pytest.mark.parametrize("name", USES)
def test_the_nearest_of_many_names(name: str, wide: Path, engine: LocalEngine) -> None:
    del engine
    rows = xs.read_csv(wide)
    started = time.process_time()
    with pytest.raises(
        SchemaError,
        match="there is no column 'Colum_1234' among 3,000; the nearest are 'column_1234', ",
    ) as caught:
        USES[name](rows).explain()
    assert len(str(caught.value)) < 300
    assert time.process_time() - started < 5


def test_the_nearest_of_many_names_in_a_schema(wide: Path) -> None:
    with pytest.raises(
        ExoshuffleError, match=r"'Colum_1234', but .* nearest .* 'column_1234'"
    ) as caught:
        xs.read_csv(wide, schema={"Colum_1234": "text"})
    assert len(str(caught.value)) < 400


LISTS = pa.schema(
    [pa.field(f"column_{number}", pa.int64()) for number in range(2999)]
    + [pa.field("column_list", pa.map_(pa.string(), pa.int64()))]
)


def wrong_type(table: pa.Table) -> pa.Table:
    return table.set_column(1234, "column_1234", pa.array(["x"] * table.num_rows, pa.string()))


def wrong_name(table: pa.Table) -> pa.Table:
    return table.rename_columns([*table.column_names[:-1], "other"])


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (
            lambda rows: rows.sort("column_list"),
            "sortable here: 'column_\\d+', .* and 2,996 others",
        ),
        (
            lambda rows: rows.group_by("column_list").count(),
            "columns that can are .* and 2,996 others",
        ),
        (
            lambda rows: rows.map_batches(wrong_type, schema=LISTS),
            r"3,000 columns, from number 1,235 on: column_1234: string, column_1235: int64, .*; "
            "expected were 3,000 columns, from number 1,235 on: column_1234: int64",
        ),
        (
            lambda rows: rows.map_batches(wrong_name, schema=LISTS),
            r"3,000 columns, from number 3,000 on: other: map<string, int64>; expected were 3,000",
        ),
        (
            lambda rows: rows.map_batches(lambda table: table.select([0]), schema=LISTS),
            r"1 column, from number 2 on: none; expected were 3,000 columns, from number 2 on: col",
        ),
        (
            lambda rows: rows.map_batches(
                lambda table: {f"new_{n}": [] for n in table.schema.names}
            ),
            "returned 'new_column_0', 'new_column_1', 'new_column_2', … without a type",
        ),
    ],
)
def test_few_of_many_columns_are_shown(
    use: Any, words: str, tmp_path: Path, roomy_engine: LocalEngine
) -> None:
    del roomy_engine
    parquet.write_table(pa.Table.from_pylist([{}], LISTS), tmp_path / "in.parquet")
    with pytest.raises(SchemaError, match=words) as caught:
        use(xs.read_parquet(tmp_path / "in.parquet")).write_parquet(tmp_path / "out")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("data_type", [pa.null(), pa.string(), pa.list_(pa.int8())])
@pytest.mark.parametrize(
    "use",
    [
        lambda rows: rows.map_batches(lambda table: table),
        lambda rows: rows.map_batches(lambda table: table.to_pydict()),
        lambda rows: rows.group_by("k").map_groups(lambda table: table.to_pydict()),
        lambda rows: rows.map(lambda row: row),
    ],
)
def test_columns_of_nulls_keep_their_type_in_functions(
    use: Any, data_type: pa.DataType, roomy_engine: LocalEngine
) -> None:
    del roomy_engine
    given = pa.table({"k": [1, 2, 2], "v": pa.nulls(3, data_type)})
    assert use(xs.from_arrow(given)).sort("k").to_arrow() == given
    assert use(xs.from_arrow(given[:0])).to_arrow() == given[:0]


@pytest.mark.parametrize("value", ["70000", "-70000", "1e300"])
def test_numbers_that_would_become_infinite_are_refused(
    value: str, tmp_path: Path, engine: LocalEngine
) -> None:
    del engine
    path = tmp_path / "in.csv"
    path.write_text(f"a\n1.5\n{value}\n")
    with pytest.raises(InputError, match=r"'a' .* does not fit halffloat: .* beyond the largest"):
        xs.read_csv(path, schema={"a": pa.float16()}).to_arrow()


@pytest.mark.parametrize(
    ("data_type", "value"), [(pa.float32(), "-1e300"), (pa.float64(), "1e400")]
)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "nested"])
def test_floats_beyond_their_type_are_refused_by_line_and_value(
    kind: str, data_type: pa.DataType, value: str, tmp_path: Path, engine: LocalEngine
) -> None:
    del engine
    lines = {
        "csv": ("b,a", "1,1.5", "2,inf", f"3,{value}"),
        "jsonl": ('{"a":1.5}', '{"a":"inf"}', "{}", f'{{"a":{value}}}'),
        "nested": ('{"a":[1.5]}', "{}", "{}", f'{{"a":[2,{value}]}}'),
    }[kind]
    path = tmp_path / ("in.csv" if kind == "csv" else "in.jsonl")
    given = {"a": pa.list_(data_type) if kind == "nested" else data_type}
    read = xs.read_csv if kind == "csv" else xs.read_json
    path.write_text("\n".join(lines[:3]) + "\n")
    assert read(path, schema=given).to_arrow().num_rows in (2, 3)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ExoshuffleError, match=f"line 4.*'a'.*{value}"):
        read(path, schema=given).to_arrow()


def test_infinities_of_the_file_stay(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    path = tmp_path / "in.csv"
    path.write_text("a\n1.5\ninf\n-inf\nNaN\n65504\n")
    made = xs.read_csv(path, schema={"a": pa.float16()}).to_arrow()
    assert str(made["a"].to_pylist()) == "[1.5, inf, -inf, nan, 65504.0]"
