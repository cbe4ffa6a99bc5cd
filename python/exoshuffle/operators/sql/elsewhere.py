"""Names of pandas' and Polars' columns that mean nothing on an expression, with what to write instead."""

from __future__ import annotations

_ONE_ROW = "an expression sees one row; write map_groups(function) for rows in their order"
_FUNCTION = "write dataset.map_batches(function), or SQL as xs.sql(text)"

#: Attributes of expressions.
ON_EXPRESSIONS = {
    "value_counts": 'write dataset.value_counts("x")',
    "nunique": 'write n_unique() in agg(), or dataset.select("x").distinct().count()',
    "unique": 'write dataset.select("x").distinct()',
    "to_list": 'write dataset.to_pydict()["x"]',
    "tolist": 'write dataset.to_pydict()["x"]',
    "to_numpy": 'write dataset.to_numpy()["x"]',
    "values": 'write dataset.to_numpy()["x"]',
    "apply": _FUNCTION,
    "map": _FUNCTION,
    "map_elements": _FUNCTION,
    "map_batches": _FUNCTION,
    "shift": _ONE_ROW,
    "diff": _ONE_ROW,
    "cumsum": _ONE_ROW,
    "cum_sum": _ONE_ROW,
    "rank": _ONE_ROW,
    "rolling": _ONE_ROW,
    "over": _ONE_ROW,
    "astype": "write cast(type)",
    "desc": 'write sort("x", descending=True)',
    "asc": 'write sort("x")',
    "head": 'write dataset.select("x").head(n)',
}
