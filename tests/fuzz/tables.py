"""Random tables of all types, one for each seed; half of the values are odd ones.

A column takes its values from a pool of some hundreds, by random numbers, so that tables of many rows are made fast.
"""

from __future__ import annotations

import random
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from tests.fuzz import values
from tests.fuzz.values import Kind

#: A power of two: numbers are brought into its range by their last bits.
POOL = 256


@cache
def kinds() -> dict[str, Kind]:
    """Returns all types of columns by name."""
    return {kind.name: kind for kind in values.KINDS}


def draw_columns(rng: random.Random, names: list[str], num_rows: int) -> dict[str, str]:
    """Draws columns by name, with their types by name, beside ``id`` and ``few``."""
    if num_rows > 20_000:
        plain = [name for name in names if kinds()[name].is_plain]
        return {f"c{number}": rng.choice(plain) for number in range(rng.choice([1, 2, 3]))}
    count = rng.choice([0, 1, 1, 2, 2, 4, 4, 8])
    if num_rows <= 300 and rng.random() < 0.02:
        count = rng.choice([40, 150, 500])
    return {f"c{number}": rng.choice(names) for number in range(count)}


def make_table(rng: random.Random, columns: dict[str, str], num_rows: int) -> pa.Table:
    """Makes a table with these columns, beside ``id`` and a key of ``few`` values, half of which are null."""
    few = rng.choice([1, 3, 50])
    pool = [rng.choice([None, rng.randint(0, few)]) for _ in range(POOL)]
    made: dict[str, pa.Array] = {
        "id": pa.array(range(num_rows), pa.int64()),
        "few": _drawn(rng, pa.array(pool, pa.int64()), num_rows),
    }
    for name, kind in columns.items():
        made[name] = _column(rng, kinds()[kind], num_rows)
    return pa.table(made)


def _column(rng: random.Random, kind: Kind, num_rows: int) -> pa.Array:
    nulls = rng.choice([0, 0.1, 0.9])
    if kind.name in ("int64", "wide") and rng.random() < 0.5:
        return _all_different(rng, kind, num_rows)
    pool = [
        None if rng.random() < nulls else kind.make(rng) for _ in range(min(POOL, 2 * num_rows + 1))
    ]
    pool += pool[:1] * (POOL - len(pool))
    return kind.shaped(_drawn(rng, kind.array(pool), num_rows))


def _drawn(rng: random.Random, pool: pa.Array, num_rows: int) -> pa.Array:
    """Draws values of a pool, all as likely or the first ones far more often."""
    numbers = _numbers(rng, pa.uint32(), num_rows)
    if rng.random() < 0.3:
        numbers = pc.bit_wise_and(numbers, _numbers(rng, pa.uint32(), num_rows))
    return pool.take(pc.bit_wise_and(numbers, pa.scalar(POOL - 1, pa.uint32())))


def _all_different(rng: random.Random, kind: Kind, num_rows: int) -> pa.Array:
    numbers = _numbers(rng, pa.int64(), num_rows)
    return numbers if kind.name == "int64" else kind.shaped(numbers.cast(pa.string()))


def _numbers(rng: random.Random, kind: pa.DataType, count: int) -> pa.Array:
    content = pa.py_buffer(rng.randbytes(kind.byte_width * count))
    return pa.Array.from_buffers(kind, count, [None, content])
