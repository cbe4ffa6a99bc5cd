"""The result of a join of two schemas: columns, types of keys, what travels, and errors."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from exoshuffle.errors import OptionsError, SchemaError
from exoshuffle.operators.join.join import JoinOptions, parse_join
from exoshuffle.operators.join.keys import common_type, hashes_alike
from exoshuffle.operators.steps.step import apply_steps, required_columns, steps_schema

LEFT = pa.schema(
    [pa.field("k", pa.int32(), nullable=False), pa.field("a", pa.string(), nullable=False)]
)
RIGHT = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), pa.field("a", pa.bool_(), nullable=False)]
)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", ["k: int32 not null", "a: string not null", "a_right: bool not null"]),
        ("left", ["k: int32 not null", "a: string not null", "a_right: bool"]),
        ("right", ["k: int64 not null", "a: string", "a_right: bool not null"]),
        ("full", ["k: int64 not null", "a: string", "a_right: bool"]),
        ("outer", ["k: int64 not null", "a: string", "a_right: bool"]),
        ("semi", ["k: int32 not null", "a: string not null"]),
        ("anti", ["k: int32 not null", "a: string not null"]),
    ],
)
def test_columns_of_shared_keys(how: str, expected: list[str]) -> None:
    join = parse_join(LEFT, RIGHT, JoinOptions(on=["k"], how=how))
    assert str(join.output_schema).splitlines() == expected


def test_columns_of_keys_with_two_names() -> None:
    join = parse_join(
        LEFT, RIGHT, JoinOptions(left_on=["k"], right_on=["k"], how="left", suffix="2")
    )
    assert join.output_schema.names == ["k", "a", "k2", "a2"]
    assert [field.nullable for field in join.output_schema] == [False, False, True, True]
    cross = parse_join(LEFT, RIGHT, JoinOptions(how="cross"))
    assert cross.output_schema.names == ["k", "a", "k_right", "a_right"]


@pytest.mark.parametrize(
    ("nullable_left", "nullable_right", "how", "expected"),
    [
        (True, False, "right", False),
        (False, True, "right", True),
        (True, False, "full", True),
        (False, True, "full", True),
        (False, True, "left", False),
    ],
)
def test_nulls_of_shared_keys(
    nullable_left: bool, nullable_right: bool, how: str, expected: bool
) -> None:
    left = pa.schema([pa.field("k", pa.int8(), nullable_left)])
    right = pa.schema([pa.field("k", pa.int8(), nullable_right)])
    join = parse_join(left, right, JoinOptions(on=["k"], how=how))
    assert join.output_schema.field("k").nullable is expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (pa.int8(), pa.int16(), pa.int16()),
        (pa.int8(), pa.uint8(), pa.int16()),
        (pa.uint32(), pa.int8(), pa.int64()),
        (pa.int64(), pa.uint8(), pa.int64()),
        (pa.uint64(), pa.int8(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32(), pa.float32()),
        (pa.float32(), pa.int8(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(10, 4), pa.decimal128(10, 4)),
        (pa.decimal128(5, 0), pa.decimal128(5, 4), pa.decimal128(9, 4)),
        (pa.decimal128(5, 2), pa.int8(), pa.decimal128(5, 2)),
        (pa.decimal128(5, 2), pa.uint64(), pa.decimal128(22, 2)),
        (pa.decimal256(38, 2), pa.decimal256(38, 2), pa.decimal128(38, 2)),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), pa.string()),
        (pa.string(), pa.string_view(), pa.large_string()),
        (pa.binary(3), pa.binary(4), pa.large_binary()),
        (pa.binary(3), pa.binary(3), pa.binary(3)),
        (pa.date32(), pa.date64(), pa.date64()),
        (pa.time32("s"), pa.time32("ms"), pa.time32("ms")),
        (pa.time32("s"), pa.time64("ns"), pa.time64("ns")),
        (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.timestamp("s", "UTC"), pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("ms", "UTC")),
        (pa.duration("s"), pa.duration("us"), pa.duration("us")),
        (pa.null(), pa.string(), pa.string()),
        (pa.null(), pa.null(), pa.int8()),
        (pa.int8(), pa.string(), None),
        (pa.bool_(), pa.int8(), None),
        (pa.decimal128(5, 2), pa.float64(), None),
        (pa.decimal128(38, 0), pa.decimal128(38, 10), None),
        (pa.decimal256(60, 3), pa.decimal256(60, 3), None),
        (pa.timestamp("s"), pa.timestamp("s", "UTC"), None),
        (pa.date32(), pa.timestamp("s"), None),
        (pa.string(), pa.binary(), None),
        (pa.list_(pa.int8()), pa.list_(pa.int8()), None),
        (pa.month_day_nano_interval(), pa.month_day_nano_interval(), None),
        (pa.null(), pa.list_(pa.int8()), None),
    ],
)
def test_common_types(left: pa.DataType, right: pa.DataType, expected: pa.DataType | None) -> None:
    assert common_type(left, right) == expected
    assert common_type(right, left) == expected


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            JoinOptions(on=["k"], how="sideways"),
            OptionsError,
            "how is 'sideways'; it must be one of inner",
        ),
        (JoinOptions(), OptionsError, "needs keys"),
        (JoinOptions(on=[]), OptionsError, "needs keys"),
        (JoinOptions(left_on=["k"]), OptionsError, "needs keys"),
        (JoinOptions(on=["k"], how="cross"), OptionsError, "a cross join has no keys"),
        (JoinOptions(on=["k"], left_on=["k"]), OptionsError, "one or the other"),
        (
            JoinOptions(left_on=["k", "a"], right_on=["k"]),
            OptionsError,
            "left_on has 2 columns and right_on 1",
        ),
        (
            JoinOptions(on=["x"]),
            SchemaError,
            "on the left side there is no column 'x'; the columns are 'k', 'a'",
        ),
        (
            JoinOptions(left_on=["k"], right_on=["y"]),
            SchemaError,
            "on the right side there is no column 'y'",
        ),
        (JoinOptions(on=["a"]), SchemaError, r"cannot join 'a' \(string\) with 'a' \(bool\)"),
        (JoinOptions(on=["k"], suffix=""), OptionsError, "two columns named 'a'"),
    ],
)
def test_errors(options: JoinOptions, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_join(LEFT, RIGHT, options)


def test_a_key_named_again_changes_nothing() -> None:
    again = JoinOptions(on=["k", "k"])
    assert parse_join(LEFT, RIGHT, again) == parse_join(LEFT, RIGHT, JoinOptions(on=["k"]))
    pairs = JoinOptions(left_on=["k", "k"], right_on=["k", "k"])
    once = JoinOptions(left_on=["k"], right_on=["k"])
    assert parse_join(LEFT, RIGHT, pairs) == parse_join(LEFT, RIGHT, once)


def test_what_travels() -> None:
    join = pickle.loads(pickle.dumps(parse_join(LEFT, RIGHT, JoinOptions(on=["k"], how="semi"))))  # noqa: S301  ours
    left, right = join.sides
    assert left.keys == ("join_key_0",)
    assert left.schema.names == ["k", "a", "join_key_0"]
    # Of the right side the key is enough, and it has the common type already.
    assert (right.keys, right.schema.names) == (("k",), ["k"])
    for side, schema in ((left, LEFT), (right, RIGHT)):
        assert side.schema == steps_schema(side.steps, schema)
        table = pa.table({"k": [1, 2], "a": pa.array([None, None], schema.field("a").type)}).cast(
            pa.schema([field.with_nullable(True) for field in schema])
        )
        travelling = apply_steps(side.steps, table.to_reader()).read_all()
        assert travelling.column(side.keys[0]).to_pylist() == [1, 2]
        assert travelling.column(side.keys[0]).type == pa.int64()
        assert set(required_columns(side.steps, schema, side.keys)) == {"k"}


def test_keys_of_one_type_travel_as_they_are() -> None:
    join = parse_join(LEFT, LEFT, JoinOptions(on=["a", "k"]))
    assert [side.steps for side in join.sides] == [(), ()]
    assert [side.keys for side in join.sides] == [("a", "k")] * 2
    assert hashes_alike(pa.dictionary(pa.int8(), pa.string()), pa.large_string())


def test_hidden_columns_have_names_of_their_own() -> None:
    left = pa.schema([("k", pa.int8()), ("join_key_0", pa.string()), ("_join_key_7", pa.string())])
    join = parse_join(left, RIGHT, JoinOptions(on=["k"]))
    assert join.sides[0].keys == ("__join_key_0",)
