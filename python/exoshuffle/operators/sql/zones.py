"""Time zones of columns in expressions: functions of a timestamp with a zone work in that zone.

``date_trunc('day', ts)`` is midnight in the zone of ``ts``, and ``hour(ts)`` is what a clock there shows. The text
'2024-01-01' beside ``ts`` is midnight there. DuckDB with its ``TimeZone`` set to the zone does the same, and so does
Polars. Results that are timestamps with a zone have that of the columns.

An expression may read columns of several zones: each part of it that reads columns of one zone works in that zone. A
function that would have to work in two zones at once is refused; timestamps themselves can be compared, as moments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from exoshuffle.errors import SchemaError
from exoshuffle.operators.sql.databases import expression_cursor
from exoshuffle.operators.sql.relational import first_line
from exoshuffle.operators.sql.syntax import Node, column_names

if TYPE_CHECKING:
    import pyarrow as pa

#: The zone for columns without a zone, and for parts that read none.
UTC = "UTC"
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
#: Nodes that give the same value in whatever zone, also of moments.
_NEUTRAL = ("COMPARISON", "CONJUNCTION", "BETWEEN")
_NEUTRAL_OPERATORS = (
    "COMPARE_IN",
    "COMPARE_NOT_IN",
    "OPERATOR_IS_NULL",
    "OPERATOR_IS_NOT_NULL",
    "OPERATOR_NOT",
)


def zones_within(kind: pa.DataType) -> set[str]:
    """Returns the zones of timestamps of this type or within it."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return zones_within(kind.value_type)
    if pa.types.is_timestamp(kind):
        return set() if kind.tz is None else {kind.tz}
    inner = (zones_within(kind.field(index).type) for index in range(kind.num_fields))
    return set().union(*inner)


def in_zone(kind: pa.DataType, zone: str) -> pa.DataType:
    """Returns the type with this zone in place of those that it has."""
    import pyarrow as pa

    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(in_zone(field.type, zone))

    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp(kind.unit, zone) if kind.tz is not None else kind
    if types.is_struct(kind):
        return pa.struct([changed(kind.field(index)) for index in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.map_(changed(kind.key_field), changed(kind.item_field), kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(changed(kind.value_field), kind.list_size)
    if types.is_large_list(kind):
        return pa.large_list(changed(kind.value_field))
    return pa.list_(changed(kind.value_field)) if types.is_list(kind) else kind


def in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Returns times, and timestamps with a zone, as most of DuckDB's functions know them; other types as they are."""
    import pyarrow as pa

    if kind == pa.time64("ns"):
        return pa.time64("us")
    is_finer = pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit == "ns"
    return pa.timestamp("us", kind.tz) if is_finer else kind


@functools.cache
def has_nanoseconds() -> bool:
    """Returns whether DuckDB has timestamps of nanoseconds with a zone; 1.5 cuts them to microseconds."""
    sql = "SELECT count(*) FROM duckdb_types() WHERE type_name = 'timestamptz_ns'"
    (count,) = expression_cursor().execute(sql).fetchone() or (0,)
    return bool(count)


@functools.lru_cache(maxsize=256)
def zone_setting(zone: str) -> str | None:
    """Returns DuckDB's ``TimeZone`` for a zone of Arrow; None if DuckDB does not know it."""
    offset = _OFFSET.fullmatch(zone)
    if offset is None:
        names = ["UTC" if zone == "Z" else zone]
    else:
        sign, hours, minutes = offset.groups()
        # The version decides which of these exist; the last one has its sign reversed.
        names = [f"GMT{sign}{hours}:{minutes}", f"GMT{sign}{hours}{minutes}"]
        if minutes == "00":
            names.append(f"Etc/GMT{'-' if sign == '+' else '+'}{int(hours)}")
        if int(hours) == int(minutes) == 0:
            names.insert(0, UTC)
    return next((name for name in names if _is_known(name)), None)


def _is_known(name: str) -> bool:
    cursor = expression_cursor()
    quoted = name.replace("'", "''")
    try:
        cursor.execute(f"SET TimeZone = '{quoted}'")
    except Exception as error:
        if "TimeZone" not in first_line(error):
            raise
        return False
    (found,) = cursor.execute("SELECT current_setting('TimeZone')").fetchone() or ("",)
    # DuckDB takes "UTC+05:30" for another zone, five hours from UTC.
    return bool(found.lower() == name.lower())


def zones_of(names: Iterable[str], schema: pa.Schema) -> dict[str, str]:
    """Returns the columns that have a zone, with it.

    Raises:
        SchemaError: DuckDB does not know a zone, or a nested column has several.
    """
    zones = {}
    for name in names:
        kind = schema.field(name).type
        found = sorted(zones_within(kind))
        for zone in found:
            if zone_setting(zone) is None:
                raise SchemaError(
                    f"column {name!r} is {kind}, and DuckDB does not know the time zone {zone!r}; cast it to another "
                    "zone, which changes no moment, before"
                )
        if len(found) > 1:
            raise SchemaError(
                f"column {name!r} is {kind}, and expressions on a column work in one time zone; cast it to one"
            )
        if found:
            zones[name] = found[0]
    return zones


def zones_in(node: Node, zones: Mapping[str, str]) -> set[str]:
    """Returns the zones of the columns that a syntax tree mentions; names are matched in small letters."""
    known = {name.lower(): zone for name, zone in zones.items()}
    return {known[name.lower()] for name in column_names(node) if name.lower() in known}


def is_neutral(node: Node) -> bool:
    """Returns whether a node's value is the same in whatever zone it is computed, if the values of its parts are."""
    kind = node.get("class")
    return kind in _NEUTRAL or (kind == "OPERATOR" and node.get("type") in _NEUTRAL_OPERATORS)
