"""Random tables of all types, of which a seed is one; values are the odd ones as often as not."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

Maker = Callable[[random.Random], Any]

_TEXTS = [
    "",
    "a",
    "A",
    "é",
    "日本語",
    "\U0001f600",
    "x" * 300,
    " pad ",
    'q"uo"te',
    "li\nne",
    "com,ma",
    "NULL",
    "\t",
    "007",
]
_FLOATS = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-300, 1.5, -2.25]
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  a zone is the column's


def _whole(bits: int, *, signed: bool = True) -> Maker:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def made(rng: random.Random) -> int:
        return rng.choice(
            [low, high, 0, 1, max(low, -1), rng.randint(low, high), rng.randint(0, 20)]
        )

    return made


def _float(rng: random.Random) -> float:
    return rng.choice([*_FLOATS, float(rng.randint(-9, 9)), rng.random()])


def _text(rng: random.Random) -> str:
    return rng.choice([*_TEXTS, str(rng.randint(0, 50)), f"name {rng.randint(0, 10**6)}"])


def _when(rng: random.Random) -> dt.datetime:
    return _EPOCH + dt.timedelta(seconds=rng.choice([0, -1, 1, rng.randint(-(10**9), 2 * 10**9)]))


def _decimal(rng: random.Random) -> decimal.Decimal:
    return decimal.Decimal(rng.randint(-(10**8), 10**8)).scaleb(-2)


def _list(rng: random.Random) -> list[int | None]:
    return [rng.choice([None, 1, rng.randint(-99, 99)]) for _ in range(rng.choice([0, 1, 3]))]


#: By name: the type, and what makes a value of it. The first few can be keys and travel through every format.
PLAIN: dict[str, tuple[pa.DataType, Maker]] = {
    "int64": (pa.int64(), _whole(64)),
    "text": (pa.string(), _text),
    "float64": (pa.float64(), _float),
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "date": (pa.date32(), lambda rng: _when(rng).date()),
}
KEYS: dict[str, tuple[pa.DataType, Maker]] = PLAIN | {
    "int8": (pa.int8(), _whole(8)),
    "int16": (pa.int16(), _whole(16)),
    "int32": (pa.int32(), _whole(32)),
    "uint8": (pa.uint8(), _whole(8, signed=False)),
    "uint32": (pa.uint32(), _whole(32, signed=False)),
    "uint64": (pa.uint64(), _whole(64, signed=False)),
    "float32": (
        pa.float32(),
        lambda rng: rng.choice([*_FLOATS[:5], 0.5, float(rng.randint(-9, 9))]),
    ),
    "decimal": (pa.decimal128(12, 2), _decimal),
    "timestamp": (pa.timestamp("us"), _when),
    "zoned": (pa.timestamp("us", "UTC"), _when),
    "millis": (pa.timestamp("ms"), _when),
    "binary": (pa.binary(), lambda rng: _text(rng).encode()),
    "large": (pa.large_string(), _text),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), lambda rng: str(rng.randint(0, 30))),
}
TYPES: dict[str, tuple[pa.DataType, Maker]] = KEYS | {
    "list": (pa.list_(pa.int64()), _list),
    "struct": (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        lambda rng: {"x": rng.choice([None, 1, 7]), "y": _text(rng)},
    ),
    "lists": (
        pa.list_(pa.list_(pa.int64())),
        lambda rng: [_list(rng) for _ in range(rng.choice([0, 2]))],
    ),
    "texts": (
        pa.list_(pa.string()),
        lambda rng: [_text(rng) for _ in range(rng.choice([0, 1, 4]))],
    ),
}


def draw_columns(rng: random.Random, types: dict[str, tuple[pa.DataType, Maker]]) -> dict[str, str]:
    """Columns by name, with their types by name: an ``id`` that is no null, a key of few values, and some others."""
    names = rng.choices(list(types), k=rng.choice([1, 2, 4, 8]))
    return {f"c{number}": name for number, name in enumerate(names)}


def make_table(rng: random.Random, columns: dict[str, str], num_rows: int) -> pa.Table:
    """A table with these columns, beside ``id`` and ``few``."""
    few = rng.choice([1, 3, 50])
    made: dict[str, pa.Array] = {
        "id": pa.array(range(num_rows), pa.int64()),
        "few": pa.array(
            [rng.choice([None, rng.randint(0, few)]) for _ in range(num_rows)], pa.int64()
        ),
    }
    for name, kind in columns.items():
        data_type, make = TYPES[kind]
        nulls = rng.choice([0, 0.1, 0.9])
        values = [None if rng.random() < nulls else make(rng) for _ in range(num_rows)]
        if pa.types.is_dictionary(data_type):
            made[name] = pa.array(values, pa.string()).dictionary_encode()
        else:
            made[name] = pa.array(values, data_type)
    return pa.table(made)
