"""Tables to sort: one per distribution of the keys, and hypothesis strategies for random schemas and data."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable

import pyarrow as pa
from hypothesis import strategies as st

from exoshuffle.operators.core.keys import SortKey

NAN = float("nan")

_EDGE_FLOATS = [0.0, -0.0, NAN, float("inf"), float("-inf"), 5e-324, -5e-324, 1.5, -1.5]
_EDGE_TEXT = ["", "a", "ab", "a\0", "a\0b", "b" * 8, "b" * 9, "b" * 17, "é", "zß水🍌", "B", "\0"]


def _integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.one_of(st.integers(low, high), st.sampled_from([low, low + 1, 0, 1, high - 1, high]))


def _text() -> st.SearchStrategy[str]:
    letters = st.characters(codec="utf-8")
    return st.one_of(st.sampled_from(_EDGE_TEXT), st.text(letters, max_size=24))


def _binary() -> st.SearchStrategy[bytes]:
    edges = [b"", b"\0", b"\xff", b"\xff" * 9, b"a\0", b"a"]
    return st.one_of(st.sampled_from(edges), st.binary(max_size=24))


def _decimals(precision: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    limit = 10**precision - 1
    unscaled = st.one_of(st.integers(-limit, limit), st.sampled_from([-limit, -1, 0, 1, limit]))
    context = decimal.Context(prec=80)
    return unscaled.map(lambda digits: decimal.Decimal(digits).scaleb(-scale, context))


def _floats(width: int) -> st.SearchStrategy[float]:
    edges = _EDGE_FLOATS if width == 64 else [x for x in _EDGE_FLOATS if abs(x) != 5e-324]
    return st.one_of(st.floats(width=width), st.sampled_from(edges))


#: Types that DuckDB orders too, with values that have an edge.
KEY_TYPES: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): _integers(8, True),
    pa.int16(): _integers(16, True),
    pa.int32(): _integers(32, True),
    pa.int64(): _integers(64, True),
    pa.uint8(): _integers(8, False),
    pa.uint16(): _integers(16, False),
    pa.uint32(): _integers(32, False),
    pa.uint64(): _integers(64, False),
    pa.float32(): _floats(32),
    pa.float64(): _floats(64),
    pa.decimal128(38, 6): _decimals(38, 6),
    pa.decimal128(9, 2): _decimals(9, 2),
    pa.date32(): _integers(16, True),
    pa.time32("s"): st.integers(0, 86_399),
    pa.time64("us"): st.integers(0, 86_399_999_999),
    pa.timestamp("s"): _integers(32, True),
    pa.timestamp("us"): _integers(48, True),
    pa.timestamp("ns"): _integers(60, True),
    pa.timestamp("us", tz="Europe/Berlin"): _integers(48, True),
    pa.string(): _text(),
    pa.large_string(): _text(),
    pa.string_view(): _text(),
    pa.binary(): _binary(),
    pa.large_binary(): _binary(),
    pa.binary_view(): _binary(),
    pa.binary(5): st.binary(min_size=5, max_size=5),
    pa.dictionary(pa.int32(), pa.string()): _text(),
}

#: Types that only travel along.
PAYLOAD_TYPES: dict[pa.DataType, st.SearchStrategy[object]] = KEY_TYPES | {
    pa.null(): st.none(),
    pa.decimal256(60, 3): _decimals(60, 3),
    pa.duration("ms"): _integers(48, True),
    pa.list_(pa.int64()): st.lists(st.none() | st.integers(-5, 5), max_size=4),
    pa.large_list(pa.string()): st.lists(st.none() | _text(), max_size=3),
    pa.list_(pa.int16(), 2): st.lists(st.integers(0, 9), min_size=2, max_size=2),
    pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]): st.fixed_dictionaries(
        {"a": st.none() | st.integers(0, 9), "b": st.none() | st.lists(_text(), max_size=2)}
    ),
    pa.map_(pa.string(), pa.int32()): st.dictionaries(_text(), st.integers(0, 9), max_size=2).map(
        lambda entries: list(entries.items())
    ),
}


def column_of(kind: pa.DataType, values: list[object]) -> pa.Array:
    """An array of that type; integers stand for dates, times and timestamps."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    if (
        pa.types.is_temporal(kind)
        and not pa.types.is_interval(kind)
        and any(value is not None for value in values)
    ):
        bits = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, bits).cast(kind)
    return pa.array(values, kind)


@st.composite
def columns(
    draw: st.DrawFn, kinds: dict[pa.DataType, st.SearchStrategy[object]], num_rows: int
) -> pa.Array:
    """A column of a random type: from all of its values or from a few of them, with or without nulls."""
    kind = draw(st.sampled_from(list(kinds)))
    values = kinds[kind]
    if draw(st.booleans()):
        values = st.sampled_from(draw(st.lists(values, min_size=1, max_size=3)))
    if draw(st.booleans()):
        values = st.none() | values
    return column_of(kind, draw(st.lists(values, min_size=num_rows, max_size=num_rows)))


@st.composite
def tables_and_keys(draw: st.DrawFn, max_rows: int = 60) -> tuple[pa.Table, list[SortKey]]:
    """A table with one to three key columns and up to three others, in random order, and how to sort it."""
    num_rows = draw(st.integers(0, max_rows))
    keys = [f"key {i}" for i in range(draw(st.integers(1, 3)))]
    others = [f"other {i}" for i in range(draw(st.integers(0, 3)))]
    arrays = {name: draw(columns(KEY_TYPES, num_rows)) for name in keys}
    arrays |= {name: draw(columns(PAYLOAD_TYPES, num_rows)) for name in others}
    order = draw(st.permutations(list(arrays)))
    sort_keys = [SortKey(name, draw(st.booleans()), draw(st.booleans())) for name in keys]
    return pa.table({name: arrays[name] for name in order}), sort_keys


def _zipf(rng: random.Random, _: int) -> int:
    return int(rng.paretovariate(0.8))


#: Key of row i of a table, by the name of the distribution.
DISTRIBUTIONS: dict[str, Callable[[random.Random, int], int | None]] = {
    "uniform": lambda rng, _: rng.getrandbits(62),
    "sorted": lambda _, i: i,
    "reversed": lambda _, i: -i,
    "all equal": lambda *_: 7,
    "few distinct": lambda rng, _: rng.randrange(3),
    "zipf": _zipf,
    "one huge key": lambda rng, i: 42 if i % 10 else rng.getrandbits(62),
    "all null": lambda *_: None,
    "mostly null": lambda rng, i: None if i % 20 else rng.getrandbits(62),
}


def distributed(name: str, num_rows: int, seed: int = 1) -> pa.Table:
    """A table of an integer key of that distribution, and a string."""
    rng = random.Random(seed)
    make = DISTRIBUTIONS[name]
    return pa.table(
        {
            "key": pa.array([make(rng, i) for i in range(num_rows)], pa.int64()),
            "text": [f"{rng.getrandbits(40):x}" * (i % 4) for i in range(num_rows)],
        }
    )
