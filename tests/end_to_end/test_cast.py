"""``Dataset.cast``: text is that of expressions, and integers become decimals if their values fit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import InputError

VALUES: dict[str, pa.Array] = {
    "double": pa.array([1.0, -715.5, 1e300, float("nan"), None, 1e15]),
    "float": pa.array([1.0, 0.1], pa.float32()),
    "moment": pa.array([1_577_847_600_000_000], pa.timestamp("us")),
    "zoned": pa.array([1_577_847_600_000_000], pa.timestamp("us", "Europe/Berlin")),
    "time": pa.array([dt.time(3, 4)]),
    "list": pa.array([[1.5, None], [], None]),
    "struct": pa.array([{"a": 1, "b": "x"}]),
    "coded": pa.array([2.0, 3.0, 2.0]).dictionary_encode(),
    "decimal": pa.array([Decimal("1.20")]),
    "bool": pa.array([True, None]),
}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("name", VALUES)
def test_text_is_that_of_expressions(name: str, kind: pa.DataType, engine: LocalEngine) -> None:
    del engine
    rows = xs.from_arrow(pa.table({"n": range(len(VALUES[name])), "v": VALUES[name]}))
    found = rows.cast({"v": kind}).to_arrow()
    assert found.schema.types == [pa.int64(), kind]
    assert (
        found["v"].to_pylist()
        == rows.select(v=xs.col("v").cast("text")).to_arrow()["v"].to_pylist()
    )


def test_bytes_become_the_text_that_they_are(engine: LocalEngine) -> None:
    del engine
    rows = xs.from_arrow(pa.table({"v": ["ä".encode(), None]}))
    assert rows.cast({"v": "text"}).to_pydict() == {"v": ["ä", None]}


@pytest.mark.parametrize(
    ("kind", "value", "digits"),
    [
        (pa.int64(), 7, (3, 2)),
        (pa.int64(), -(2**63), (38, 2)),
        (pa.uint64(), 2**64 - 1, (20, 0)),
        (pa.int8(), -128, (3, 0)),
        (pa.int64(), 12, (38, 36)),
    ],
)
def test_integers_become_decimals(
    kind: pa.DataType, value: int, digits: tuple[int, int], engine: LocalEngine
) -> None:
    del engine
    rows = xs.from_arrow(pa.table({"v": pa.array([value, None], kind)}))
    found: dict[str, list[Any]] = rows.cast({"v": pa.decimal128(*digits)}).to_pydict()
    assert found == {"v": [Decimal(value), None]}


def test_integers_that_decimals_cannot_hold_are_named(engine: LocalEngine) -> None:
    del engine
    rows = xs.from_arrow(pa.table({"v": [100]}))
    with pytest.raises(InputError, match=r"column 'v' is int64.*does not fit decimal128\(4, 2\)"):
        rows.cast({"v": "decimal(4,2)"}).to_arrow()
