"""Groups one after another, and whether combining pays."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest

from exoshuffle.operators.sql.groups import iter_groups, lists_of, repeats


def test_groups_are_in_order_of_their_first_row_and_keep_theirs() -> None:
    rng = random.Random(1)
    rows = [(rng.choice("abcdef"), rng.choice([None, 1, 2]), number) for number in range(500)]
    table = pa.table(dict(zip("kjx", map(list, zip(*rows, strict=True)), strict=True)))
    wanted: dict[tuple[str, int | None], list[int]] = {}
    for k, j, x in rows:
        wanted.setdefault((k, j), []).append(x)
    chunked = pa.Table.from_batches(table.to_batches(max_chunksize=17))
    groups = [(keys, group) for keys, group in iter_groups(chunked, ["k", "j"])]
    assert [keys for keys, _ in groups] == list(wanted)
    for keys, group in groups:
        assert group["x"].to_pylist() == wanted[keys]
        assert group.schema == table.schema


def test_groups_keep_types() -> None:
    table = pa.table(
        {
            "k": pa.chunked_array(
                [pa.array(words).dictionary_encode() for words in (["b", "a"], ["c", "b", None])]
            ),
            "x": pa.array([[1], [2, 3], None, [], [4]], pa.list_(pa.duration("ns"))),
        }
    )
    groups = list(iter_groups(table, ["k"]))
    assert [keys for keys, _ in groups] == [("b",), ("a",), ("c",), (None,)]
    assert all(group.schema == table.schema for _, group in groups)
    assert [group["x"].cast(pa.list_(pa.int64())).to_pylist() for _, group in groups] == [
        [[1], []],
        [[2, 3]],
        [None],
        [[4]],
    ]


def test_groups_without_keys_or_rows() -> None:
    table = pa.table({"x": [1, 2, 3]})
    ((keys, group),) = iter_groups(table, [])
    assert keys == ()
    assert group.equals(table)
    assert list(iter_groups(table.slice(0, 0), [])) == []
    assert list(iter_groups(table.slice(0, 0), ["x"])) == []


def test_zero_and_nan_are_one_key_each() -> None:
    nan = float("nan")
    table = pa.table({"k": [0.0, nan, -0.0, -nan], "x": [0, 1, 2, 3]})
    groups = [group["x"].to_pylist() for _, group in iter_groups(table, ["k"])]
    assert groups == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("kind", "held", "text"),
    [
        (
            pa.timestamp("ns", "UTC"),
            dt.datetime(1970, 1, 1, microsecond=5, tzinfo=dt.timezone.utc),
            "1970-01-01 00:00:00.000005001Z",
        ),
        (
            pa.timestamp("ns"),
            dt.datetime(1970, 1, 1, microsecond=5),  # noqa: DTZ001  no zone in Arrow either
            "1970-01-01 00:00:00.000005001",
        ),
        (pa.time64("ns"), dt.time(microsecond=5), "00:00:00.000005001"),
        (pa.duration("ns"), dt.timedelta(microseconds=5), "5001"),
    ],
    ids=str,
)
def test_a_key_that_pythons_times_do_not_hold_is_text(
    kind: pa.DataType, held: object, text: str
) -> None:
    table = pa.table({"k": pa.array([5001, 5000, 5001, None], kind)})
    groups = [(*keys, rows.num_rows) for keys, rows in iter_groups(table, ["k"])]
    assert groups == [(text, 2), (held, 1), (None, 1)]


@pytest.mark.parametrize(
    ("distinct", "expected"), [(1, True), (100, True), (5_000, True), (10_000, False)]
)
def test_combining_pays_where_keys_repeat(distinct: int, expected: bool) -> None:
    numbers = [number % distinct for number in range(10_000)]
    table = pa.table({"k": numbers, "j": ["same"] * 10_000})
    assert repeats(table, ["k"]) is expected
    assert repeats(table, ["j", "k"]) is expected
    assert repeats(table, ["j"])
    assert repeats(table, [])
    assert repeats(table.slice(0, 0), ["k"])


def test_lists_of_values() -> None:
    column = pa.chunked_array([pa.array(["a", "b"]), pa.array(["c"])])
    numbers = pa.chunked_array([[[2, 0], None], [[], [1]]], pa.list_(pa.int64()))
    assert lists_of(column, numbers).to_pylist() == [["c", "a"], None, [], ["b"]]
    nothing = lists_of(column, pa.chunked_array([], pa.list_(pa.int64())))
    assert nothing.type == pa.list_(pa.string())
    assert len(nothing) == 0
