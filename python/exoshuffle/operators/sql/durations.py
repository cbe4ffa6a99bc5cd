"""Comparisons of columns of durations, which DuckDB computes with as integers in their unit.

Guarantee: durations are compared as spans of time, whatever their units, with each other and with intervals without
columns (``INTERVAL 2 SECOND``, a timedelta). A month is 30 days there, as DuckDB compares intervals. Integers are
compared with the integers. All other parts of an expression stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.kinds import column_named
from exoshuffle.operators.sql.relational import query

if TYPE_CHECKING:
    import pyarrow as pa

#: How many of each unit a second has.
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: The unit of intervals of DuckDB.
_INTERVALS = "us"
#: The fields of nodes that compare, which have what is compared.
_SIDES = {
    "COMPARISON": ("left", "right"),
    "BETWEEN": ("input", "lower", "upper"),
}


def as_integers(node: syntax.Node, schema: pa.Schema) -> syntax.Node:
    """Returns a syntax tree that compares the integers of durations in one unit; the same tree if none are compared.

    Cost: three queries for each comparison of durations, 1.5 ms each.
    """
    import pyarrow as pa

    names = (column_named(part, schema) for part in syntax.nodes(node))
    kinds = (schema.field(name).type for name in names if name is not None)
    if not any(map(pa.types.is_duration, kinds)):
        return node
    made: syntax.Node = _changed(node, schema)
    return made


def _changed(part: Any, schema: pa.Schema) -> Any:
    if isinstance(part, list):
        made = [_changed(one, schema) for one in part]
        return made if any(a is not b for a, b in zip(made, part, strict=True)) else part
    if not isinstance(part, dict):
        return part
    compared = sides(part)
    found = _in_one_unit(compared, schema)
    if found is not None:
        return _with_sides(part, found)
    changed = {name: _changed(one, schema) for name, one in part.items()}
    return changed if any(changed[name] is not part[name] for name in part) else part


def sides(node: syntax.Node) -> list[syntax.Node]:
    """Returns what a comparison compares; nothing for any other node."""
    if node.get("type") in ("COMPARE_IN", "COMPARE_NOT_IN"):
        return list(node["children"])
    return [node[name] for name in _SIDES.get(node.get("class", ""), ())]


def _with_sides(node: syntax.Node, sides: Sequence[syntax.Node]) -> syntax.Node:
    names = _SIDES.get(node["class"])
    return node | ({"children": sides} if names is None else dict(zip(names, sides, strict=True)))


def _in_one_unit(sides: Sequence[syntax.Node], schema: pa.Schema) -> list[syntax.Node] | None:
    """Returns columns of durations and intervals as integers in their finest unit; None for other sides."""
    units = [_unit(side, schema) for side in sides]
    if not any(units):
        return None
    intervals = _microseconds([side for side, unit in zip(sides, units, strict=True) if not unit])
    if intervals is None:
        return None
    all_units = [unit or _INTERVALS for unit in units]
    finest = max(all_units, key=_PER_SECOND.__getitem__)
    if set(units) == {finest}:
        return None
    values = iter(intervals)
    return [
        _number(next(values) * _factor(_INTERVALS, finest))
        if unit is None
        else _in_unit(side, _factor(unit, finest))
        for side, unit in zip(sides, units, strict=True)
    ]


def _unit(side: syntax.Node, schema: pa.Schema) -> str | None:
    """Returns the unit of a column of durations; None for anything else."""
    import pyarrow as pa

    name = column_named(side, schema)
    kind = None if name is None else schema.field(name).type
    return kind.unit if kind is not None and pa.types.is_duration(kind) else None


def _microseconds(nodes: Sequence[syntax.Node]) -> list[int] | None:
    """Returns how long intervals are; None if one of the nodes is something else, or null."""
    if not nodes:
        return []
    if any(True for _ in syntax.column_names(nodes)):
        return None
    texts = syntax.texts_of(nodes)
    if any(kind != "INTERVAL" for kind in _values(f"typeof({text})" for text in texts)):
        return None
    lengths = _values(f"epoch_us({text})" for text in texts)
    return None if None in lengths else lengths


def _values(texts: Iterable[str]) -> list[Any]:
    """Returns the values of expressions of one type without columns."""
    [[found]] = query(f"SELECT [{', '.join(texts)}]").read_all().columns
    values: list[Any] = found.as_py()
    return values


def _factor(unit: str, finer: str) -> int:
    return _PER_SECOND[finer] // _PER_SECOND[unit]


def _number(value: int) -> syntax.Node:
    return syntax.parse(f"({value})")


def _in_unit(column: syntax.Node, factor: int) -> syntax.Node:
    """Returns a column as integers of a finer unit, which may need more than 64 bits."""
    if factor == 1:
        return column
    return syntax.parse(f"({syntax.text_of(column)}::HUGEINT * {factor})")
