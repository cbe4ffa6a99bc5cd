"""As-of joins of pieces, however both sides are cut, against a search of all rows for each left row."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from exoshuffle.errors import OptionsError
from exoshuffle.operators.asof.asof import DIRECTIONS, AsofJoin, AsofOptions, parse_asof
from exoshuffle.operators.asof.pieces import run_end

NAN = float("nan")
LEFT = pa.schema({"g": pa.int8(), "t": pa.int64(), "a": pa.int64()})
RIGHT = pa.schema({"g": pa.int64(), "t": pa.int32(), "b": pa.int64()})


def _order(value: Any) -> tuple[int, float]:
    """Nulls last, NaN before them."""
    if value is None:
        return (2, 0)
    return (1, 0) if math.isnan(value) else (0, value)


def _sorted(table: pa.Table) -> pa.Table:
    rows = sorted(table.to_pylist(), key=lambda row: (_order(row["g"]), _order(row["t"])))
    return pa.Table.from_pylist(rows, schema=table.schema)


def _nearest(row: dict[str, Any], others: list[dict[str, Any]], options: AsofOptions) -> Any:
    """The right row that a left row should meet; others are in order."""

    def is_candidate(other: dict[str, Any]) -> bool:
        if None in (row["t"], other["t"]):
            return False
        if options.by and (row["g"] is None or row["g"] != other["g"]):
            return False
        if options.tolerance is not None and abs(row["t"] - other["t"]) > options.tolerance:
            return False
        if options.direction == "backward":
            return other["t"] <= row["t"]
        return options.direction == "nearest" or other["t"] >= row["t"]

    found = [other for other in others if is_candidate(other)]
    if not found:
        return None
    if options.direction == "backward":
        return found[-1]["b"]
    if options.direction == "forward":
        return found[0]["b"]
    least = min(abs(row["t"] - other["t"]) for other in found)
    return [other["b"] for other in found if abs(row["t"] - other["t"]) == least][-1]


def _cut(table: pa.Table, rng: random.Random) -> list[pa.Table]:
    places = sorted(rng.randrange(table.num_rows + 1) for _ in range(rng.randrange(6)))
    places = [0, *places, table.num_rows]
    pieces = [table.slice(i, j - i) for i, j in itertools.pairwise(places)]
    return [piece for piece in pieces if piece.num_rows]


def _joined(join: AsofJoin, lefts: list[pa.Table], rights: list[pa.Table]) -> pa.Table:
    """As the job does it."""
    looks = [
        [join.look(side, piece) for piece in pieces] for side, pieces in enumerate((lefts, rights))
    ]
    batches = [
        batch
        for meeting in join.meetings(*looks)
        for batch in join.run(
            lefts[meeting.left],
            None if meeting.right is None else rights[meeting.right],
            None if meeting.edge is None else join.edge_of(rights[meeting.edge]),
            keeps_beyond=meeting.keeps_beyond,
        )
    ]
    return pa.Table.from_batches(batches, join.output_schema)


def _table(rng: random.Random, schema: pa.Schema, size: int, span: int, groups: int) -> pa.Table:
    def value(most: int) -> int | None:
        return None if rng.random() < 0.05 else rng.randrange(most)

    rows = [
        {"g": value(groups), "t": value(span), schema.names[2]: number} for number in range(size)
    ]
    return _sorted(pa.Table.from_pylist(rows, schema=schema))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("seed", range(60))
def test_pieces_make_what_whole_sides_would(direction: str, seed: int) -> None:
    rng = random.Random(seed)
    span, groups = rng.choice([3, 20, 1000]), rng.choice([1, 3, 20])
    left = _table(rng, LEFT, rng.choice([0, 1, 30]), span, groups)
    right = _table(rng, RIGHT, rng.choice([0, 1, 8, 40]), span, groups)
    options = AsofOptions(
        on="t", by=["g"], direction=direction, tolerance=rng.choice([None, 0, 2, 50])
    )
    join = parse_asof(left.schema, right.schema, options)
    found = _joined(join, _cut(left, rng), _cut(right, rng))
    expected = [_nearest(row, right.to_pylist(), options) for row in left.to_pylist()]
    assert found["a"].to_pylist() == left["a"].to_pylist()
    assert found["b"].to_pylist() == expected


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("seed", range(60))
def test_pieces_of_one_key(direction: str, seed: int) -> None:
    rng = random.Random(seed)
    span = rng.choice([2, 20, 1000])
    left = _table(rng, LEFT, rng.choice([1, 30]), span, 1).sort_by("t")
    right = _table(rng, RIGHT, rng.choice([1, 8, 40]), span, 1).sort_by("t")
    options = AsofOptions(on="t", direction=direction, tolerance=rng.choice([None, 1]))
    join = parse_asof(left.schema, right.schema, options)
    found = _joined(join, _cut(left, rng), _cut(right, rng))
    expected = [_nearest(row, right.to_pylist(), options) for row in left.to_pylist()]
    assert found["a"].to_pylist() == left["a"].to_pylist()
    assert found["b"].to_pylist() == expected


MOMENT = dt.datetime(2024, 3, 31, 1)  # noqa: DTZ001  no zone is meant
#: Types of both sides, a left value, right values in order, and a tolerance that only the nearest right value meets.
TYPES: dict[str, tuple[pa.DataType, pa.DataType, Any, list[Any], Any]] = {
    "extremes": (pa.int64(), pa.int64(), 2**63 - 1, [-(2**63), 2**63 - 9], 8),
    "uint64": (pa.uint64(), pa.uint64(), 2**64 - 1, [0, 2**64 - 9], 8),
    "floats": (pa.float32(), pa.float64(), 1.5, [-1.0, 1.25], 0.25),
    "ints and floats": (pa.int8(), pa.float64(), 3, [0.5, 2.5], 0.5),
    "decimals": (
        pa.decimal128(9, 2),
        pa.decimal128(38, 6),
        Decimal("1.50"),
        [Decimal(-1), Decimal("1.25")],
        Decimal("0.25"),
    ),
    "dates": (
        pa.date32(),
        pa.date64(),
        dt.date(2024, 3, 1),
        [dt.date(2024, 1, 1), dt.date(2024, 2, 29)],
        "1d",
    ),
    "times": (pa.time32("s"), pa.time64("us"), dt.time(9), [dt.time(1), dt.time(8, 59)], "1m"),
    "timestamps": (
        pa.timestamp("s"),
        pa.timestamp("ns"),
        MOMENT,
        [MOMENT - dt.timedelta(days=9), MOMENT - dt.timedelta(milliseconds=1)],
        "1ms",
    ),
    "durations": (
        pa.duration("s"),
        pa.duration("ms"),
        dt.timedelta(seconds=9),
        [dt.timedelta(0), dt.timedelta(seconds=8)],
        dt.timedelta(seconds=1),
    ),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("direction", ["backward", "nearest"])
def test_types_of_the_key(name: str, direction: str) -> None:
    left_type, right_type, value, values, tolerance = TYPES[name]
    left = pa.table({"t": pa.array([value], left_type)})
    for candidates, expected in ((values, values[-1]), (values[:1], None)):
        right = pa.table({"u": pa.array(candidates, right_type)})
        options = AsofOptions(left_on="t", right_on="u", direction=direction, tolerance=tolerance)
        join = parse_asof(left.schema, right.schema, options)
        assert _joined(join, [left], [right])["u"].to_pylist() == [expected]


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view(), pa.binary(), pa.bool_()])
def test_keys_without_distances_have_an_order(kind: pa.DataType) -> None:
    values = [False, True] if kind == pa.bool_() else ["a", "b"]
    left = pa.table({"t": pa.array([None, values[1]]).cast(kind)}).slice(1)
    right = pa.table({"t": pa.array(values[:1]).cast(kind), "b": [7]})
    join = parse_asof(left.schema, right.schema, AsofOptions(on="t"))
    assert _joined(join, [left], [right])["b"].to_pylist() == [7]
    for options in (AsofOptions(on="t", tolerance=1), AsofOptions(on="t", direction="nearest")):
        with pytest.raises(OptionsError, match="which has no distances; leave out"):
            parse_asof(left.schema, right.schema, options)


def test_nan_is_greater_than_all_numbers() -> None:
    left = pa.table({"t": [1.0, NAN]})
    right = pa.table({"t": [0.0, NAN], "b": [1, 2]})
    for direction, expected in (("backward", [1, 2]), ("forward", [2, 2]), ("nearest", [1, 2])):
        join = parse_asof(left.schema, right.schema, AsofOptions(on="t", direction=direction))
        assert _joined(join, [left], [right])["b"].to_pylist() == expected
    join = parse_asof(left.schema, right.schema, AsofOptions(on="t", tolerance=0.5))
    assert _joined(join, [left], [right])["b"].to_pylist() == [None, None]


def test_nan_and_dictionaries_are_groups() -> None:
    left = pa.table({"g": [1.0, NAN], "d": pa.array(["x", "y"]).dictionary_encode(), "t": [1, 1]})
    right = pa.table({"g": [1.0, NAN], "d": ["x", "y"], "t": [0, 0], "b": [1, 2]})
    join = parse_asof(left.schema, right.schema, AsofOptions(on="t", by=["g", "d"]))
    assert _joined(join, [left], [right])["b"].to_pylist() == [1, 2]


def test_equally_near_rows_in_several_pieces() -> None:
    """The last one counts, two pieces behind the one where they begin."""
    rights = [pa.table({"t": keys, "b": keys}) for keys in ([0], [5, 5], [5], [5, 9])]
    rights = [
        piece.set_column(1, "b", pa.array([10 * number + row for row in range(piece.num_rows)]))
        for number, piece in enumerate(rights)
    ]
    left = pa.table({"t": [4]})
    options = AsofOptions(on="t", direction="nearest")
    join = parse_asof(left.schema, rights[0].schema, options)
    assert _joined(join, [left], rights)["b"].to_pylist() == [30]


def test_wide_rows_come_in_several_batches() -> None:
    left = pa.table({"t": range(100), "s": ["x" * 400_000] * 100})
    right = pa.table({"t": range(100), "u": ["y" * 400_000] * 100})
    join = parse_asof(left.schema, right.schema, AsofOptions(on="t"))
    batches = list(join.run(left, right, None, keeps_beyond=True))
    assert max(batch.nbytes for batch in batches) < 5_000_000
    assert sum(batch.num_rows for batch in batches) == 100


def test_the_end_of_rows_with_the_first_key() -> None:
    columns = [[1], [1, 1, 2], [None, None], [NAN, NAN, None]]
    assert [run_end(pa.table({"k": pa.array(c, pa.float64())})) for c in columns] == [0, 1, 1, 1]


def test_a_piece_tells_whether_it_is_in_order() -> None:
    schema = pa.schema({"t": pa.int64()})
    join = parse_asof(schema, schema.append(pa.field("b", pa.int64())), AsofOptions(on="t"))
    looks = [join.look(0, pa.table({"t": values})) for values in ([1, 1, 3], [3, 2], [3, 4], [2])]
    assert [look.is_sorted for look in looks] == [True, False, True, True]
    assert join.follow([looks[0], looks[2]])
    assert not join.follow([looks[0], looks[3]])
    assert pc.all(pc.equal(looks[0].ends.column(0), pa.chunked_array([[1, 3]]))).as_py()
