"""Arrow values made from buffers are those that pyarrow makes."""

from __future__ import annotations

import array
from typing import Any

import pyarrow as pa
import pytest

from exoshuffle.operators.arrow_values import array_of, int64, no_rows, scalar_of, truth

LARGEST = 2**63 - 1
INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
CASES: list[tuple[list[Any], pa.DataType]] = [
    *(([0, 1, 127], kind) for kind in INTEGERS),
    *(([None, 5, None], kind) for kind in INTEGERS),
    ([-(2**63), LARGEST], pa.int64()),
    ([2**64 - 1], pa.uint64()),
    ([1.5, float("inf"), None, -0.0], pa.float64()),
    ([1.5, float("-inf"), 2], pa.float32()),
    ([True] * 9 + [False, None, True], pa.bool_()),
    ([False], pa.bool_()),
    *((["", "a", None, "größer", "\0'\"", "x" * 100], kind) for kind in TEXTS),
    *(([], kind) for kind in [*INTEGERS, *TEXTS, pa.bool_(), pa.float64()]),
    *(([None], kind) for kind in [*TEXTS, pa.bool_(), pa.float64()]),
]


@pytest.mark.parametrize(("values", "kind"), CASES)
def test_arrays_are_those_of_pyarrow(values: list[Any], kind: pa.DataType) -> None:
    made = array_of(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(values, kind))
    assert made.null_count == values.count(None)
    for value in values:
        assert scalar_of(value, kind).equals(pa.scalar(value, kind))


def test_scalars() -> None:
    assert int64(-1) == pa.scalar(-1, pa.int64())
    assert not int64(None).is_valid
    assert truth(True) == pa.scalar(True)
    assert truth(False) == pa.scalar(False)
    nested = pa.list_(pa.struct([("x", pa.dictionary(pa.int8(), pa.string()))]))
    assert scalar_of(None, nested).type == nested


@pytest.mark.parametrize(
    ("value", "kind", "error"),
    [
        (2**63, pa.int64(), OverflowError),
        (-1, pa.uint64(), OverflowError),
        (300, pa.uint8(), OverflowError),
        (1.5, pa.int64(), TypeError),
        ("1", pa.int64(), TypeError),
        (1, pa.string(), TypeError),
    ],
)
def test_values_that_a_type_cannot_hold(
    value: Any, kind: pa.DataType, error: type[Exception]
) -> None:
    with pytest.raises(error):
        array_of([value], kind)


def test_tables_without_rows() -> None:
    schema = pa.schema(
        [
            pa.field("x", pa.dictionary(pa.int8(), pa.string_view()), nullable=False),
            pa.field("x", pa.list_(pa.int8()), metadata={"a": "b"}),
        ],
        metadata={"c": "d"},
    )
    assert no_rows(schema).schema.equals(schema, check_metadata=True)
    assert no_rows(schema).num_rows == 0


def test_buffers_live_as_long_as_their_array() -> None:
    made = array_of(list(range(1000)), pa.int64())
    for _ in range(100):
        array.array("q", [-1] * 1000)
    assert made.to_pylist() == list(range(1000))
