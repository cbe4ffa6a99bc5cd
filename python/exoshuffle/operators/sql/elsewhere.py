"""Names of pandas' and Polars' columns that mean nothing on an expression, with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

_RUNNING = 'write xs.col("x").sum().over(keys, order_by=..., frame=(None, 0)), or another aggregate'
_FUNCTION = "write dataset.map_batches(function), or SQL as xs.sql(text)"
_CARRIED = 'write "last_value(x IGNORE NULLS) OVER (PARTITION BY k ORDER BY t)"'
_CARRIED_BACK = _CARRIED.replace("ORDER BY t", "ORDER BY t DESC")

#: Attributes of expressions.
ON_EXPRESSIONS = {
    "filter": 'write xs.when(condition).then(xs.col("x")), which is null elsewhere, or dataset.filter()',
    "value_counts": 'write dataset.value_counts("x")',
    "nunique": "write n_unique()",
    "unique": 'write dataset.select("x").distinct()',
    "to_list": 'write dataset.to_pydict()["x"]',
    "tolist": 'write dataset.to_pydict()["x"]',
    "to_numpy": 'write dataset.to_numpy()["x"]',
    "values": 'write dataset.to_numpy()["x"]',
    "forward_fill": _CARRIED,
    "ffill": _CARRIED,
    "backward_fill": _CARRIED_BACK,
    "bfill": _CARRIED_BACK,
    "apply": _FUNCTION,
    "map": _FUNCTION,
    "map_elements": _FUNCTION,
    "map_batches": _FUNCTION,
    "diff": 'write xs.col("x") - xs.col("x").shift(1).over(keys, order_by=...)',
    "cumsum": _RUNNING,
    "cum_sum": _RUNNING,
    "cum_count": _RUNNING,
    "cum_max": _RUNNING,
    "cum_min": _RUNNING,
    "rank": 'write xs.rank().over(keys, order_by="x")',
    "rolling": 'write xs.col("x").mean().over(keys, order_by=..., frame=(-2, 0))',
    "rolling_mean": 'write xs.col("x").mean().over(keys, order_by=..., frame=(-2, 0))',
    "rolling_sum": 'write xs.col("x").sum().over(keys, order_by=..., frame=(-2, 0))',
    "astype": "write cast(type)",
    **dict.fromkeys(("struct", "field", "get_field", "get_item"), 'write xs.sql("s.field")'),
    "where": 'write xs.when(condition).then(xs.col("x")).otherwise(value)',
    "dropna": "write dataset.drop_nulls(names)",
    "drop_nulls": "write dataset.drop_nulls(names)",
    "is_duplicated": "write xs.len().over(keys) > 1",
    "rlike": 'write xs.col("x").str.contains(pattern)',
    "like": "write dataset.filter(\"x LIKE 'a%'\")",
    "desc": 'write sort("x", descending=True)',
    "asc": 'write sort("x")',
    "head": 'write dataset.select("x").head(n)',
}


def remedy_for(name: str, remedies: Mapping[str, str], kind: type) -> str | None:
    """Returns what to write instead of a name, by a list of remedies; Spark's ``groupBy`` is the ``group_by`` here."""
    ours = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    if name in remedies or ours in remedies:
        return remedies.get(name) or remedies[ours]
    return f"write {ours}(...)" if ours != name and hasattr(kind, ours) else None
