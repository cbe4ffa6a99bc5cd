"""The rows of joins, against DuckDB's pairs of row numbers."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from exoshuffle.errors import InputError, MemoryLimitError
from exoshuffle.operators.join import payload as join_payload
from exoshuffle.operators.join.join import HOWS, Join, JoinOptions, parse_join
from exoshuffle.operators.sql import relational
from tests.unit.join_oracle import oracle

NAN = float("nan")
KEYED = [how for how in HOWS if how != "cross"]
UTC = dt.timezone.utc
MOMENTS = [dt.datetime(2024, 3, 31, hour, tzinfo=UTC) for hour in (0, 1, 2)]
PLAIN_MOMENTS = [moment.replace(tzinfo=None) for moment in MOMENTS]

#: Pairs of types of a key whose meaning is the same, and values that both can hold.
KEY_TYPES: dict[str, tuple[pa.DataType, pa.DataType, list[object]]] = {
    "int64": (pa.int64(), pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
    "int widths": (pa.int8(), pa.int64(), [-128, -1, 0, 127]),
    "signs": (pa.int16(), pa.uint16(), [0, 1, 32767]),
    "uint64 and int64": (pa.uint64(), pa.int64(), [0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "floats": (pa.float64(), pa.float64(), [NAN, 0.0, -0.0, 1.5, float("inf"), -NAN]),
    "float widths": (pa.float32(), pa.float64(), [NAN, 0.0, -0.0, 1.5]),
    "int and float": (pa.int32(), pa.float64(), [0, 1, -7, 2**31 - 1]),
    "decimal scales": (
        pa.decimal128(9, 2),
        pa.decimal128(20, 6),
        [Decimal("1.50"), Decimal(0), Decimal("-2.25")],
    ),
    "decimal and int": (pa.decimal128(9, 2), pa.int64(), [Decimal(1), Decimal(0), Decimal(-3)]),
    "text": (pa.string(), pa.large_string(), ["", "a", "é", "a" * 20]),
    "view": (pa.string_view(), pa.string(), ["", "a", "é", "a" * 20]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), pa.string(), ["a", "b", "c"]),
    "dictionaries": (
        pa.dictionary(pa.int8(), pa.int64()),
        pa.dictionary(pa.int32(), pa.int32()),
        [1, 2, 3],
    ),
    "binary": (pa.binary(), pa.binary_view(), [b"", b"\0", b"\xff"]),
    "fixed binary": (pa.binary(2), pa.binary(), [b"ab", b"\0\0", b"\xff\0"]),
    "bool": (pa.bool_(), pa.bool_(), [True, False]),
    "date": (pa.date32(), pa.date64(), [dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
    "time": (pa.time32("s"), pa.time64("us"), [dt.time(0), dt.time(23, 59, 59)]),
    "timestamp units": (pa.timestamp("s"), pa.timestamp("us"), PLAIN_MOMENTS),
    "zones": (pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "UTC"), MOMENTS),
    "zones and units": (pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("us", "UTC"), MOMENTS),
    "null": (pa.null(), pa.int64(), [None]),
}


def pairs_of_duckdb(
    left: pa.Table, right: pa.Table, names: list[str], how: str
) -> list[tuple[object, object]]:
    """Row numbers that DuckDB joins, in the order that ours should have."""
    sides = []
    for table in (left, right):
        keys = table.select(names)
        plain = [
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for column in keys.columns
        ]
        sides.append(
            pa.table([*plain, pa.array(range(table.num_rows), pa.int64())], names=[*names, "row"])
        )
    l, r = sides  # noqa: E741  DuckDB finds them by these names
    condition = " AND ".join(f'l."{name}" = r."{name}"' for name in names)
    columns = "l.row, NULL" if how in ("semi", "anti") else "l.row, r.row"
    cursor = oracle().cursor()
    cursor.register("l", l)
    cursor.register("r", r)
    pairs = cursor.sql(f"SELECT {columns} FROM l {how} JOIN r ON {condition}").fetchall()  # noqa: S608  ours
    return sorted(pairs, key=lambda pair: [(row is None, row or 0) for row in pair])


def joined(join: Join, left: pa.Table, right: pa.Table) -> pa.Table:
    batches = list(join.run(left, right))
    assert all(batch.num_rows for batch in batches)
    table = pa.Table.from_batches(batches, join.output_schema)
    table.validate(full=True)
    return table


def column_of(kind: pa.DataType, values: list[object]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


def side(
    rng: random.Random, kinds: list[tuple[pa.DataType, list[object]]], number: str, num_rows: int
) -> pa.Table:
    """A table of random keys, with nulls, duplicates and chunks, and its row numbers."""
    columns = {
        f"key {i}": column_of(kind, [rng.choice([*values, None]) for _ in range(num_rows)])
        for i, (kind, values) in enumerate(kinds)
    }
    table = pa.table({**columns, number: pa.array(range(num_rows), pa.int64())})
    cut = rng.randrange(num_rows + 1)
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


def check(left: pa.Table, right: pa.Table, names: list[str], how: str) -> None:
    """Joins by these keys and compares row numbers, order and the values of the keys."""
    join = parse_join(left.schema, right.schema, JoinOptions(on=names, how=how))
    result = joined(join, left, right)
    pairs = pairs_of_duckdb(left, right, names, how)
    assert result.column("left row").to_pylist() == [pair[0] for pair in pairs]
    if how in ("semi", "anti"):
        key = values_of(left.column(names[0]))
        assert values_of(result.column(names[0])) == [key[i] for i, _ in pairs]
        return
    assert result.column("right row").to_pylist() == [pair[1] for pair in pairs]
    for name in names:
        kind = join.output_schema.field(name).type
        values = values_of(left.column(name).cast(kind))
        others = values_of(right.column(name).cast(kind)) if how in ("right", "full") else []
        assert values_of(result.column(name)) == [
            others[j] if i is None else values[i] for i, j in pairs
        ]


def values_of(column: pa.ChunkedArray) -> list[str]:
    """Values as text, which knows NaN and the sign of zero; what has a unit as its integer."""
    if pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return list(map(repr, column.to_pylist()))


@pytest.mark.parametrize("how", KEYED)
@pytest.mark.parametrize("name", KEY_TYPES)
def test_key_types(name: str, how: str) -> None:
    left_type, right_type, values = KEY_TYPES[name]
    rng = random.Random(name + how)
    left = side(rng, [(left_type, values)], "left row", 20)
    right = side(rng, [(right_type, values)], "right row", 12)
    check(left, right, ["key 0"], how)
    left, right = (
        right.rename_columns(["key 0", "left row"]),
        left.rename_columns(["key 0", "right row"]),
    )
    check(left, right, ["key 0"], how)


@pytest.mark.parametrize("how", KEYED)
@pytest.mark.parametrize("seed", range(8))
def test_several_keys(seed: int, how: str) -> None:
    rng = random.Random(seed)
    chosen = [
        KEY_TYPES[rng.choice([name for name in KEY_TYPES if name != "null"])]
        for _ in range(rng.choice([2, 3]))
    ]
    chosen = [(left, right, values[:2]) for left, right, values in chosen]
    left = side(
        rng, [(left, values) for left, _, values in chosen], "left row", rng.choice([0, 1, 40])
    )
    right = side(
        rng, [(right, values) for _, right, values in chosen], "right row", rng.choice([0, 1, 40])
    )
    check(left, right, [f"key {i}" for i in range(len(chosen))], how)


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("how", KEYED)
def test_windows(how: str, batch_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Windows begin and end within the pairs of a row, and pass over rows that have none.
    monkeypatch.setattr(join_payload, "BATCH_ROWS", batch_rows)
    rng = random.Random(5)
    left = side(rng, [(pa.int64(), [1, 2, 3, 4])], "left row", 30)
    right = pa.table({"key 0": [2, 2, 2, 4, 9, None, 2], "right row": range(7)})
    check(left, right, ["key 0"], how)


def test_cross() -> None:
    left, right = pa.table({"a": [1, 2, 3]}), pa.table({"a": ["x", "y"]})
    join = parse_join(left.schema, right.schema, JoinOptions(how="cross"))
    result = joined(join, left, right)
    assert result.to_pydict() == {"a": [1, 1, 2, 2, 3, 3], "a_right": ["x", "y"] * 3}
    assert joined(join, left.slice(0, 0), right).num_rows == 0
    assert joined(join, left, right.slice(0, 0)).num_rows == 0


def test_nulls_never_match_and_nan_does() -> None:
    left = pa.table({"k": [None, NAN, -0.0], "a": [1, 2, 3]})
    right = pa.table({"k": [0.0, NAN, None], "b": [4, 5, 6]})
    join = parse_join(left.schema, right.schema, JoinOptions(on=["k"]))
    result = joined(join, left, right)
    assert list(zip(*result.select(["a", "b"]).to_pydict().values(), strict=True)) == [
        (2, 5),
        (3, 4),
    ]
    assert repr(result.column("k").to_pylist()) == "[nan, -0.0]"


def test_integers_beyond_doubles() -> None:
    # With an integer they are themselves; with a double they are the double next to them.
    left = pa.table({"k": pa.array([2**53, 2**53 + 1], pa.int64())})
    integers = pa.table({"k": pa.array([2**53 + 1], pa.uint64())})
    doubles = pa.table({"k": pa.array([2.0**53])})
    for right, expected in ((integers, [2**53 + 1]), (doubles, [2**53, 2**53 + 1])):
        join = parse_join(left.schema, right.schema, JoinOptions(on=["k"]))
        assert joined(join, left, right).column("k").to_pylist() == expected


def test_timestamps_that_the_finer_unit_cannot_hold_match_nothing() -> None:
    # Times 10**9, the first is the second with an overflow.
    left = pa.table({"k": pa.array([7 + 2**55, 7], pa.timestamp("s"))})
    right = pa.table({"k": pa.array([7 * 10**9], pa.timestamp("ns"))})
    join = parse_join(left.schema, right.schema, JoinOptions(on=["k"], how="left"))
    assert joined(join, left, right).num_rows == 2
    join = parse_join(left.schema, right.schema, JoinOptions(on=["k"]))
    assert joined(join, left, right).column("k").cast(pa.int64()).to_pylist() == [7]
    join = parse_join(left.schema, right.schema, JoinOptions(on=["k"], how="full"))
    with pytest.raises(InputError, match="key 'k' does not fit timestamp"):
        joined(join, left, right)


PAYLOADS = {
    "list": pa.array([[1], None, [2, 3], []]),
    "large list": pa.array([["a"], None, ["b", None], []], pa.large_list(pa.string())),
    "struct": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}, {"a": 2, "b": []}]),
    "map": pa.array([[("a", 1)], None, [], [("b", 2)]], pa.map_(pa.string(), pa.int32())),
    "fixed list": pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int16(), 2)),
    "dictionary": pa.array(["x", None, "y", "x"]).dictionary_encode(),
    "wide": pa.array([1, None, 10**50, 3], pa.decimal256(60, 0)),
    "duration": pa.array([1, None, 3, 4], pa.duration("ns")),
    "interval": pa.array([(1, 2, 3), None, (0, 0, 1), (1, 0, 0)], pa.month_day_nano_interval()),
    "half": pa.array([1.5, None, 2.5, 0.0], pa.float32()).cast(pa.float16()),
    "zoned": pa.array([1, None, 3, 4], pa.timestamp("ns", "Europe/Berlin")),
    "view": pa.array(["a", None, "b" * 30, ""], pa.string_view()),
    "binary view": pa.array([b"a", None, b"b" * 30, b""], pa.binary_view()),
    "large": pa.array([b"a", None, b"b", b""], pa.large_binary()),
    "fixed": pa.array([b"ab", None, b"cd", b"ef"], pa.binary(2)),
    "nothing": pa.nulls(4),
    "bool": pa.array([True, None, False, True]),
    "time": pa.array([1, None, 3, 4], pa.time64("ns")),
}


@pytest.mark.parametrize("how", HOWS)
def test_payload_of_any_type(how: str) -> None:
    table = pa.table(PAYLOADS)
    left = pa.concat_tables([table.slice(0, 3), table.slice(3)]).append_column(
        "k", pa.array([1, 2, 2, 3])
    )
    right = pa.concat_tables([table.slice(2), table.slice(0, 2)]).append_column(
        "k", pa.array([2, 4, 2, 1])
    )
    options = JoinOptions(on=None if how == "cross" else ["k"], how=how)
    join = parse_join(left.schema, right.schema, options)
    result = joined(join, left, right)
    expected = {
        "inner": [(0, 3), (1, 0), (1, 2), (2, 0), (2, 2)],
        "left": [(0, 3), (1, 0), (1, 2), (2, 0), (2, 2), (3, None)],
        "right": [(0, 3), (1, 0), (1, 2), (2, 0), (2, 2), (None, 1)],
        "full": [(0, 3), (1, 0), (1, 2), (2, 0), (2, 2), (3, None), (None, 1)],
        "semi": [(0, None), (1, None), (2, None)],
        "anti": [(3, None)],
        "cross": list(itertools.product(range(4), range(4))),
    }[how]
    for name, column in PAYLOADS.items():
        assert result.schema.field(name).type == column.type
        values, others = values_of(left.column(name)), values_of(right.column(name))
        assert values_of(result.column(name)) == [
            "None" if i is None else values[i] for i, _ in expected
        ]
        if how not in ("semi", "anti"):
            actual = values_of(result.column(f"{name}_right"))
            assert actual == ["None" if j is None else others[j] for _, j in expected]


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_parts_of_the_left_side_with_the_whole_right_side(how: str) -> None:
    rng = random.Random(3)
    left = pa.table({"k": [rng.randrange(20) for _ in range(100)], "a": range(100)})
    right = pa.table({"k": [rng.randrange(30) for _ in range(50)], "b": range(50)})
    join = parse_join(left.schema, right.schema, JoinOptions(on=["k"], how=how))
    parts = [joined(join, left.slice(first, 30), right) for first in range(0, 100, 30)]
    assert pa.concat_tables(parts).equals(joined(join, left, right))


def test_a_hot_key_is_never_held_whole() -> None:
    num_rows = 3_000
    key = pa.repeat(pa.scalar(7, pa.int64()), num_rows)
    left = pa.table({"k": key, "a": pa.array(range(num_rows), pa.int64())})
    right = pa.table({"k": key, "b": pa.array(range(num_rows), pa.int64())})
    join = parse_join(left.schema, right.schema, JoinOptions(on=["k"]))
    before = pa.total_allocated_bytes()
    pairs = highest = total = 0
    for batch in join.run(left, right):
        pairs += batch.num_rows
        total += batch.nbytes
        highest = max(highest, pa.total_allocated_bytes() - before)
    assert pairs == num_rows**2
    assert total == 24 * pairs
    assert highest < 16_000_000


def test_long_values_make_short_batches() -> None:
    long = "x" * 1_000_000
    left = pa.table({"k": [1] * 60, "a": ["short"] * 60})
    right = pa.table({"k": [1] * 10, "b": [long] * 9 + [None]})
    join = parse_join(left.schema, right.schema, JoinOptions(on=["k"]))
    batches = [(batch.num_rows, batch.nbytes) for batch in join.run(left, right)]
    assert sum(rows for rows, _ in batches) == 600
    assert max(size for _, size in batches) <= join_payload.BATCH_BYTES
    assert len(batches) < 2 * 60 * 9 * len(long) / join_payload.BATCH_BYTES


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary_view()]
)
def test_lengths_of_text(kind: pa.DataType) -> None:
    values = ["a", None, "x" * 50, "", "ü" * 7] * 3
    texts = pa.array(values).cast(pa.binary() if kind == pa.binary_view() else kind).cast(kind)
    column = pa.chunked_array([texts.slice(2, 9), texts.slice(0, 0), texts.slice(11)], kind)
    payload = join_payload.make_payload(pa.table({"t": column, "n": range(13)}), ["t", "n"])
    assert payload.lengths is not None
    assert payload.lengths.to_pylist() == [len((value or "").encode()) for value in values[2:]]
    assert payload.row_bytes == 8 + 4


def test_rows_side_by_side_are_not_copied() -> None:
    left = pa.table(
        {"k": [0, 1, 2, 3], "s": pa.array(["a" * 20, "b", None, "d"], pa.string_view())}
    )
    payload = join_payload.make_payload(left, ["k", "s"])
    address = left["k"].chunk(0).buffers()[1].address
    some = payload.rows(pa.array([1, 2, 3], pa.int64()))
    assert some.equals(left.slice(1))
    assert some["k"].chunk(0).buffers()[1].address == address
    # The ends of these are as far apart as if they were side by side.
    for numbers in ([0, 0, 2], [1, 3, 2, 4][:3], [0, None, 2], [2, 1, 0], [3]):
        found = payload.rows(pa.array(numbers, pa.int64()))
        wanted = [left["k"][row].as_py() if row is not None else None for row in numbers]
        assert found["k"].to_pylist() == wanted
        assert found["s"].to_pylist() == [
            left["s"][row].as_py() if row is not None else None for row in numbers
        ]


def test_a_value_longer_than_a_batch_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_payload, "BATCH_BYTES", 100)
    left = pa.table({"k": [1, 2, 1]})
    right = pa.table({"k": [1, 2, 1], "b": ["x" * 200, None, "y"]})
    join = parse_join(left.schema, right.schema, JoinOptions(on=["k"]))
    batches = [batch.column("b").to_pylist() for batch in join.run(left, right)]
    assert batches == [["x" * 200], ["y", None], ["x" * 200], ["y"]]


def test_many_columns_come_in_larger_batches() -> None:
    """A batch of 10,000 columns had 52 rows, and its arrays took more than their values."""
    sides = [join_payload.make_payload(of_zeros(5_000), list(map(str, range(5_000))))] * 2
    assert join_payload.batch_rows(sides) == 16_000_000 // 80_000
    sides = [join_payload.make_payload(of_zeros(50), list(map(str, range(50))))] * 2
    assert join_payload.batch_rows(sides) == 4_000_000 // 800


def of_zeros(num_columns: int) -> pa.Table:
    return pa.table({str(number): [0] for number in range(num_columns)})


def test_more_text_than_offsets_of_32_bits_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_payload, "MAX_OFFSET", 100)
    left = pa.table(
        {
            "k": [1, 2],
            "s": pa.array(["x" * 70, "y" * 70]),
            "b": pa.array([b"x" * 70, b"y"], pa.binary()),
        }
    )
    join = parse_join(left.schema, left.schema, JoinOptions(on=["k"]))
    payload = join_payload.make_payload(left, ["s", "b"])
    assert payload.columns.schema.types == [pa.large_string(), pa.binary()]
    assert joined(join, left, left).column("s_right").to_pylist() == left.column("s").to_pylist()


@pytest.mark.parametrize("how", KEYED)
@pytest.mark.parametrize("query_number", range(6))
def test_a_join_without_memory_has_given_no_rows(
    how: str, query_number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its queries finds none: a caller that does it otherwise would have these rows twice."""
    numbers = itertools.count()
    run = relational._run

    def without_memory(sql: str, tables: dict[str, object]) -> object:
        if next(numbers) == query_number:
            raise RuntimeError("Out of Memory Error: failed to allocate data")
        return run(sql, tables)

    monkeypatch.setattr(relational, "_run", without_memory)
    table = pa.table({"k": [1, 1, 2, None]})
    batches = parse_join(table.schema, table.schema, JoinOptions(on=["k"], how=how)).run(
        table, table
    )
    given: list[pa.RecordBatch] = []
    try:
        given.extend(batches)
    except MemoryLimitError:
        assert not given
    else:
        assert next(numbers) <= query_number
