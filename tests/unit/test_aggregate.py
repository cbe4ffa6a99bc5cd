"""Grouping in two stages gives what DuckDB gives for one GROUP BY over all rows, however they were split."""

from __future__ import annotations

import functools
import itertools
import math
import pickle
import random
import statistics
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from exoshuffle.dataset.grouped import Grouped
from exoshuffle.errors import InputError, OptionsError, SchemaError
from exoshuffle.operators.group_by.aggregate import GroupBy, Uncombined
from exoshuffle.operators.group_by.functions import FUNCTIONS, accepts
from exoshuffle.operators.group_by.parsing import parse_aggregates
from exoshuffle.operators.sql import groups, relational
from exoshuffle.operators.sql.groups import Operands

#: Each function as DuckDB has it; ``n`` is the number of the row.
ORACLE = {
    "count": "count({x})",
    "count_distinct": "count(DISTINCT {x})",
    "approx_count_distinct": "count(DISTINCT {x})",
    "min": "min({x})",
    "max": "max({x})",
    "first": "first({x} ORDER BY n) FILTER ({x} IS NOT NULL)",
    "last": "last({x} ORDER BY n) FILTER ({x} IS NOT NULL)",
    "top_k": "max({x}, 3)",
    "list": "list({x} ORDER BY n)",
    "any": "bool_or({x})",
    "all": "bool_and({x})",
    "sum": "sum({x})",
    "mean": "avg({x}::DOUBLE)",
    "var": "var_samp({x}::DOUBLE) FILTER (isfinite({x}::DOUBLE))",
    "std": "stddev_samp({x}::DOUBLE) FILTER (isfinite({x}::DOUBLE))",
    "median": "median({x}::DOUBLE)",
    "quantile": "quantile_cont({x}::DOUBLE, 0.3)",
}
OF_ALL = [
    "count",
    "count_distinct",
    "approx_count_distinct",
    "min",
    "max",
    "first",
    "last",
    "top_k",
]
OF_NUMBERS = ["sum", "mean", "var", "std"]
UNCOMBINED = ["list", "median", "quantile"]
PARAMETERS: dict[str, tuple[Any, ...]] = {"top_k": (3,), "quantile": (0.3,)}


def integers(low: int, high: int) -> Callable[[random.Random], Any]:
    return lambda rng: rng.choice([low, high, rng.randint(low, high), rng.randint(0, 5)])


def finite(rng: random.Random) -> float:
    return rng.choice([0.0, -0.0, 1.5, -2.25, rng.randint(-50, 50) / 4])


def words(rng: random.Random) -> str:
    return rng.choice(["", "a", "ab", "b\0", "längeres Wort 12345", str(rng.randint(0, 9))])


#: Types with numbers.
NUMBERS: list[tuple[pa.DataType, Callable[[random.Random], Any]]] = [
    (pa.int8(), integers(-128, 127)),
    (pa.int32(), integers(-(2**31), 2**31 - 1)),
    (pa.int64(), integers(-(2**53), 2**53)),
    (pa.uint8(), integers(0, 255)),
    (pa.uint32(), integers(0, 2**32 - 1)),
    (pa.uint64(), integers(0, 2**53)),
    (pa.float16(), finite),
    (pa.float32(), finite),
    (pa.float64(), finite),
    (pa.decimal128(9, 2), lambda rng: Decimal(rng.randint(-99999, 99999)) / 100),
    (pa.decimal128(30, 5), lambda rng: Decimal(rng.randint(-(10**15), 10**15)) / 10**5),
    (pa.decimal256(38, 0), lambda rng: Decimal(rng.randint(0, 10**30))),
    (pa.dictionary(pa.int8(), pa.int64()), integers(-5, 5)),
]
#: Types with an order.
ORDERED: list[tuple[pa.DataType, Callable[[random.Random], Any]]] = [
    (pa.bool_(), lambda rng: rng.random() < 0.5),
    (pa.string(), words),
    (pa.large_string(), words),
    (pa.string_view(), words),
    (pa.binary(), lambda rng: words(rng).encode()),
    (pa.binary(2), lambda rng: rng.choice([b"ab", b"b\0", b"\xff\xff"])),
    (pa.date32(), lambda rng: rng.randint(-1000, 30000)),
    (pa.time32("ms"), lambda rng: rng.randint(0, 86_399_999)),
    (pa.time64("ns"), lambda rng: rng.randint(0, 86_399_999_999_999)),
    (pa.timestamp("s"), lambda rng: rng.randint(0, 10**9)),
    (pa.timestamp("ms", "Europe/Berlin"), lambda rng: rng.randint(0, 10**12)),
    (pa.timestamp("us"), lambda rng: rng.randint(-(10**15), 10**15)),
    (pa.timestamp("ns"), lambda rng: rng.randint(0, 10**18)),
    (pa.timestamp("ns", "Asia/Tokyo"), lambda rng: rng.randint(10**18, 10**18 + 5)),
    (pa.duration("ns"), lambda rng: rng.randint(-(10**9), 10**9)),
    (pa.dictionary(pa.int8(), pa.string()), words),
    (pa.dictionary(pa.int32(), pa.large_string()), words),
    (pa.list_(pa.int32()), lambda rng: [rng.randint(0, 3) for _ in range(rng.randint(0, 3))]),
    (
        pa.struct([("a", pa.int8()), ("b", pa.string())]),
        lambda rng: {"a": rng.choice([None, 1, 2]), "b": words(rng)},
    ),
    (pa.list_(pa.dictionary(pa.int8(), pa.string())), lambda rng: [words(rng)]),
    (pa.null(), lambda _: None),
]


def array(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.array(values, kind)


def column(
    rng: random.Random, kind: pa.DataType, draw: Callable[[random.Random], Any], num_rows: int
) -> pa.Array:
    return array(kind, [None if rng.random() < 0.2 else draw(rng) for _ in range(num_rows)])


def shown(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column with types that both DuckDB and Python have."""
    kind = plain(values.type)
    if pa.types.is_time(values.type):
        # Arrow casts times to integers of their own width only.
        own = pa.int32() if values.type.bit_width == 32 else pa.int64()
        return values.cast(own).cast(kind)
    if pa.types.is_list(values.type) and pa.types.is_time(values.type.value_type):
        whole = values.combine_chunks()
        inner = shown(pa.chunked_array([whole.values]))
        return pa.ListArray.from_arrays(whole.offsets, inner.combine_chunks(), mask=whole.is_null())
    # Arrow spoils lists of null that it casts to their own type.
    return values if kind == values.type else values.cast(kind)


def plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_duration(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return pa.int64()
    if pa.types.is_decimal256(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return pa.float32() if pa.types.is_float16(kind) else kind


def show(table: pa.Table) -> pa.Table:
    return pa.table([shown(values) for values in table.columns], names=table.column_names)


def rows(table: pa.Table, keys: Sequence[str]) -> dict[str, list[Any]]:
    """Rows by their keys."""
    found = {}
    for row in show(table).to_pylist():
        found[repr([same_key(row[key]) for key in keys])] = [
            value for name, value in row.items() if name not in keys
        ]
    assert len(found) == table.num_rows
    return found


def same_key(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


def assert_alike(actual: Any, wanted: Any, where: str) -> None:
    if isinstance(actual, list) and isinstance(wanted, list):
        assert len(actual) == len(wanted), where
        for left, right in zip(actual, wanted, strict=True):
            assert_alike(left, right, where)
    elif isinstance(actual, float) and wanted is not None:
        wanted = float(wanted)
        assert math.isclose(actual, wanted, rel_tol=1e-9, abs_tol=1e-9) or (
            math.isnan(actual) and math.isnan(wanted)
        ), f"{where}: {actual} for {wanted}"
    else:
        assert actual == wanted, f"{where}: {actual!r} for {wanted!r}"


def in_parts(table: pa.Table, num_parts: int, rng: random.Random) -> list[pa.Table]:
    cuts = sorted(rng.randint(0, table.num_rows) for _ in range(num_parts - 1))
    bounds = [0, *cuts, table.num_rows]
    return [table.slice(start, stop - start) for start, stop in itertools.pairwise(bounds)]


def in_two_stages(table: pa.Table, grouping: GroupBy, num_parts: int, seed: int = 0) -> pa.Table:
    grouping = pickle.loads(pickle.dumps(grouping))  # noqa: S301  our own bytes
    partials = [
        grouping.partial(part.to_reader(7))
        for part in in_parts(table, num_parts, random.Random(seed))
    ]
    for partial in partials:
        assert partial.schema.equals(grouping.partial_schema, check_metadata=True)
        partial.validate(full=True)
    result = grouping.final(pa.concat_tables(partials).to_reader())
    assert result.schema.equals(grouping.output_schema, check_metadata=True)
    result.validate(full=True)
    return result


def uncombined(grouping: GroupBy) -> GroupBy:
    return Uncombined(grouping.schema, grouping.keys, grouping.aggregates)


@functools.cache
def oracle() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def by_duckdb(table: pa.Table, keys: Sequence[str], expressions: dict[str, str]) -> pa.Table:
    numbered = show(table).append_column("n", pa.array(range(table.num_rows), pa.int64()))
    columns = [
        *(f'"{key}"' for key in keys),
        *(f'{sql} AS "{name}"' for name, sql in expressions.items()),
    ]
    tail = f"GROUP BY {', '.join(columns[: len(keys)])}" if keys else ""
    connection = oracle().cursor()
    connection.register("numbered", numbered)
    sql = f"SELECT {', '.join(columns)} FROM numbered {tail}"  # noqa: S608  names of this test
    return connection.sql(sql).to_arrow_table()


def assert_as_duckdb(
    table: pa.Table, keys: list[str], uses: dict[str, tuple[str, str]], num_parts: int
) -> None:
    """``uses``: by output name, the column and the function."""
    specs = {
        name: (x, function, *PARAMETERS.get(function, ())) for name, (x, function) in uses.items()
    }
    grouping = parse_aggregates(table.schema, keys, specs)
    expressions = {
        name: ORACLE[function].format(x=f'"{x}"') for name, (x, function) in uses.items()
    }
    wanted = rows(by_duckdb(table, keys, expressions), keys)
    for way in (grouping, uncombined(grouping)):
        actual = in_two_stages(table, way, num_parts)
        for key in keys:
            assert actual.schema.field(key) == table.schema.field(key)
        found = rows(actual, keys)
        assert found.keys() == wanted.keys()
        for key, values in found.items():
            for name, left, right in zip(uses, values, wanted[key], strict=True):
                where = f"{name} of group {key} in {num_parts} parts by {type(way).__name__}"
                assert_alike(left, right, where)


def functions_of(kind: pa.DataType) -> list[str]:
    numbers = [number for number, _ in NUMBERS]
    special = {pa.bool_(): ["any", "all", "sum", "mean"], pa.duration("ns"): ["sum"]}
    more = OF_NUMBERS if kind in numbers else special.get(kind, [])
    return [name for name in OF_ALL if name[:6] != "approx" or not pa.types.is_nested(kind)] + more


@pytest.mark.parametrize(("kind", "draw"), NUMBERS + ORDERED, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("num_parts", [1, 4])
def test_every_function_of_every_type(kind: pa.DataType, draw: Any, num_parts: int) -> None:
    rng = random.Random(f"{kind} {num_parts}")
    table = pa.table(
        {"k": pa.array([rng.randint(0, 6) for _ in range(150)]), "x": column(rng, kind, draw, 150)}
    )
    functions = functions_of(kind)
    assert_as_duckdb(table, ["k"], {name: ("x", name) for name in functions}, num_parts)
    alone = [name for name in UNCOMBINED if name == "list" or "var" in functions]
    assert_as_duckdb(table, ["k"], {name: ("x", name) for name in functions + alone}, num_parts)


@pytest.mark.parametrize("num_parts", [1, 3])
@pytest.mark.parametrize(("kind", "draw"), NUMBERS + ORDERED, ids=lambda value: str(value)[:40])
def test_the_list_of_a_group_alone(kind: pa.DataType, draw: Any, num_parts: int) -> None:
    rng = random.Random(f"{kind}")
    table = pa.table({"k": pa.array([7] * 50), "x": column(rng, kind, draw, 50)})
    uses = {"l": ("x", "list"), "again": ("x", "list"), "c": ("x", "count"), "z": ("x", "last")}
    assert_as_duckdb(table, ["k"], uses, num_parts)
    assert_as_duckdb(table, [], uses, num_parts)


@pytest.mark.parametrize(("kind", "draw"), NUMBERS + ORDERED, ids=lambda value: str(value)[:40])
def test_keys_of_every_type(kind: pa.DataType, draw: Any) -> None:
    rng = random.Random(str(kind))
    table = pa.table(
        {
            "k": column(rng, kind, draw, 100),
            "j": pa.array([rng.choice([None, "a", "b"]) for _ in range(100)]),
            "x": column(rng, pa.int64(), integers(0, 9), 100),
        }
    )
    uses = {"rows": ("x", "count"), "total": ("x", "sum"), "different": ("x", "count_distinct")}
    assert_as_duckdb(table, ["k"], uses, 3)
    assert_as_duckdb(table, ["j", "k"], uses, 3)


@pytest.mark.parametrize("seed", range(25))
def test_random_tables(seed: int) -> None:
    rng = random.Random(seed)
    num_rows = rng.choice([0, 1, 2, 30, 200])
    keys = [f"key {index}" for index in range(rng.randint(0, 3))]
    kinds = [rng.choice(NUMBERS + ORDERED[:14]) for _ in range(2)]
    table = pa.table(
        {
            **{key: column(rng, pa.int64(), integers(0, 4), num_rows) for key in keys},
            **{f"x{index}": column(rng, *kind, num_rows) for index, kind in enumerate(kinds)},
        }
    )
    uses = {}
    for index in range(rng.randint(1, 6)):
        which = rng.randint(0, 1)
        uses[f"result {index}"] = (f"x{which}", rng.choice(functions_of(kinds[which][0])))
    if rng.random() < 0.3:
        uses["all of them"] = ("x0", "list")
    assert_as_duckdb(table, keys, uses, rng.randint(1, 5))


def test_floats_that_are_no_numbers() -> None:
    nan, infinity = math.nan, math.inf
    table = pa.table(
        {
            "k": [nan, -nan, 0.0, -0.0, None, None, 1.0, 1.0, 1.0, 2.0, 2.0],
            "x": [1.0, nan, -0.0, 0.0, None, None, infinity, 1.0, 2.0, -infinity, infinity],
        }
    )
    functions = [
        "count",
        "count_distinct",
        "min",
        "max",
        "sum",
        "mean",
        "top_k",
        "approx_count_distinct",
    ]
    for extra in ([], ["median"]):
        assert_as_duckdb(table, ["k"], {name: ("x", name) for name in functions + extra}, 2)
    grouping = parse_aggregates(table.schema, ["k"], {"s": ("x", "std"), "v": ("x", "var")})
    for num_parts in (1, 4):
        result = in_two_stages(table, grouping, num_parts).slice(3).to_pylist()
        assert [row["k"] for row in result] == [1.0, 2.0]
        assert all(math.isnan(row["s"]) and math.isnan(row["v"]) for row in result)


def test_integers_do_not_depend_on_how_they_are_split() -> None:
    rng = random.Random(5)
    table = pa.table(
        {
            "k": [rng.choice("abc") for _ in range(500)],
            "x": [rng.choice([None, rng.randint(-(2**54), 2**54)]) for _ in range(500)],
        }
    )
    functions = ["count", "count_distinct", "sum", "mean", "min", "max", "first", "last", "top_k"]
    for more in ([], ["median", "list"]):
        specs = {name: ("x", name, *PARAMETERS.get(name, ())) for name in functions + more}
        grouping = parse_aggregates(table.schema, ["k"], specs)
        whole = in_two_stages(table, grouping, 1)
        for num_parts in range(2, 6):
            assert in_two_stages(table, grouping, num_parts, num_parts).equals(whole)


def test_agrees_with_arrow() -> None:
    rng = random.Random(6)
    table = pa.table(
        {
            "k": [rng.randint(0, 20) for _ in range(1000)],
            "x": [rng.choice([None, rng.randint(-99, 99)]) for _ in range(1000)],
        }
    )
    names = {
        "sum": "sum",
        "mean": "mean",
        "min": "min",
        "max": "max",
        "count": "count",
        "count_distinct": "count_distinct",
    }
    grouping = parse_aggregates(
        table.schema, ["k"], {f"x_{arrow}": ("x", ours) for ours, arrow in names.items()}
    )
    wanted = table.group_by("k", use_threads=False).aggregate(
        [("x", name) for name in names.values()]
    )
    # Arrow counts null as a value.
    specs = pa.compute.CountOptions(mode="only_valid")
    distinct = table.group_by("k", use_threads=False).aggregate([("x", "count_distinct", specs)])
    wanted = wanted.set_column(
        wanted.schema.get_field_index("x_count_distinct"),
        "x_count_distinct",
        distinct["x_count_distinct"],
    )
    assert in_two_stages(table, grouping, 3).equals(
        wanted.select(["k", *grouping.output_schema.names[1:]])
    )


@pytest.mark.parametrize("repeats", [True, False])
def test_variance_of_values_far_from_zero(repeats: bool) -> None:
    rng = random.Random(7)
    values = [1e9 + rng.random() for _ in range(2000)]
    keys = [0] * 2000 if repeats else list(range(1000)) * 2
    table = pa.table({"k": keys, "x": values})
    grouping = parse_aggregates(table.schema, ["k"], {"v": ("x", "var"), "s": ("x", "std")})
    result = in_two_stages(table, grouping, 5)
    for key, v, s in zip(*(result[name].to_pylist() for name in ("k", "v", "s")), strict=True):
        group = [Fraction(value) for value, owner in zip(values, keys, strict=True) if owner == key]
        exact = float(statistics.variance(group))
        assert math.isclose(v, exact, rel_tol=1e-6), key
        assert math.isclose(s, math.sqrt(exact), rel_tol=1e-6), key


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [2**63 - 1, 1]),
        (pa.int64(), [-(2**63), -1]),
        (pa.uint64(), [2**64 - 1, 1]),
        (pa.duration("ns"), [2**63 - 1, 1]),
        (pa.decimal128(38, 0), [Decimal("6e37"), Decimal("6e37")]),
        (pa.decimal128(38, 0), [Decimal("9e37"), Decimal("9e37")]),
    ],
    ids=str,
)
@pytest.mark.parametrize("more", [{}, {"all": ("x", "list")}])
@pytest.mark.parametrize("num_parts", [1, 2])
def test_sums_that_do_not_fit(
    kind: pa.DataType, values: list[Any], more: dict[str, Any], num_parts: int
) -> None:
    table = pa.table({"k": [1, 1], "x": array(kind, values)})
    grouping = parse_aggregates(table.schema, ["k"], {"total": ("x", "sum"), **more})
    with pytest.raises(InputError, match="cast the column to double"):
        in_two_stages(table, grouping, num_parts, seed=2)


def test_sums_that_fit_in_the_end() -> None:
    table = pa.table({"k": [1] * 6, "x": [2**63 - 1, 2**63 - 1, 5, -(2**63 - 1), -(2**63 - 1), -9]})
    grouping = parse_aggregates(table.schema, ["k"], {"total": ("x", "sum")})
    for num_parts in range(1, 5):
        assert in_two_stages(table, grouping, num_parts)["total"].to_pylist() == [-4]


@pytest.mark.parametrize(
    ("values", "is_quick"),
    [
        ([2**62 - 1, 2**62 - 1], True),
        ([2**62, 2**62 - 1], False),
        ([-(2**62), -(2**62)], False),
        ([-(2**63), None], False),
        ([None, None], True),
        ([3, None], True),
    ],
)
def test_sums_at_the_edge_of_64_bits(values: list[int | None], is_quick: bool) -> None:
    table = pa.table({"k": [1, 1], "x": pa.array(values, pa.int64())})
    assert ("sum_no_overflow" in Operands(table, ["k"]).sql("{sum}", "x")) == is_quick
    grouping = parse_aggregates(table.schema, ["k"], {"total": ("x", "sum"), "m": ("x", "mean")})
    known = [value for value in values if value is not None]
    total = sum(known) if known else None
    mean = None if total is None else total / len(known)
    for form in (grouping, uncombined(grouping)):
        result = form.final(form.partial(table)).to_pylist()
        assert result == [{"k": 1, "total": total, "m": mean}]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("name", ["int", "uint"])
def test_integer_keys_come_back_as_they_were(name: str, bits: int) -> None:
    kind = getattr(pa, f"{name}{bits}")()
    high = 2 ** (bits - (name == "int")) - 1
    keys = [high, None, 0, -high - 1 if name == "int" else 1, high, None]
    table = pa.table({"k": pa.array(keys, kind), "text": list("abcdef"), "x": range(6)})
    grouping = parse_aggregates(table.schema, ["k", "text"], {"n": "count"})
    assert Operands(table, ["k", "text"]).carried == {"k": "k0"}
    result = in_two_stages(table, grouping, 2)
    assert result["k"].type == kind
    assert result["k"].to_pylist() == keys
    assert result["text"].to_pylist() == list("abcdef")


def test_maps_combine_where_keys_repeat() -> None:
    table = pa.table({"k": [1, 2] * 500, "x": range(1000)})
    specs = {"n": "count", "top": ("x", "top_k", 3), "m": ("x", "mean"), "s": ("x", "sum")}
    grouping = parse_aggregates(table.schema, ["k"], specs)
    partial = grouping.partial(table)
    assert partial.num_rows == 2 + 2 * 3
    assert partial.column_names == ["k", "rows()", "largest(x, 3)", "total(x)", "count(x)"]
    assert grouping.columns == ("k", "x")
    values = parse_aggregates(table.schema, ["k"], {"c": ("x", "count_distinct")})
    assert values.partial(table.append_column("unused", table["x"])).num_rows == 1000
    assert values.partial(table.set_column(1, "x", pa.array([7] * 1000))).num_rows == 4
    # Every pair repeats, and yet there would be more pairs than rows.
    pairs = pa.table({"k": [1] * 1000, "x": [*range(500)] * 2, "y": [*range(500)] * 2})
    two = {"x": ("x", "count_distinct"), "y": ("y", "count_distinct")}
    assert parse_aggregates(pairs.schema, ["k"], two).partial(pairs).num_rows == 1000
    sketches = parse_aggregates(table.schema, [], {"c": ("x", "approx_count_distinct")})
    assert sketches.partial(pa.table({"k": range(3000), "x": range(3000)})).num_rows == 1 + 1024


def test_maps_do_not_combine_where_keys_hardly_repeat() -> None:
    table = pa.table({"k": range(1000), "x": range(1000)})
    specs = {"n": "count", "top": ("x", "top_k", 3), "v": ("x", "var"), "least": ("x", "min")}
    grouping = parse_aggregates(table.schema, ["k"], specs)
    assert grouping.partial(table).num_rows == 1000
    assert grouping.partial(table)["min(x)"].chunk(0).equals(table["x"].chunk(0))
    assert_as_duckdb(table, ["k"], {name: ("x", name) for name in functions_of(pa.int64())}, 3)


def test_rows_travel_as_they_are_where_a_function_needs_them_all() -> None:
    table = pa.table({"k": [1] * 9, "unused": range(9), "x": range(9), "y": range(9)})
    grouping = parse_aggregates(table.schema, ["k"], {"m": ("y", "median"), "s": ("x", "std")})
    assert grouping.partial(table).equals(table.select(["k", "y", "x"]))


@pytest.mark.parametrize("function", ["sum", "median"])
def test_groups_are_in_order_of_their_first_row(function: str) -> None:
    # So many that DuckDB no longer has them in this order by itself.
    num_groups, num_rows = 700_001, 1_200_000
    keys = pa.array([number * 7919 % num_groups for number in range(num_rows)])
    table = pa.table({"k": keys, "x": keys})
    grouping = parse_aggregates(table.schema, ["k"], {"s": ("x", function)})
    partial = grouping.partial(table)
    assert partial.num_rows == (num_groups if function == "sum" else num_rows)
    assert partial["k"].slice(0, num_groups).equals(table["k"].slice(0, num_groups))
    assert grouping.final(partial)["k"].equals(table["k"].slice(0, num_groups))


def test_no_rows_and_no_keys() -> None:
    table = pa.table({"k": pa.array([], pa.string()), "x": pa.array([], pa.int64())})
    specs = {
        "n": "count",
        "s": ("x", "sum"),
        "c": ("x", "count_distinct"),
        "a": ("x", "approx_count_distinct"),
    }
    assert in_two_stages(table, parse_aggregates(table.schema, ["k"], specs), 2).num_rows == 0
    for more in ({}, {"l": ("k", "list")}):
        grouping = parse_aggregates(table.schema, [], specs | more)
        wanted = {"n": 0, "s": None, "c": 0, "a": 0, **dict.fromkeys(more)}
        assert in_two_stages(table, grouping, 3).to_pylist() == [wanted]
    counting = parse_aggregates(table.schema, [], {"n": "count"})
    assert counting.columns == ()
    some = pa.table({"k": ["a"] * 10, "x": range(10)})
    assert in_two_stages(some, counting, 4).to_pylist() == [{"n": 10}]


def test_long_strings() -> None:
    long = [letter * 1_000_000 for letter in "abcab"]
    table = pa.table({"k": long, "x": long[::-1]})
    uses = {name: ("x", name) for name in OF_ALL}
    assert_as_duckdb(table, ["k"], uses, 2)
    assert_as_duckdb(table, ["k"], uses | {"list": ("x", "list")}, 2)


def test_names_that_sql_could_misread() -> None:
    names = ["number", "c0", "C0", 'a "quoted" name', "sum(x)", "total(x)", "{value}", "t", "x"]
    table = pa.table([pa.array([index % 2, 7, index % 2]) for index in range(9)], names=names)
    keys, others = names[:6], names[6:]
    specs = {
        f"{name} {function}": (name, function) for name in others for function in ("sum", "min")
    }
    result = in_two_stages(table, parse_aggregates(table.schema, keys, specs), 2).to_pylist()
    assert len(result) == 2
    assert result[1] == {**dict.fromkeys(keys, 7), **dict.fromkeys(specs, 7)}
    assert [result[0][key] for key in keys] == [0, 1, 0, 1, 0, 1]
    assert [result[0][name] for name in specs] == [0, 0, 2, 1, 0, 0]


def test_types_that_duckdb_cannot_read_can_be_chosen_and_counted() -> None:
    wide = pa.list_(pa.decimal256(60, 2))
    values = [[Decimal("1.25")], None, [], [Decimal(10**50)]]
    table = pa.table({"k": [1, 1, 2, 2], "x": pa.array(values, wide)})
    for more in ({}, {"l": ("x", "list")}):
        specs = {"f": ("x", "first"), "n": ("x", "count"), **more}
        result = in_two_stages(table, parse_aggregates(table.schema, ["k"], specs), 2)
        assert result["f"].to_pylist() == [values[0], values[2]]
        assert result["n"].to_pylist() == [1, 2]
        assert not more or result["l"].to_pylist() == [values[:2], values[2:]]
    with pytest.raises(SchemaError, match="max is asked of column 'x', which is list"):
        parse_aggregates(table.schema, ["k"], {"m": ("x", "max")})
    with pytest.raises(SchemaError, match=r"column 'x' is list.* cannot be a key"):
        parse_aggregates(table.schema, ["x"], {"n": "count"})


@pytest.mark.parametrize("values", [1, 1023, 1024, 1025, 20_000])
def test_sketches_of_distinct_values(values: int) -> None:
    table = pa.table({"k": ["a"] * (2 * values), "x": list(range(values)) * 2})
    for more in ({}, {"m": ("x", "median")}):
        grouping = parse_aggregates(
            table.schema, ["k"], {"c": ("x", "approx_count_distinct"), **more}
        )
        estimates = {in_two_stages(table, grouping, parts)["c"][0].as_py() for parts in (1, 4)}
        assert len(estimates) == 1, "depends on how the input was split"
        (estimate,) = estimates
        assert estimate == values if values < 1024 else abs(estimate / values - 1) < 3 * 0.031


@pytest.mark.parametrize("function", ["quantile", "approx_quantile"])
def test_quantiles_of_a_column_are_those_of_one_fraction(function: str) -> None:
    table = pa.table({"k": [1, 1, 2, 2, 3], "x": [1.0, 4.0, 2.0, None, None], "y": [5, 1, 9, 3, 2]})
    specs: dict[str, Any] = {
        f"{column}{index}": (column, function, fraction)
        for column in ("x", "y")
        for index, fraction in enumerate((0.9, 0.1, 0.5, 0.9))
    }
    found = in_two_stages(table, parse_aggregates(table.schema, ["k"], specs), 2)
    for name, spec in specs.items():
        alone = parse_aggregates(table.schema, ["k"], {name: spec})
        assert found[name].equals(in_two_stages(table, alone, 2)[name])


def test_quantiles_of_one_column_are_computed_once() -> None:
    table = pa.table({"k": [1], "x": [1.0]})
    grouping = parse_aggregates(
        table.schema, ["k"], {f"q{i}": ("x", "approx_quantile", i / 4) for i in (1, 2, 3)}
    )
    made = [
        item.direct(Operands(table, ("k",)), grouping.aggregates) for item in grouping.aggregates
    ]
    assert len({sql.rpartition("[")[0] for sql in made}) == 1


def test_approximate_quantiles() -> None:
    rng = random.Random(9)
    table = pa.table({"k": ["a"] * 20_000, "x": [rng.random() for _ in range(20_000)]})
    for fraction in (0.0, 0.01, 0.5, 0.99, 1.0):
        grouping = parse_aggregates(table.schema, ["k"], {"q": ("x", "approx_quantile", fraction)})
        results = {in_two_stages(table, grouping, parts)["q"][0].as_py() for parts in (1, 3)}
        assert len(results) == 1
        (result,) = results
        rank = sum(value <= result for value in table["x"].to_pylist()) / 20_000
        assert abs(rank - fraction) < 0.01, fraction


SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("x", pa.int64()),
        ("d", pa.date32()),
        ("b", pa.bool_()),
        ("l", pa.list_(pa.int8())),
    ]
)


@pytest.mark.parametrize(
    ("keys", "specs", "error", "message"),
    [
        (["k"], {}, OptionsError, "at least one"),
        (
            ["no"],
            {"n": "count"},
            SchemaError,
            "no column 'no'; the columns are 'k', 'x', 'd', 'b', 'l'",
        ),
        (["k", "k"], {"n": "count"}, OptionsError, "'k' is named twice"),
        (["k"], {"k": "count"}, OptionsError, "'k' has the name of a key"),
        (
            ["k"],
            {"n": ("no", "sum")},
            SchemaError,
            "no column 'no'; the columns are 'k', 'x', 'd', 'b', 'l'",
        ),
        (["k"], {"n": ("x", "summ")}, OptionsError, "'summ', which is none of all, any, approx_"),
        (["k"], {"n": "sum"}, OptionsError, r"'n' is 'sum'; write \"count\", \(column, function\)"),
        (["k"], {"n": ("x",)}, OptionsError, "write"),
        (["k"], {"n": ("x", "sum", 1, 2)}, OptionsError, "write"),
        (["k"], {"n": ("x", 3)}, OptionsError, "write"),
        (["k"], {"n": None}, OptionsError, "write"),
        (
            ["k"],
            {"n": ("k", "sum")},
            SchemaError,
            "sum is asked of column 'k', which is string, and it takes numbers, booleans or dur",
        ),
        (
            ["k"],
            {"n": ("d", "mean")},
            SchemaError,
            "mean is asked of column 'd', which is date32.* takes numbers or booleans;",
        ),
        (
            ["k"],
            {"n": ("b", "median")},
            SchemaError,
            "median is asked of column 'b', which is bool, and it takes numbers;",
        ),
        (
            ["l"],
            {"n": ("l", "approx_count_distinct")},
            SchemaError,
            "takes all but nested types;",
        ),
        (
            ["k"],
            {"n": ("x", "any")},
            SchemaError,
            "any is asked of column 'x', which is int64, and it takes booleans;",
        ),
        (["k"], {"n": ("x", "sum", 1)}, OptionsError, "sum takes no parameter, and was given 1"),
        (["k"], {"n": ("x", "quantile")}, OptionsError, "fraction from 0 to 1, and was given None"),
        (["k"], {"n": ("x", "quantile", 1.5)}, OptionsError, "given 1.5"),
        (["k"], {"n": ("x", "quantile", math.nan)}, OptionsError, "given nan"),
        (["k"], {"n": ("x", "quantile", True)}, OptionsError, "given True"),
        (["k"], {"n": ("x", "approx_quantile", -1)}, OptionsError, "given -1"),
        (
            ["k"],
            {"n": ("x", "top_k")},
            OptionsError,
            "integer from 1 to 999999, and was given None",
        ),
        (["k"], {"n": ("x", "top_k", 0)}, OptionsError, "given 0"),
        (["k"], {"n": ("x", "top_k", 2.0)}, OptionsError, "given 2.0"),
        (["k"], {"n": ("x", "top_k", 10**6)}, OptionsError, "given 1000000"),
    ],
)
def test_wrong_arguments(
    keys: list[str], specs: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        parse_aggregates(SCHEMA, keys, specs)


def test_approximate_quantiles_are_of_finite_values() -> None:
    """As the documentation of ``agg`` says; exact ones know NaN and infinities."""
    values = [1.0, 2.0, 3.0, math.nan, math.nan, math.inf, -math.inf, None]
    specs: dict[str, Any] = {"low": ("x", "approx_quantile", 0.0)}
    specs |= {"middle": ("x", "approx_quantile", 0.5), "high": ("x", "approx_quantile", 1.0)}
    specs |= {"exact": ("x", "quantile", 1.0), "largest": ("x", "max")}
    found = in_two_stages(*_of_x(values, specs), 2).to_pylist()
    assert [found[0][name] for name in ("low", "middle", "high")] == [1.0, 2.0, 3.0]
    assert math.isnan(found[0]["exact"])
    assert math.isnan(found[0]["largest"])
    nothing = in_two_stages(*_of_x([math.nan, math.inf, -math.inf], specs), 2).to_pylist()
    assert nothing[0]["middle"] is None


def _of_x(values: list[float | None], specs: dict[str, Any]) -> tuple[pa.Table, GroupBy]:
    table = pa.table({"x": pa.array(values, pa.float64())})
    return table, parse_aggregates(table.schema, [], specs)


def test_decimals_that_duckdb_lacks_are_tried() -> None:
    for kind in (
        pa.decimal128(9, -1),
        pa.decimal256(9, 2),
        pa.decimal256(50, 2),
        pa.decimal32(5, 1),
    ):
        assert not relational.is_common(kind)


def test_the_documentation_names_every_function() -> None:
    assert Grouped.agg.__doc__ is not None
    documented = Grouped.agg.__doc__.partition("Args:")[0]
    assert [name for name in FUNCTIONS if f"``{name}``" not in documented] == []


def test_a_decimal_of_too_many_digits_is_refused() -> None:
    schema = pa.schema([("x", pa.decimal256(50, 2))])
    with pytest.raises(
        SchemaError, match=r"sum is asked of column 'x', which is decimal256.* at most 38 digits"
    ):
        parse_aggregates(schema, [], {"s": ("x", "sum")})


DECIMALS = [
    pa.decimal128(digits, scale)
    for digits in (1, 4, 9, 18, 19, 27, 38)
    for scale in {0, 1, digits // 2, digits}
]


@pytest.mark.parametrize("combines", [True, False])
@pytest.mark.parametrize(
    "kind", [*sorted(relational._COMMON), *map(str, DECIMALS)]
)  # what is not tried before a run
def test_common_types_need_not_be_tried(kind: str, combines: bool) -> None:
    """Any of them is a key, and has every function that is defined for it."""
    types = [pa.date32(), pa.timestamp("us"), *DECIMALS, *(pa.type_for_alias(name) for name in (
        "bool", "double", "float", "string", "large_string", "string_view", "int8", "int16", "int32", "int64",
        "uint8", "uint16", "uint32", "uint64"))]  # fmt: skip
    [own] = [each for each in types if str(each) == kind]
    assert relational.is_common(own)
    schema = pa.schema([("k", own), ("x", own)])
    given = {"fraction": (0.5,), "number": (2,), "": ()}
    specs: dict[str, Any] = {
        name: ("x", name, *given[definition.parameter])
        for name, definition in FUNCTIONS.items()
        if accepts(definition.takes, own)
    }
    if combines:
        specs = {name: spec for name, spec in specs.items() if FUNCTIONS[name].parts}
    grouping = parse_aggregates(schema, ["k"], specs)
    assert grouping.combines == combines
    rows = pa.Table.from_batches([], schema)
    assert grouping.final(grouping.partial(rows)).num_rows == 0
    assert len(groups.first_rows(rows, ["k"])) == 0


@pytest.mark.parametrize(("function", "most"), [("sum", 256), ("std", 32)])
def test_few_of_many_are_computed_at_once(
    function: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 of ``describe`` in a query took 230 MB beside the memory limit."""
    sizes: list[int] = []
    final_sql = GroupBy._final_sql

    def noting(self: GroupBy, *rest: Any) -> str:
        sizes.append(len(self.aggregates))
        return final_sql(self, *rest)

    monkeypatch.setattr(GroupBy, "_final_sql", noting)
    table = pa.table({"k": [1, 2, 1], "v": [1, 2, 3]})
    specs = {f"a{number}": ("v", function) for number in range(most + 10)}
    grouping = parse_aggregates(table.schema, ("k",), specs)
    result = grouping.final(grouping.partial(table))
    assert (result.num_rows, sizes) == (2, [most, 10])
    assert all(column.equals(result["a0"]) for column in result.columns[1:])
