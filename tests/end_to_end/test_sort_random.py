"""Random schemas and data against DuckDB's ORDER BY, and the promise that no strategy changes a byte of the result."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import exoshuffle as xs
from exoshuffle.operators.core.keys import SortKey
from tests.support.oracle import (
    assert_same,
    check_both_strategies,
    expected,
    with_row_numbers,
    write_files,
)
from tests.support.tables import KEY_TYPES, column_of, tables_and_keys

pytestmark = pytest.mark.usefixtures("engine")
quick = settings(max_examples=40, suppress_health_check=list(HealthCheck))


@quick
@given(
    drawn=tables_and_keys(),
    num_files=st.integers(1, 4),
    num_partitions=st.sampled_from([1, 2, 5, 23]),
)
def test_any_table_is_sorted_as_duckdb_sorts_it(
    drawn: tuple[pa.Table, list[SortKey]], num_files: int, num_partitions: int
) -> None:
    table, keys = drawn[0], drawn[1]
    table = with_row_numbers(table)
    with tempfile.TemporaryDirectory() as folder:
        source = write_files(Path(folder) / "in", table, num_files, rows_per_group=7)
        wanted = expected(pq.read_table(source), keys)
        check_both_strategies(source, keys, num_partitions, wanted)


@pytest.mark.parametrize("kind", KEY_TYPES, ids=str)
@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_type_is_a_key(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | KEY_TYPES[kind], min_size=30, max_size=120))
    table = with_row_numbers(pa.table({"key": column_of(kind, values)}))
    with tempfile.TemporaryDirectory() as folder:
        source = write_files(Path(folder) / "in", table, 2, rows_per_group=16)
        read = pq.read_table(source)
        for down in (False, True):
            for nulls_first in (False, True):
                keys = [SortKey("key", down, nulls_first)]
                result = xs.read_parquet(source).sort_keys(keys, num_partitions=3).to_arrow()
                assert_same(result, expected(read, keys))
