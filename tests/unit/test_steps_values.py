"""Python values that users' functions return: exactly what they returned, or an error."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exoshuffle.errors import SchemaError
from exoshuffle.operators.steps.functions import MapBatches

DAY = dt.date(2020, 1, 2)
ZONED = dt.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=dt.timezone.utc)
MOMENT = ZONED.replace(tzinfo=None)
MIDNIGHT = dt.datetime.combine(DAY, dt.time())
TEXTS = pa.dictionary(pa.int32(), pa.string())
POINT = pa.struct([("x", pa.int64()), ("y", pa.float32())])
SIZES = pa.map_(pa.string(), pa.int64())


def returned(values: Any, kind: pa.DataType) -> pa.ChunkedArray:
    """The values of a column of this type, after a function returned them."""
    step = MapBatches(lambda _: {"v": values}, pa.schema([("v", kind)]))
    return step.apply(pa.table({"k": [1]}).to_reader()).read_all()["v"]


@pytest.mark.parametrize(
    ("values", "kind", "reason"),
    [
        ([1.9], pa.int64(), "truncated"),
        ([1, 2.5], pa.int64(), "truncated"),
        ([2**62, 2.5], pa.int64(), "2.5 would become 2"),
        ([2**63, 0.5], pa.uint64(), "0.5 would become 0"),
        ([decimal.Decimal("1.5")], pa.int64(), "data loss"),
        ([1e300], pa.float32(), "1e[+]300 is out of its range"),
        ([1.0, math.inf, -1e300], pa.float32(), "-1e[+]300 is out of its range"),
        ([1e6], pa.float16(), "1000000.0 is out of its range"),
        ([MOMENT], pa.date32(), "time of day"),
        ([MOMENT], pa.date64(), "time of day"),
        ([DAY, MOMENT], pa.date32(), "time of day"),
        ([dt.time(5, 0, 0, 999_999)], pa.time32("s"), "lose data"),
        ([MOMENT], pa.timestamp("s"), "lose data"),
        ([ZONED], pa.timestamp("s", "UTC"), "lose data"),
        ([dt.timedelta(microseconds=5)], pa.duration("ms"), "lose data"),
        ([[1.9]], pa.list_(pa.int64()), "truncated"),
        ([None, [[0.5]]], pa.large_list(pa.list_(pa.int8())), "truncated"),
        ([[1, 1.5]], pa.list_(pa.int64(), 2), "truncated"),
        ([{"x": 1.9}], POINT, "truncated"),
        ([{"y": 1e300}], POINT, "out of its range"),
        ([{"x": 1, "z": 2}], POINT, "no field 'z'"),
        ([{"a": 1.9}], SIZES, "truncated"),
        ([[("a", 1.9)]], SIZES, "truncated"),
        ([1.9], pa.dictionary(pa.int8(), pa.int64()), "truncated"),
        ([decimal.Decimal("1.25")], pa.decimal128(5, 1), "data loss"),
        ([2**70], pa.int64(), "too large"),
        ([-1], pa.uint8(), "negative"),
        ([300], pa.int8(), "too large"),
        (["12"], pa.int64(), "'12'"),
        ([1], pa.string(), "int"),
        ([5], pa.bool_(), "5"),
        (["\ud800"], pa.string(), "surrogates"),
        (7, pa.int64(), "int"),
    ],
    ids=repr,
)
def test_what_a_type_cannot_hold_is_refused(values: Any, kind: pa.DataType, reason: str) -> None:
    with pytest.raises(
        SchemaError, match=rf"map_batches: batch 1 came back with values in 'v' .*{reason}"
    ):
        returned(values, kind)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, 2], pa.float64()),
        ([1, 2], pa.float32()),
        ([2.0, 3], pa.int64()),
        ([2**53 + 1, 2.0], pa.int64()),
        ([2**63], pa.uint64()),
        ([math.inf, -math.inf, None], pa.float32()),
        (["a", "b", None], TEXTS),
        (["a"], pa.large_string()),
        (["a"], pa.string_view()),
        ([b"ab"], pa.binary(2)),
        ([DAY, None], pa.date32()),
        ([DAY], pa.date64()),
        ([MOMENT], pa.timestamp("us")),
        ([MOMENT], pa.timestamp("ns")),
        ([MOMENT.replace(microsecond=0)], pa.timestamp("s")),
        ([ZONED], pa.timestamp("us", "UTC")),
        ([dt.time(5)], pa.time32("s")),
        ([dt.timedelta(seconds=5)], pa.duration("s")),
        ([decimal.Decimal("1.5"), 2], pa.decimal128(5, 1)),
        ([decimal.Decimal("1.5")], pa.decimal256(60, 1)),
        ([[1, None], None, []], pa.list_(pa.int8())),
        ([[1, 2]], pa.list_(pa.int16(), 2)),
        ([{"x": 1, "y": 0.5}, None, {"x": None, "y": None}], POINT),
        ([[("a", 1)], None, []], SIZES),
        ([], pa.int64()),
        ([None, None], pa.date32()),
        ([None], pa.null()),
        ((n for n in (1, 2)), pa.int8()),
    ],
    ids=repr,
)
def test_what_a_type_can_hold_comes_back(values: Any, kind: pa.DataType) -> None:
    values = list(values)
    column = returned(iter(values), kind)
    assert column.type == kind
    assert column.to_pylist() == values


def test_values_that_are_said_in_another_way() -> None:
    """As pyarrow reads them: a moment at midnight as its day, integers as moments, missing fields as null."""
    assert returned([MIDNIGHT], pa.date32()).to_pylist() == [DAY]
    assert returned([1_577_923_200], pa.timestamp("s")).to_pylist() == [MIDNIGHT]
    assert returned([3600], pa.time32("s")).to_pylist() == [dt.time(1)]
    assert returned([{"x": 1}], POINT).to_pylist() == [{"x": 1, "y": None}]
    assert returned([{"a": 1}], SIZES).to_pylist() == [[("a", 1)]]
    assert returned([0.1], pa.float32()).to_pylist() == [pytest.approx(0.1)]
    assert math.isnan(returned([math.nan], pa.float32()).to_pylist()[0])
    lists, rows = pa.array([[1], [2, 3]]), pa.array([{"x": 1, "y": 0.5}], POINT)
    assert returned(list(lists), lists.type).to_pylist() == [[1], [2, 3]]
    assert returned(list(rows), POINT).to_pylist() == [{"x": 1, "y": 0.5}]


NUMBERS = st.one_of(
    st.none(),
    st.integers(-(2**64), 2**65),
    st.floats(allow_nan=False),
    st.decimals(-1000, 1000, places=2),
    st.sampled_from([0.0, 1.0, 2.0**53, 2**53 + 1]),
)
EXACT = [pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.decimal128(10, 1)]


@settings(max_examples=150)
@given(values=st.lists(NUMBERS, max_size=5), kind=st.sampled_from(EXACT))
def test_numbers_come_back_as_they_were_or_not_at_all(values: list[Any], kind: pa.DataType) -> None:
    try:
        made = returned(values, kind)
    except SchemaError:
        return
    assert made.to_pylist() == values


@settings(max_examples=150)
@given(
    values=st.lists(st.none() | st.dates() | st.datetimes(), max_size=4),
    kind=st.sampled_from([pa.date32(), pa.timestamp("s"), pa.timestamp("us")]),
)
def test_moments_come_back_as_they_were_or_not_at_all(values: list[Any], kind: pa.DataType) -> None:
    try:
        made = returned(values, kind)
    except SchemaError:
        return
    for value, held in zip(values, made.to_pylist(), strict=True):
        if isinstance(value, dt.datetime) and pa.types.is_date(kind):
            assert value == dt.datetime.combine(held, dt.time())
        else:
            assert value == held
