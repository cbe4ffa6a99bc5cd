"""Asks Polars about tables, for a second opinion and a second time to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import polars as pl


def order(rows: pa.Table, by: Sequence[str], descending: list[bool], nulls: list[str]) -> list[int]:
    """Returns the ``id`` of the rows in order of some columns."""
    places = [place == "last" for place in nulls]
    frame = _frame(rows, by)
    keys = [str(number) for number in range(len(by))]
    made = frame.sort(keys, descending=descending, nulls_last=places, maintain_order=True)
    return made["id"].to_list()


def first(rows: pa.Table, by: Sequence[str]) -> list[int]:
    """Returns the ``id`` of the first row of each key."""
    keys = [str(number) for number in range(len(by))]
    return _frame(rows, by).unique(keys, keep="first", maintain_order=True)["id"].to_list()


def _frame(rows: pa.Table, by: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    columns = [rows["id"], *(_plain(rows[name]) for name in by)]
    frame = pl.from_arrow(pa.table(columns, ["id", *map(str, range(len(by)))]))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    return column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column
