"""Window functions over many maps and partitions, and keys that do not fit into memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.errors import LargeGroupError
from tests.support.generated import assert_same_rows, generated, query
from tests.support.oracle import write_files


def test_many_maps_and_partitions(tmp_path: Path, engine: LocalEngine) -> None:
    """Ties of one key come from many maps; the order of input decides."""
    del engine
    table = generated(100_000, keys=300).drop_columns(["nested"])
    source = write_files(tmp_path / "in", table, 4, rows_per_group=5_000)
    made = xs.read_parquet(source).window(
        partition_by="k", order_by="small", num_partitions=9, n="row_number()", w="lag(text)"
    )
    assert made.explain().splits > 1
    wanted = query(
        "select *, row_number() over o as n, lag(text) over o as w from t "
        "window o as (partition by k order by small, id)",
        t=table,
    )
    assert_same_rows(made.to_arrow(), wanted)


def test_a_key_that_is_too_large_is_named(tmp_path: Path) -> None:
    xs.init(memory_limit=limits.limit_for(430_000_000), num_cpus=2, spill_dirs=[tmp_path])
    try:
        rows = xs.range(6_000_000).with_columns(k="1", t="1 - id")
        with pytest.raises(
            LargeGroupError, match=r"key k=1 .*partition_by.* raise memory_limit to"
        ):
            for _ in rows.window(partition_by="k", order_by="t", r="sum(t)").iter_batches():
                pass
        assert rows.window(partition_by="id", r="sum(t)").count() == 6_000_000
    finally:
        xs.shutdown()
