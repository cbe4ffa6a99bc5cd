"""Types of columns, and values of them as people have them; half of these are odd ones."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Maker = Callable[[random.Random], Any]

_TEXTS = [
    "", "a", "A", "é", "日本語", "\U0001f600", "x" * 300, " pad ", 'q"uo"te', "li\nne", "com,ma", "NULL", "\t", "007",
    "cr\rlf\r\n", "back\\slash", "'", "#no comment", "nul\0l", "1e5", "true", "2024-01-01", "|;", "a/b=c%20",
]  # fmt: skip
_FLOATS = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-300, 1.5, -2.25]
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  a zone is the column's


@dataclass(frozen=True)
class Kind:
    """A type of columns.

    Attributes:
        name: Its name in reports.
        type: The type of the finished column.
        make: Makes a value that is not null.
        pooled: The type of the pool that values are taken from; default: ``type``.
        is_key: Whether rows can be sorted, grouped and joined by it, and DuckDB agrees on the order.
        is_plain: Whether every format can hold it, text aside, and DuckDB compares it.
        is_text: Whether CSV can hold it.
        in_parquet: Whether Parquet can hold it.
    """

    name: str
    type: pa.DataType
    make: Maker
    pooled: pa.DataType | None = None
    is_key: bool = True
    is_plain: bool = field(default=False, kw_only=True)
    is_text: bool = field(default=False, kw_only=True)
    in_parquet: bool = field(default=True, kw_only=True)

    def array(self, values: list[Any]) -> pa.Array:
        """Returns values as an array that rows can be taken from."""
        return pa.array(values, self.pooled or self.type)

    def shaped(self, taken: pa.Array) -> pa.Array:
        """Returns an array of such values with the type of the column."""
        if pa.types.is_dictionary(self.type):
            return taken.dictionary_encode().cast(self.type)
        if pa.types.is_run_end_encoded(self.type):
            return pa.compute.run_end_encode(taken)
        return taken if taken.type == self.type else taken.cast(self.type)


def _whole(bits: int, *, signed: bool = True) -> Maker:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def made(rng: random.Random) -> int:
        return rng.choice(
            [low, high, 0, 1, max(low, -1), rng.randint(low, high), rng.randint(0, 20)]
        )

    return made


def _float(rng: random.Random) -> float:
    return rng.choice([*_FLOATS, float(rng.randint(-9, 9)), rng.random()])


def _quarter(rng: random.Random) -> float:
    """Returns a number whose sums are exact, in whatever order."""
    return rng.randint(-4000, 4000) / 4


def _text(rng: random.Random) -> str:
    return rng.choice([*_TEXTS, str(rng.randint(0, 50)), f"name {rng.randint(0, 10**6)}"])


def _bytes(rng: random.Random) -> bytes:
    return rng.choice([_text(rng).encode(), rng.randbytes(rng.choice([1, 9, 40]))])


def _long(rng: random.Random) -> str:
    return rng.choice(["", "y" * rng.choice([30, 300, 4000]), _text(rng)])


def _when(rng: random.Random) -> dt.datetime:
    return _EPOCH + dt.timedelta(seconds=rng.choice([0, -1, 1, rng.randint(-(10**9), 2 * 10**9)]))


def _fine(rng: random.Random) -> dt.datetime:
    return _when(rng) + dt.timedelta(microseconds=rng.choice([0, 1, 999_999]))


def _far_day(rng: random.Random) -> int:
    """Returns days from the epoch, also of years that Python has no dates for."""
    return rng.choice([0, -1, -800_000, 2_932_897, 10_000_000, rng.randint(-(10**6), 10**6)])


def _decimal(digits: int, scale: int) -> Maker:
    def made(rng: random.Random) -> decimal.Decimal:
        most = 10 ** rng.choice([1, digits - 1, digits]) - 1
        return decimal.Decimal(rng.randint(-most, most)).scaleb(-scale, decimal.Context(prec=80))

    return made


def _span(rng: random.Random) -> int:
    return rng.choice([0, -1, 1, 86_400, rng.randint(-(10**9), 10**9)])


def _interval(rng: random.Random) -> tuple[int, int, int]:
    return rng.randint(0, 9), 2, rng.randint(0, 99)


def _list(rng: random.Random) -> list[int | None]:
    return [rng.choice([None, 1, rng.randint(-99, 99)]) for _ in range(rng.choice([0, 1, 3]))]


def _struct(rng: random.Random) -> dict[str, Any]:
    return {"x": rng.choice([None, 1, 7]), "y": rng.choice([None, _text(rng)])}


def _map(rng: random.Random) -> list[tuple[str, int | None]]:
    return [(f"k{number}", rng.choice([None, number])) for number in range(rng.choice([0, 1, 3]))]


def _many(make: Maker, counts: list[int]) -> Maker:
    return lambda rng: [make(rng) for _ in range(rng.choice(counts))]


_STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])
_ALL = {"is_plain": True, "is_text": True}
_NO_PARQUET = {"in_parquet": False}

KINDS = [
    Kind("int64", pa.int64(), _whole(64), **_ALL),
    Kind("text", pa.string(), _text, **_ALL),
    Kind("float64", pa.float64(), _float, **_ALL),
    Kind("quarter", pa.float64(), _quarter, **_ALL),
    Kind("bool", pa.bool_(), lambda rng: rng.random() < 0.5, **_ALL),
    Kind("date", pa.date32(), lambda rng: _when(rng).date(), **_ALL),
    Kind("timestamp", pa.timestamp("us"), _fine, **_ALL),
    Kind("decimal", pa.decimal128(12, 2), _decimal(12, 2), **_ALL),
    Kind("int32", pa.int32(), _whole(32), **_ALL),
    Kind("wide", pa.string(), _text, is_plain=True, is_text=True),
    Kind("long", pa.string(), _long, is_text=True),
    Kind("int8", pa.int8(), _whole(8), is_text=True),
    Kind("int16", pa.int16(), _whole(16), is_text=True),
    Kind("uint8", pa.uint8(), _whole(8, signed=False), is_text=True),
    Kind("uint16", pa.uint16(), _whole(16, signed=False), is_text=True),
    Kind("uint32", pa.uint32(), _whole(32, signed=False), is_text=True),
    Kind("uint64", pa.uint64(), _whole(64, signed=False), is_text=True),
    Kind("float32", pa.float32(), lambda rng: rng.choice([*_FLOATS[:5], 0.5, float(rng.randint(-9, 9))]), is_text=True),
    Kind("large", pa.large_string(), _text, is_text=True),
    Kind("decimal38", pa.decimal128(38, 10), _decimal(38, 10)),
    Kind("decimal256", pa.decimal256(60, 5), _decimal(60, 5), is_key=False),
    Kind("far date", pa.date32(), _far_day, pa.int32()),
    Kind("zoned", pa.timestamp("us", "UTC"), _fine),
    Kind("New York", pa.timestamp("us", "America/New_York"), _fine),
    Kind("offset", pa.timestamp("ms", "+05:30"), _when),
    Kind("millis", pa.timestamp("ms"), _when),
    Kind("seconds", pa.timestamp("s"), _when),
    Kind("nanos", pa.timestamp("ns"), lambda rng: _span(rng) * 1001, pa.int64()),
    Kind("time", pa.time64("us"), lambda rng: _fine(rng).time()),
    Kind("time of seconds", pa.time32("s"), lambda rng: _when(rng).time(), in_parquet=False),
    Kind("duration", pa.duration("us"), _span, pa.int64()),
    Kind("binary", pa.binary(), _bytes),
    Kind("large binary", pa.large_binary(), _bytes),
    Kind("fixed", pa.binary(3), lambda rng: rng.randbytes(3)),
    Kind("dictionary", pa.dictionary(pa.int32(), pa.string()), _text, pa.string()),
    Kind("small dictionary", pa.dictionary(pa.int8(), pa.string()), lambda rng: str(rng.randint(0, 30)), pa.string()),
    Kind("whole dictionary", pa.dictionary(pa.int32(), pa.int64()), _whole(64), pa.int64(), False, **_NO_PARQUET),
    Kind("view", pa.string_view(), _text, pa.string(), **_NO_PARQUET),
    Kind("binary view", pa.binary_view(), _bytes, pa.binary(), **_NO_PARQUET),
    Kind("null", pa.null(), lambda rng: None, None, False),  # noqa: ARG005
    Kind("half", pa.float16(), _quarter, pa.float64(), False),
    Kind("interval", pa.month_day_nano_interval(), _interval, None, False, **_NO_PARQUET),
    Kind("list", pa.list_(pa.int64()), _list, None, False),
    Kind("large list", pa.large_list(pa.int64()), _list, None, False),
    Kind("pair", pa.list_(pa.int32(), 2), _many(_whole(8), [2]), None, False),
    Kind("list view", pa.list_view(pa.int64()), _list, None, False, **_NO_PARQUET),
    Kind("runs", pa.run_end_encoded(pa.int32(), pa.int64()), _whole(8), pa.int64(), False, **_NO_PARQUET),
    Kind("struct", _STRUCT, _struct, None, False),
    Kind("map", pa.map_(pa.string(), pa.int32()), _map, None, False),
    Kind("lists", pa.list_(pa.list_(pa.int64())), _many(_list, [0, 2]), None, False),
    Kind("texts", pa.list_(pa.string()), _many(_text, [0, 1, 4]), None, False),
    Kind("structs", pa.list_(_STRUCT), _many(_struct, [0, 1, 2]), None, False),
    Kind("deep", pa.struct([("a", pa.list_(pa.struct([("b", pa.list_(pa.string()))])))]),
         lambda rng: {"a": [{"b": _many(_text, [0, 2])(rng)} for _ in range(rng.choice([0, 1, 2]))]}, None, False),
]  # fmt: skip
