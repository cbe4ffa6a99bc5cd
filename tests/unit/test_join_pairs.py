"""Rows that Arrow matches are those that DuckDB matches, in the same order."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from exoshuffle.operators import exact_keys
from exoshuffle.operators.join import pairs
from exoshuffle.operators.join.pairs import match, matched, pair_windows, unmatched

KINDS = [pa.int64(), pa.uint8(), pa.string(), pa.large_string(), pa.bool_(), pa.date32()]
KINDS += [pa.timestamp("us", "UTC")]


def _keys(rng: random.Random, kind: pa.DataType, num_rows: int, num_keys: int) -> pa.Table:
    """Returns keys in two chunks, some of them null."""
    drawn = [rng.choice([None, *range(num_keys)]) for _ in range(num_rows)]
    if kind == pa.bool_():
        drawn = [None if key is None else key % 2 == 0 for key in drawn]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        drawn = [None if key is None else f"key {key}" for key in drawn]
    half = num_rows // 2
    return pa.table({"k": pa.chunked_array([drawn[:half], drawn[half:]], kind)})


def _found(left: pa.Table, right: pa.Table) -> list[object]:
    of_left = [
        [(one.left.to_pylist(), one.right.to_pylist()) for one in pair_windows(found, least, 7)]
        for found in (match(left, right),)
        for least in (0, 1)
    ]
    return [of_left, matched(left, right).to_pylist(), unmatched(left, right).to_pylist()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("num_left", "num_right"), [(0, 0), (0, 9), (9, 0), (1, 1), (60, 40)])
@pytest.mark.parametrize("num_keys", [1, 5, 60])
def test_pairs_are_those_of_duckdb(
    kind: pa.DataType,
    num_left: int,
    num_right: int,
    num_keys: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(f"{kind} {num_left} {num_keys}")
    left = _keys(rng, kind, num_left, num_keys)
    right = _keys(rng, kind, num_right, num_keys)
    with monkeypatch.context() as patch:
        patch.setattr(exact_keys, "ARROW_ROWS", -1)
        expected = _found(left, right)

    def refused(sql: str, **_: object) -> pa.Table:
        raise AssertionError(sql)

    monkeypatch.setattr(pairs, "computed", refused)
    assert _found(left, right) == expected


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_few_right_rows_are_matched_by_arrow_with_any_number_of_left_ones(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(str(kind))
    left, right = _keys(rng, kind, 90, 30), _keys(rng, kind, 20, 30)
    asked: list[str] = []
    computed = pairs.computed

    def counted(sql: str, **tables: object) -> pa.Table:
        asked.append(sql)
        return computed(sql, **tables)

    monkeypatch.setattr(pairs, "computed", counted)
    monkeypatch.setattr(exact_keys, "ARROW_ROWS", 19)
    expected = _found(left, right)
    assert asked
    asked.clear()
    monkeypatch.setattr(exact_keys, "ARROW_ROWS", 20)
    assert _found(left, right) == expected
    assert not asked


def test_right_keys_that_are_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = pa.table({"k": ["c", "a", "c", "x"]}), pa.table({"k": ["a", "b", "c"]})
    found = match(left, right)
    (window,) = pair_windows(found, 1, 100)
    assert (window.left.to_pylist(), window.right.to_pylist()) == ([0, 1, 2, 3], [2, 0, 2, None])
    monkeypatch.setattr(exact_keys, "ARROW_ROWS", -1)
    (window,) = pair_windows(match(left, right), 1, 100)
    assert (window.left.to_pylist(), window.right.to_pylist()) == ([0, 1, 2, 3], [2, 0, 2, None])


@pytest.mark.parametrize(
    "columns",
    [
        {"k": [1.5, float("nan"), -0.0]},
        {"k": [1, 2, 3], "j": ["a", "b", "c"]},
        {"k": ["a" * 4_000_000, "b" * 4_000_000, "c"]},  # few, but long
    ],
)
def test_duckdb_matches_what_could_differ_or_is_long(
    columns: dict[str, list[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    computed = pairs.computed

    def counted(sql: str, **tables: object) -> pa.Table:
        asked.append(sql)
        return computed(sql, **tables)

    monkeypatch.setattr(pairs, "computed", counted)
    keys = pa.table(columns)
    assert matched(keys, keys).to_pylist() == [0, 1, 2]
    assert asked


@pytest.mark.parametrize("num_left", [3, 40, 500])
@pytest.mark.parametrize("repeats", ["never", "at the end", "often"])
@pytest.mark.parametrize("names", [("k",), ("k", "b")])
def test_pairs_of_keys_that_may_repeat(num_left: int, repeats: str, names: tuple[str, ...]) -> None:
    """Keys that do not repeat are joined at once, also where the many right rows were filtered before."""
    rng = random.Random(f"{num_left} {repeats}")
    keys: list[float | None] = [float(key) for key in range(1, 120)]
    keys += {"never": [], "at the end": [7.0, 7.0, None], "often": keys}[repeats]
    keys += [float("nan"), None]
    others = [rng.choice([*keys, 0.5]) for _ in range(num_left)]

    def table(values: list[float | None]) -> pa.Table:
        flags = [value != 3.0 for value in values]
        return pa.table({"k": pa.array(values, pa.float64()), "b": flags}).select(names)

    places: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        places.setdefault(str(key), []).append(row)
    expected = [
        (row, place)
        for row, key in enumerate(others)
        for place in ([] if key is None else places.get(str(key), []))
    ]
    found = list(pair_windows(match(table(others), table(keys)), 0, 50))
    pairs_found = [
        pair
        for one in found
        for pair in zip(one.left.to_pylist(), one.right.to_pylist(), strict=True)
    ]
    assert pairs_found == expected
