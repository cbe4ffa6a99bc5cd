"""Rows as large as a row group are row groups of their own, and are read back among others."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs

pytestmark = pytest.mark.usefixtures("engine")

ROWS = 3_000
#: More than the largest row group.
LONG_BYTES = 13_000_000
LONG_ROWS = {"first": [0], "within": [1_000, 1_001], "last": [ROWS - 1]}


def texts(places: list[int]) -> pa.Table:
    values = [f"value {number}" for number in range(ROWS)]
    for place in places:
        values[place] = f"{place:05}" * (LONG_BYTES // 5)
    numbers = pa.array(range(ROWS), pa.int64())
    return pa.table({"n": numbers, "s": values, "l": [[value] for value in values]})


@pytest.mark.parametrize("place", LONG_ROWS)
def test_long_rows_are_row_groups_without_statistics_of_texts(place: str, tmp_path: Path) -> None:
    table, long = texts(LONG_ROWS[place]), LONG_ROWS[place]
    path = tmp_path / "out.parquet"
    xs.from_arrow(table).write_parquet(path)
    assert pq.read_table(path).equals(table)
    metadata = pq.ParquetFile(path).metadata
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    alone = [group for group in groups if group.num_rows == 1]
    assert [group.column(0).statistics.min for group in alone] == long
    assert not any(
        group.column(index).is_stats_set or group.column(index).has_dictionary_page
        for group in alone
        for index in (1, 2)
    )
    assert all(group.column(1).is_stats_set for group in groups if group.num_rows > 1)


@pytest.mark.parametrize("place", LONG_ROWS)
def test_filters_find_long_rows(place: str, tmp_path: Path) -> None:
    table = texts(LONG_ROWS[place])
    xs.from_arrow(table).write_parquet(tmp_path / "out.parquet")
    rows = xs.read_parquet(tmp_path / "out.parquet")
    for condition in (
        f"n = {LONG_ROWS[place][0]}",
        f"s >= '{LONG_ROWS[place][-1]:05}' AND s < 'a'",
        "s = 'value 7'",
        "length(l[1]) > 100",
    ):
        found = rows.filter(condition).select("n").to_arrow()["n"].to_pylist()
        with duckdb.connect() as connection:
            connection.register("given", table)
            wanted = connection.sql(f"SELECT n FROM given WHERE {condition}").fetchall()  # noqa: S608
        assert found == [n for (n,) in wanted]
