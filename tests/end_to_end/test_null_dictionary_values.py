"""Dictionaries that have a null among their values, which pyarrow does not join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pyarrow as pa
import pytest

import exoshuffle as xs

pytestmark = pytest.mark.usefixtures("roomy_engine")


def chunk(values: list[str | None], keys: list[int | None]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(keys, pa.int8()), pa.array(values, pa.string()))


CHUNKS = [
    chunk(["a", None], [0, 1, None]),
    chunk(["b", None, "a", None], [0, 1, 2, 3]),
    chunk([], [None]),
]
VALUES = ["a", None, None, "b", None, "a", None, None]

ALL, DIFFERENT = VALUES, ["a", "b", None]
OPERATIONS: dict[str, tuple[Callable[[xs.Dataset], xs.Dataset], Iterable[str | None]]] = {
    "sort": (lambda rows: rows.sort("d", strategy="simple", num_partitions=3), ALL),
    "shuffle": (lambda rows: rows.random_shuffle(seed=1), ALL),
    "filter": (lambda rows: rows.filter("n >= 0"), ALL),
    "group by": (lambda rows: rows.group_by("d").agg(n="count"), DIFFERENT),
    "shuffled group by": (
        lambda rows: rows.group_by("d", strategy="simple", num_partitions=2).agg(n="count"),
        DIFFERENT,
    ),
    "lists": (lambda rows: rows.agg(d="list(d)").explode("d"), ALL),
    "groups": (lambda rows: rows.group_by("d").map_groups(lambda group: group), ALL),
    "distinct": (lambda rows: rows.select("d").distinct(), DIFFERENT),
    "join": (lambda rows: rows.join(xs.range(8).rename({"id": "n"}), on="n"), ALL),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_they_are_nulls_as_others_are(name: str) -> None:
    operation, expected = OPERATIONS[name]
    table = pa.table({"d": pa.chunked_array(CHUNKS), "n": range(8)})
    made = operation(xs.from_arrow(table)).to_arrow()
    assert made.schema.field("d").type == table.schema.field("d").type
    assert Counter(made["d"].to_pylist()) == Counter(expected)
