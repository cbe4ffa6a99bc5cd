"""Columns whose types differ become one in unions, lists of files and joins."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import InputError, SchemaError

D = decimal.Decimal
MOMENT = dt.datetime(2024, 1, 1, 12, 30, tzinfo=dt.timezone.utc)
NAIVE = MOMENT.replace(tzinfo=None)
TEXTS = ["b", None, "a", "längere Texte als zwölf"]
BYTES = [b"b", None, b"a", b"more than twelve bytes"]


def dictionary(index: pa.DataType, value: pa.DataType) -> pa.DataType:
    return pa.dictionary(index, value)


#: A type and its values, another and its, and the type that both become; the same the other way round.
PAIRS: dict[str, tuple[pa.DataType, list[Any], pa.DataType, list[Any], pa.DataType]] = {
    f"{a} and {b}": (a, x, b, y, kind)
    for a, x, b, y, kind in [
        (pa.string(), TEXTS, pa.large_string(), TEXTS, pa.large_string()),
        (pa.string(), TEXTS, pa.string_view(), TEXTS, pa.string()),
        (pa.string_view(), TEXTS, pa.large_string(), TEXTS, pa.large_string()),
        (dictionary(pa.int8(), pa.string()), TEXTS, pa.string(), TEXTS, pa.string()),
        (
            dictionary(pa.int32(), pa.large_string()),
            TEXTS,
            pa.string_view(),
            TEXTS,
            pa.large_string(),
        ),
        (
            dictionary(pa.int8(), pa.string()),
            TEXTS,
            dictionary(pa.int32(), pa.string()),
            TEXTS,
            dictionary(pa.int32(), pa.string()),
        ),
        (
            dictionary(pa.int16(), pa.string()),
            TEXTS,
            dictionary(pa.uint16(), pa.large_string()),
            TEXTS,
            dictionary(pa.int32(), pa.large_string()),
        ),
        (pa.binary(), BYTES, pa.large_binary(), BYTES, pa.large_binary()),
        (pa.binary_view(), BYTES, pa.binary(), BYTES, pa.binary()),
        (pa.binary(2), [b"ab", None], pa.binary(), BYTES, pa.binary()),
        (pa.int32(), [1, None, -(2**31)], pa.int64(), [2**62, 0], pa.int64()),
        (pa.uint32(), [2**32 - 1, None], pa.int32(), [-1, 5], pa.int64()),
        (pa.int8(), [-128, None], pa.uint8(), [255], pa.int16()),
        (pa.int64(), [-(2**63), None], pa.uint64(), [2**64 - 1], pa.decimal128(20, 0)),
        (pa.int32(), [7, None], pa.float64(), [0.5], pa.float64()),
        (pa.int16(), [7, None], pa.float32(), [0.5], pa.float32()),
        (pa.int64(), [7, None], pa.float32(), [0.5], pa.float64()),
        (pa.float32(), [0.5, None], pa.float64(), [0.1], pa.float64()),
        (
            pa.decimal128(9, 2),
            [D("1.25"), None],
            pa.decimal128(10, 4),
            [D("0.0001")],
            pa.decimal128(11, 4),
        ),
        (pa.decimal128(9, 2), [D("1.25"), None], pa.int32(), [2**31 - 1], pa.decimal128(12, 2)),
        (pa.timestamp("s"), [NAIVE, None], pa.timestamp("us"), [NAIVE], pa.timestamp("us")),
        (
            pa.timestamp("ms", "UTC"),
            [MOMENT, None],
            pa.timestamp("ns", "UTC"),
            [MOMENT],
            pa.timestamp("ns", "UTC"),
        ),
        (
            pa.timestamp("us", "Europe/Berlin"),
            [MOMENT, None],
            pa.timestamp("us", "America/New_York"),
            [MOMENT],
            pa.timestamp("us", "UTC"),
        ),
        (
            pa.time32("s"),
            [dt.time(1), None],
            pa.time64("us"),
            [dt.time(1, 2, 3, 4)],
            pa.time64("us"),
        ),
        (
            pa.duration("s"),
            [dt.timedelta(1), None],
            pa.duration("ms"),
            [dt.timedelta(2)],
            pa.duration("ms"),
        ),
        (pa.date32(), [dt.date(2024, 1, 1), None], pa.date64(), [dt.date(2024, 1, 2)], pa.date64()),
        (pa.null(), [None, None], pa.int64(), [1], pa.int64()),
        (pa.null(), [None], pa.string(), ["a"], pa.string()),
        (pa.list_(pa.int32()), [[1], None], pa.list_(pa.int64()), [[2**40]], pa.list_(pa.int64())),
        (
            pa.list_(pa.string()),
            [["a"], []],
            pa.large_list(pa.large_string()),
            [["b"]],
            pa.large_list(pa.large_string()),
        ),
        (
            pa.list_(pa.int32(), 2),
            [[1, 2], None],
            pa.list_(pa.int64(), 3),
            [[1, 2, 2**40]],
            pa.list_(pa.int64()),
        ),
        (
            pa.list_(pa.int32(), 2),
            [[1, 2]],
            pa.large_list(pa.int32()),
            [[], None],
            pa.large_list(pa.int32()),
        ),
    ]
}
NO_PAIRS = [
    (pa.string(), pa.int64()),
    (pa.string(), pa.binary()),
    (pa.bool_(), pa.int8()),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.date32(), pa.timestamp("us")),
    (pa.struct([("a", pa.int64())]), pa.struct([("b", pa.int64())])),
    (pa.decimal256(76, 0), pa.decimal256(76, 10)),
]


def tables(name: str) -> tuple[pa.Table, pa.Table]:
    """Two tables, whose columns are in another order."""
    a, x, b, y, _ = PAIRS[name]
    first = pa.table({"n": range(len(x)), "v": pa.array(x, a)})
    second = pa.table({"v": pa.array(y, b), "n": range(len(x), len(x) + len(y))})
    return first, second


def write_ipc(table: pa.Table, path: Path) -> None:
    feather.write_feather(table, str(path), compression="uncompressed")


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": pq.write_table,
    "arrow": write_ipc,
}
READERS = {"parquet": xs.read_parquet, "arrow": xs.read_ipc}


def written(table: pa.Table, path: Path, name: str) -> None:
    try:
        WRITERS[path.suffix[1:]](table, path)
    except pa.ArrowNotImplementedError:
        pytest.skip(f"pyarrow cannot write {name}")


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("name", PAIRS)
def test_files_and_unions(name: str, kind: str, tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    first, second = tables(name)
    *_, wanted = PAIRS[name]
    values = first["v"].to_pylist() + second["v"].to_pylist()
    for number, table in enumerate((first, second)):
        written(table, tmp_path / f"{number}.{kind}", name)
    paths = [tmp_path / f"{number}.{kind}" for number in range(2)]
    apart = [READERS[kind](path) for path in paths]
    exact = kind == "arrow" or not any(
        "ns" in str(t) or "date64" in str(t) or str(t).startswith("duration")
        for t in first.schema.types
    )
    for turned in (False, True):
        order = paths[::-1] if turned else paths
        sides = apart[::-1] if turned else apart
        for rows in (READERS[kind](order), sides[0].union(sides[1])):
            assert rows.schema.field("v").type == wanted or not exact
            for made in (
                rows.to_arrow(),
                rows.sort("n").to_arrow(),
                rows.select("v", "n").to_arrow(),
            ):
                made.validate(full=True)
                assert made.schema.field("v").type == rows.schema.field("v").type
                assert made.sort_by("n")["v"].to_pylist() == values


#: Structs whose fields come in another order, or are missing.
STRUCTS = {
    "another order": ([{"x": 1, "y": 2}, None], [{"y": 20, "x": 10}]),
    "a field less": ([{"x": 1, "y": "a"}], [{"x": 2.5}, None]),
    "a field more": ([{"x": 1}], [{"z": [1], "x": 2}]),
    "within lists": (
        [[{"x": 1, "y": 2}], None, []],
        [[{"y": 20, "x": 10}, None, {"y": 3, "z": "a"}]],
    ),
    "within structs": ([{"s": {"x": 1, "y": 2}}], [{"t": True, "s": {"y": 20, "x": 10}}]),
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("name", STRUCTS)
def test_fields_of_structs_meet_by_name_as_in_duckdb(
    name: str, kind: str, tmp_path: Path, engine: LocalEngine
) -> None:
    del engine
    sides = [
        pa.table({"n": range(10 * i, 10 * i + len(v)), "v": v}) for i, v in enumerate(STRUCTS[name])
    ]
    paths = [tmp_path / f"{number}.{kind}" for number in range(2)]
    for path, table in zip(paths, sides, strict=True):
        WRITERS[kind](table, path)
    with duckdb.connect() as connection:
        connection.register("a", sides[0])
        connection.register("b", sides[1])
        wanted = connection.sql("FROM a UNION ALL FROM b ORDER BY n").to_arrow_table().to_pylist()
    apart = [READERS[kind](path) for path in paths]
    for rows in (READERS[kind](paths), apart[0].union(apart[1])):
        made = rows.sort("n").to_arrow()
        made.validate(full=True)
        assert made.to_pylist() == wanted
    turned = READERS[kind](paths[::-1]).sort("n").to_arrow()
    assert turned.to_pylist() == wanted


@pytest.mark.parametrize(("a", "b"), NO_PAIRS, ids=str)
def test_what_has_no_common_type(a: pa.DataType, b: pa.DataType, tmp_path: Path) -> None:
    for number, one in enumerate((a, b)):
        write_ipc(pa.table({"n": [1], "v": pa.array([None], one)}), tmp_path / f"{number}.arrow")
    with pytest.raises(
        SchemaError, match=r"column 1 is 'v'.* in '.*0.arrow'.* but 'v'.* in '.*1.arrow'"
    ):
        xs.read_ipc(tmp_path)
    apart = [xs.read_ipc(tmp_path / f"{number}.arrow") for number in range(2)]
    with pytest.raises(SchemaError, match=r"'v'.* in 'dataset 1' but 'v'.* in 'dataset 2'"):
        apart[0].union(apart[1])


def test_the_file_that_differs_is_named(tmp_path: Path) -> None:
    for number, one in enumerate((pa.null(), pa.int32(), pa.int64(), pa.string())):
        write_ipc(pa.table({"v": pa.array([None], one)}), tmp_path / f"{number}.arrow")
    with pytest.raises(SchemaError, match=r"Int32 in '.*1.arrow' but .* Utf8 in '.*3.arrow'"):
        xs.read_ipc(tmp_path)


def test_other_columns(tmp_path: Path) -> None:
    write_ipc(pa.table({"a": [1], "b": [1]}), tmp_path / "0.arrow")
    write_ipc(pa.table({"b": [1], "c": [1]}), tmp_path / "1.arrow")
    with pytest.raises(SchemaError, match="'a' and 'c' are each in one of them only"):
        xs.read_ipc(tmp_path)


def test_a_value_that_does_not_fit(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    write_ipc(pa.table({"t": pa.array([10**12], pa.timestamp("s"))}), tmp_path / "0.arrow")
    write_ipc(pa.table({"t": pa.array([1], pa.timestamp("ns"))}), tmp_path / "1.arrow")
    with pytest.raises(InputError, match=r"'t'.* in '.*0.arrow' but .*does not fit") as caught:
        xs.read_ipc(tmp_path).to_arrow()
    assert "'t'" in str(caught.value)
    apart = [xs.read_ipc(tmp_path / f"{number}.arrow") for number in range(2)]
    with pytest.raises(InputError, match=r"column 't' is timestamp.s.*does not fit"):
        apart[0].union(apart[1]).to_arrow()


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("other", [8, 16, 32, 64])
def test_integers_promote_as_duckdb_does(bits: int, other: int, tmp_path: Path) -> None:
    signed, unsigned = pa.type_for_alias(f"int{bits}"), pa.type_for_alias(f"uint{other}")
    made = [pa.table({"v": pa.array([1], kind)}) for kind in (signed, unsigned)]
    for number, table in enumerate(made):
        write_ipc(table, tmp_path / f"{number}.arrow")
    with duckdb.connect() as connection:
        connection.register("a", made[0])
        connection.register("b", made[1])
        [[name]] = connection.sql(
            "SELECT typeof(v) FROM (FROM a UNION ALL FROM b) LIMIT 1"
        ).fetchall()
    names = {
        "SMALLINT": "int16",
        "INTEGER": "int32",
        "BIGINT": "int64",
        "HUGEINT": "decimal128(20, 0)",
    }
    assert str(xs.read_ipc(tmp_path).schema.field("v").type) == names[name]


@pytest.mark.parametrize("name", [name for name in PAIRS if "list" not in name])
def test_joins_of_different_types(name: str, tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    first, second = tables(name)
    for number, table in enumerate((first, second)):
        write_ipc(table.rename_columns({"n": f"n{number}"}), tmp_path / f"{number}.arrow")
    sides = [xs.read_ipc(tmp_path / f"{number}.arrow") for number in range(2)]
    for options in ({}, {"num_partitions": 3}):
        made = sides[0].join(sides[1], on="v", **options).to_arrow()
        wanted = [
            (a["n"], b["n"])
            for a in first.to_pylist()
            for b in second.to_pylist()
            if a["v"] is not None and a["v"] == b["v"]
        ]
        assert sorted(zip(made["n0"].to_pylist(), made["n1"].to_pylist(), strict=True)) == wanted
        assert made.schema.field("v").type == sides[0].schema.field("v").type


def test_dictionaries_of_views(tmp_path: Path, engine: LocalEngine) -> None:
    """As Polars writes categories; pyarrow takes no values out of views."""
    del engine
    coded = pa.array(["x", "y", None, "x"]).dictionary_encode()
    views = pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(pa.string_view()))
    write_ipc(pa.table({"n": range(4), "v": views}), tmp_path / "0.arrow")
    write_ipc(pa.table({"w": ["x", "z"]}), tmp_path / "1.arrow")
    rows, other = (xs.read_ipc(tmp_path / f"{number}.arrow") for number in range(2))
    assert rows.filter("v = 'x'").to_arrow()["n"].to_pylist() == [0, 3]
    assert rows.select(x="upper(v)").to_arrow()["x"].to_pylist() == ["X", "Y", None, "X"]
    counts = rows.group_by("v").agg(c="count", least=("v", "min")).to_arrow()
    assert counts.to_pydict() == {"v": ["x", "y", None], "c": [2, 1, 1], "least": ["x", "y", None]}
    assert rows.distinct("v").to_arrow().num_rows == 3
    made = rows.join(other, left_on="v", right_on="w").to_arrow()
    assert made["n"].to_pylist() == [0, 3]
    assert rows.select("v").union(other.rename({"w": "v"})).to_arrow().num_rows == 6


def many_texts(key: pa.DataType, first: int, number: int) -> pa.Array:
    """Texts that no other such array has, in a dictionary."""
    return pa.array([f"value {first + i}" for i in range(number)]).cast(
        pa.dictionary(key, pa.string())
    )


#: Dictionaries that are too large together for the keys of each, and the key of both.
KEYS = {
    "equal types": (many_texts(pa.int8(), 0, 100), many_texts(pa.int8(), 100, 100)),
    "signed and not": (many_texts(pa.uint8(), 0, 200), many_texts(pa.int8(), 200, 100)),
    "two widths": (many_texts(pa.int8(), 0, 100), many_texts(pa.uint8(), 100, 250)),
}
#: Where a dictionary may be.
LEVELS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "column": lambda values: values,
    "struct": lambda values: pa.StructArray.from_arrays([values], ["x"]),
    "list": lambda values: pa.ListArray.from_arrays(range(len(values) + 1), values),
    "struct of structs": lambda values: LEVELS["struct"](LEVELS["struct"](values)),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", KEYS)
def test_dictionaries_that_are_larger_together(
    name: str, level: str, tmp_path: Path, engine: LocalEngine
) -> None:
    del engine
    sides = [pa.table({"v": LEVELS[level](values)}) for values in KEYS[name]]
    values = [value for side in sides for value in side["v"].to_pylist()]
    sides = [
        side.append_column("n", pa.array(range(start, start + len(side))))
        for side, start in zip(sides, (0, len(sides[0])), strict=True)
    ]
    paths = [tmp_path / f"{number}.arrow" for number in range(2)]
    for path, side in zip(paths, sides, strict=True):
        write_ipc(side, path)
    apart = [xs.read_ipc(path) for path in paths]
    for number, rows in enumerate((xs.read_ipc(paths), apart[0].union(apart[1]))):
        made = rows.sort("n").to_arrow()
        made.validate(full=True)
        assert made["v"].to_pylist() == values
        assert made.schema.field("v").type == rows.schema.field("v").type
        out = tmp_path / f"{number}.parquet"
        rows.repartition(1).write_parquet(out)
        assert sorted(map(str, pq.read_table(out)["v"].to_pylist())) == sorted(map(str, values))


def test_integers_in_lists_become_the_nearest_double_in_unions_too(
    tmp_path: Path, engine: LocalEngine
) -> None:
    del engine
    odd = 2**53 + 1
    sides = [pa.table({"v": [[odd]]}), pa.table({"v": [[0.5]]})]
    for number, side in enumerate(sides):
        write_ipc(side, tmp_path / f"{number}.arrow")
    apart = [xs.read_ipc(tmp_path / f"{number}.arrow") for number in range(2)]
    for rows in (xs.read_ipc(tmp_path), apart[0].union(apart[1])):
        assert rows.to_arrow()["v"].to_pylist() == [[float(odd)], [0.5]]
