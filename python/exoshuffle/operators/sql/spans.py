"""Spans of time in expressions: differences of moments are durations, and durations work where intervals do.

Guarantee: ``t2 - t1`` of timestamps is a duration, as in Polars and pandas: the time that passed between two moments,
whatever their zone. Its unit is the nanosecond where one of both has nanoseconds and no zone, else the microsecond. Why
not an interval of DuckDB: files other than Arrow's cannot hold one, and nothing sorts or groups by it. Where clocks
change, a day of it has 23 hours. So differences that are compared are such times, too. In other functions, as in
``date_part('day', t2 - t1)``, they are DuckDB's intervals. A difference of dates stays DuckDB's number of days.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.durations import sides
from exoshuffle.operators.sql.kinds import column_named
from exoshuffle.operators.sql.queries import select
from exoshuffle.operators.sql.relational import quoted

if TYPE_CHECKING:
    import pyarrow as pa

#: Microseconds of a unit, or how many of it a microsecond has.
_MICROSECONDS = {
    "s": "({}::HUGEINT * 1000000)",
    "ms": "({}::HUGEINT * 1000)",
    "us": "{}",
    "ns": "({} // 1000)",
}
_DAY = 86_400_000_000
#: Adding a duration counts the time that passes; DuckDB's days end when the clock says so.
_EXACT = "to_microseconds(({})::BIGINT)"
#: Other functions are asked for the days of an interval, as they are of a difference.
_IN_DAYS = f"(to_days((({{0}}) // {_DAY})::INTEGER) + to_microseconds((({{0}}) % {_DAY})::BIGINT))"


def exact_where_compared(sql: str, rows: pa.Table, zone: str) -> str:
    """Returns SQL in which differences of moments that are compared are the time that passed.

    Args:
        sql: An expression of moments with a zone.
        rows: ``readable`` rows, of which there may be none.
        zone: DuckDB's ``TimeZone``.
    """
    node = syntax.parse(sql)
    differences = [
        side
        for part in syntax.nodes(node)
        for side in sides(part)
        if syntax.function_name(side) == "-" and len(syntax.arguments(side)) == 2
    ]
    for side, text in zip(differences, syntax.texts_of(differences), strict=True):
        found = difference(text, rows, zone)
        if found is not None and found[1].unit == "us":
            exact = syntax.parse(f"to_microseconds({found[0]})")
            side.clear()
            side.update(exact)
    return syntax.text_of(node) if differences else sql


def is_interval(kind: pa.DataType) -> bool:
    """Returns whether a type is that of intervals, which are months, days and a rest."""
    import pyarrow as pa

    return bool(pa.types.is_interval(kind))


def difference(sql: str, rows: pa.Table, zone: str) -> tuple[str, pa.DataType] | None:
    """Returns the SQL of a difference of two moments as an integer, with its type; None for other expressions.

    Args:
        sql: An expression that makes an interval.
        rows: ``readable`` rows, of which there may be none.
        zone: DuckDB's ``TimeZone``.
    """
    import pyarrow as pa

    node = syntax.parse(sql)
    sides = syntax.arguments(node)
    if syntax.function_name(node) != "-" or len(sides) != 2:
        return None
    texts = syntax.texts_of(sides)
    kinds = select(texts, rows, zone).schema.types
    if not all(pa.types.is_timestamp(kind) or pa.types.is_date(kind) for kind in kinds):
        return None
    unit = "ns" if any(getattr(kind, "unit", "") == "ns" for kind in kinds) else "us"
    later, earlier = texts
    return f"epoch_{unit}({later}\n) - epoch_{unit}({earlier}\n)", pa.duration(unit)


def has_durations(node: syntax.Node, schema: pa.Schema) -> bool:
    """Returns whether a syntax tree reads a column of durations."""
    return any(_is_duration(part, schema) for part in syntax.nodes(node))


def as_intervals(node: syntax.Node, schema: pa.Schema) -> syntax.Node:
    """Returns a syntax tree that reads columns of durations as intervals, of microseconds."""
    made: syntax.Node = _changed(node, schema, _IN_DAYS)
    return made


def _changed(part: Any, schema: pa.Schema, form: str) -> Any:
    if isinstance(part, list):
        return [_changed(one, schema, form) for one in part]
    if not isinstance(part, dict):
        return part
    if _is_duration(part, schema):
        name = column_named(part, schema)
        assert name is not None
        micros = _MICROSECONDS[schema.field(name).type.unit].format(quoted(name))
        return syntax.parse(form.format(micros)) | {"alias": part.get("alias", "")}
    if "class" in part:
        form = _EXACT if syntax.function_name(part) in ("+", "-") else _IN_DAYS
    return {name: _changed(one, schema, form) for name, one in part.items()}


def _is_duration(part: syntax.Node, schema: pa.Schema) -> bool:
    import pyarrow as pa

    name = column_named(part, schema)
    return name is not None and bool(pa.types.is_duration(schema.field(name).type))
