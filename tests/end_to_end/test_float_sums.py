"""Groups of floats that one query computes: sums that the order of rows does not change, and values that it refuses."""

from __future__ import annotations

import collections
import math
import random
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.operators.group_by.direct import MOST_FLOAT_SUMS
from tests.support.one_query import as_shuffled, counted_queries
from tests.support.oracle import write_files

pytestmark = pytest.mark.shares_engine

NUM_ROWS = 2_000
#: The aggregates of a column of floats.
AGGREGATES: dict[str, Any] = {
    "total": ("x", "sum"),
    "middle": ("x", "mean"),
    "least": ("x", "min"),
    "most": ("x", "max"),
}


@pytest.fixture(scope="module", autouse=True)
def _engine() -> Iterator[None]:
    xs.init(num_cpus=2, memory_limit="2GB")
    yield
    xs.shutdown()


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> collections.Counter[str]:
    return counted_queries(monkeypatch)


def rows_of(folder: Path, keys: Sequence[int], values: Sequence[Any], kind: pa.DataType) -> Dataset:
    table = pa.table({"key": pa.array(keys, pa.int32()), "x": pa.array(values, kind)})
    return xs.read_parquet(write_files(folder, table, 3, 200))


def groups_of(rows: Dataset) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.group_by("key").agg(**AGGREGATES).to_arrow().to_pylist()
    return sorted(found, key=lambda group: group["key"])


def shuffled_groups_of(rows: Dataset) -> list[dict[str, Any]]:
    groups = rows.group_by("key").agg(**AGGREGATES)
    found = as_shuffled(groups).to_arrow().to_pylist()
    return sorted(found, key=lambda group: group["key"])


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_sums_are_the_same_in_any_order_and_near_the_true_ones(
    kind: pa.DataType, tmp_path: Path, counts: collections.Counter[str]
) -> None:
    chosen = random.Random(1)
    given = [chosen.gauss(0, 1) * 10.0 ** chosen.randint(-5, 11) for _ in range(NUM_ROWS)]
    values = pa.array([x if i % 9 else None for i, x in enumerate(given)], kind).to_pylist()
    # The last group has no value.
    keys = [i % 5 if x is not None else i % 6 for i, x in enumerate(values)]
    found = groups_of(rows_of(tmp_path / "in", keys, values, kind))
    for group in found:
        members = [x for key, x in zip(keys, values, strict=True) if key == group["key"] and x]
        if not members:
            assert [group[name] for name in AGGREGATES] == [None] * 4
            continue
        near = 2.0**-51 * math.fsum(map(abs, members))
        assert group["total"] == pytest.approx(math.fsum(members), rel=0, abs=near)
        assert group["middle"] == group["total"] / len(members)
        assert (group["least"], group["most"]) == (min(members), max(members))
    order = chosen.sample(range(NUM_ROWS), NUM_ROWS)
    again = rows_of(tmp_path / "again", [keys[i] for i in order], [values[i] for i in order], kind)
    assert groups_of(again) == found
    assert counts == {"query": 2}


def test_a_single_value_comes_back_as_it_was(
    tmp_path: Path, counts: collections.Counter[str]
) -> None:
    chosen = random.Random(2)
    values = [0.0, 2.0**-30, -(2.0**-82), 2.0**43 - 2.0**-9, -(2.0**43 - 2.0**-9)]
    values += [chosen.uniform(-2, 2) * 2.0 ** chosen.randint(-29, 41) for _ in range(NUM_ROWS)]
    found = groups_of(rows_of(tmp_path / "in", range(len(values)), values, pa.float64()))
    assert [struct.pack("<d", group["total"]) for group in found] == [
        struct.pack("<d", value) for value in values
    ]
    assert counts == {"query": 1}


def test_values_that_cancel_leave_the_small_ones(tmp_path: Path) -> None:
    values = [8e12, 1e-3, -8e12, 5.0, -5.0, 0.0]
    found = groups_of(rows_of(tmp_path / "in", [0] * 6, values, pa.float64()))
    assert found[0]["total"] == pytest.approx(1e-3, rel=0, abs=2.0**-51 * 1.6e13)
    values = [0.1, 0.2, 0.3, -0.1, -0.2, -0.3]
    found = groups_of(rows_of(tmp_path / "zero", [0] * 6, values, pa.float64()))
    assert found[0]["total"] == 0.0


@pytest.mark.parametrize(
    "odd", [math.nan, math.inf, -math.inf, 2.0**43, -9e12, 1e300, 1e-30, 5e-324, 3 * 2.0**-83]
)
def test_what_has_no_room_in_integers_is_shuffled(
    odd: float, tmp_path: Path, counts: collections.Counter[str]
) -> None:
    values = [1.5] * NUM_ROWS + [odd]
    rows = rows_of(tmp_path / "in", [i % 3 for i in range(NUM_ROWS)] + [7], values, pa.float64())
    found = groups_of(rows)
    assert str(found) == str(shuffled_groups_of(rows))  # NaN equals NaN
    assert str(found[-1]["total"]) == str(odd)
    assert counts == {"failed": 1}


def test_of_two_zeros_the_first_is_the_least(
    tmp_path: Path, counts: collections.Counter[str]
) -> None:
    values = [-0.0, 0.0, 0.0, -0.0, 1.0, 2.0]
    rows = rows_of(tmp_path / "in", [0, 0, 1, 1, 2, 2], values, pa.float64())
    assert [str(group["least"]) for group in groups_of(rows)] == ["-0.0", "0.0", "1.0"]
    largest = rows.filter("key < 2").group_by("key").agg(x=("x", "top_k", 1)).sort("key")
    assert str(largest.to_arrow()["x"].to_pylist()) == "[[-0.0], [0.0]]"
    assert counts == {"failed": 2}


@pytest.mark.parametrize(("num_sums", "queries"), [(MOST_FLOAT_SUMS, 1), (MOST_FLOAT_SUMS + 1, 0)])
def test_very_many_sums_are_shuffled(
    num_sums: int, queries: int, tmp_path: Path, counts: collections.Counter[str]
) -> None:
    values = [float(i) for i in range(NUM_ROWS)]
    rows = rows_of(tmp_path / "in", [i % 2 for i in range(NUM_ROWS)], values, pa.float64())
    sums = {f"s{i}": ("x", "mean" if i % 2 else "sum") for i in range(num_sums)}
    found = rows.group_by("key").agg(**sums).to_arrow().sort_by("key").to_pylist()
    assert [group["s0"] for group in found] == [sum(values[0::2]), sum(values[1::2])]
    assert [group["s1"] for group in found] == [NUM_ROWS / 2 - 1, NUM_ROWS / 2]
    assert counts["query"] == queries
