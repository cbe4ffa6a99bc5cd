"""Keys of types that DuckDB does not have, against pyarrow's sort_indices."""

from __future__ import annotations

import decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import exoshuffle as xs
from exoshuffle.errors import InputError
from tests.support.oracle import assert_same, with_row_numbers
from tests.support.tables import column_of

pytestmark = pytest.mark.usefixtures("engine")

LIMIT = 10**60 - 1
TYPES: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.float16(): st.floats(width=16, allow_nan=False).filter(lambda x: x != 0),
    pa.decimal256(60, 3): st.integers(-LIMIT, LIMIT).map(
        lambda digits: decimal.Decimal(digits).scaleb(-3, decimal.Context(prec=80))
    ),
    pa.duration("us"): st.integers(-(2**62), 2**62),
    pa.date64(): st.integers(-(10**5), 10**5).map(lambda days: days * 86_400_000),
    pa.time32("ms"): st.integers(0, 86_399_999),
    pa.time64("ns"): st.integers(0, 86_399_999_999_999),
}


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("nulls", ["first", "last"])
@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_rare_types_are_keys(
    kind: pa.DataType, order: str, nulls: str, tmp_path: Path, data: st.DataObject
) -> None:
    values = data.draw(st.lists(st.none() | TYPES[kind], min_size=2, max_size=50))
    table = with_row_numbers(pa.table({"key": column_of(kind, values)}))
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=9)
    keys = [
        ("key", order, f"at_{'start' if nulls == 'first' else 'end'}"),
        ("row_number", "ascending", "at_end"),
    ]
    comparable = table
    if kind == pa.float16():
        comparable = table.set_column(0, "key", table["key"].cast(pa.float32()))
    wanted = table.take(pc.sort_indices(comparable, sort_keys=keys))
    dataset = xs.read_ipc(tmp_path / "in.arrow").sort(
        "key", descending=order == "descending", nulls=nulls, num_partitions=3
    )
    assert_same(dataset.to_arrow(), wanted)


@pytest.mark.parametrize("strategy", ["simple", "push"])
def test_maps_whose_fields_files_name_differently(strategy: str, tmp_path: Path) -> None:
    """Parquet calls the entries of a map ``key_value``, Arrow ``entries``; a result of a shuffle has Arrow's name."""
    kind = pa.map_(pa.string(), pa.int32())
    maps = pa.array([[("a", row)] if row % 3 else [] for row in range(2_000)], kind)
    table = pa.table({"key": pa.array(range(2_000))[::-1], "map": maps})
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "one.parquet", row_group_size=300)
    both = xs.read_parquet(tmp_path / "in").union(xs.read_parquet(tmp_path / "in").repartition(3))
    ordered = both.sort("key", strategy=strategy, num_partitions=4).to_arrow()
    assert ordered.schema == table.schema
    assert ordered["map"].to_pylist() == [
        entries for entries in reversed(maps.to_pylist()) for _ in range(2)
    ]


def test_dense_unions_travel(tmp_path: Path) -> None:
    """Beside rows of any length, so that streams begin where they may."""
    numbers = pa.array(range(500), pa.int64())
    words = pa.array([f"{row:03}" * (row % 5) for row in range(500)])
    kinds = pa.array([row % 2 for row in range(1_000)], pa.int8())
    offsets = pa.array([row // 2 for row in range(1_000)], pa.int32())
    union = pa.UnionArray.from_dense(kinds, offsets, [numbers, words])
    keys = [row * 7919 % 1_000 for row in range(1_000)]
    table = pa.table({"key": keys, "text": ["x" * (key % 7) for key in keys], "union": union})
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=90)
    made = xs.read_ipc(tmp_path / "in.arrow").sort("key", num_partitions=3).to_arrow()
    wanted = sorted(zip(keys, union.to_pylist(), strict=True), key=lambda pair: pair[0])
    assert list(zip(*(made[name].to_pylist() for name in ("key", "union")), strict=True)) == wanted


UNION = pa.dense_union([pa.field("n", pa.int64()), pa.field("s", pa.string())])


@pytest.mark.parametrize("kind", [pa.binary(0), pa.list_(pa.binary(0)), UNION], ids=str)
def test_what_parquet_cannot_hold_is_refused_before_it_runs(
    kind: pa.DataType, tmp_path: Path
) -> None:
    table = pa.table({"key": [2, 1], "nothing": pa.nulls(2, kind)})
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), table.schema) as writer:
        writer.write_table(table)
    rows = xs.read_ipc(tmp_path / "in.arrow").sort("key")
    assert rows.to_arrow()["key"].to_pylist() == [1, 2]
    with pytest.raises(InputError, match="Parquet cannot hold column 'nothing' of type"):
        rows.write_parquet(tmp_path / "out")
