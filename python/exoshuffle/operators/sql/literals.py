"""Values, names and types as SQL text, quoted so that none of them can become other SQL."""

from __future__ import annotations

import datetime as dt
import decimal
import math

from exoshuffle.errors import OptionsError, shown

#: SQL types by the names of Arrow, of ``read_csv`` and of Python.
_TYPES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "int": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "float": "DOUBLE",
    "text": "VARCHAR",
    "string": "VARCHAR",
    "str": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
}
#: Names that ``pyarrow`` prints for types that have other names above.
_PRINTED = {
    "halffloat": "float32",
    "float": "float32",
    "double": "float64",
    "large_string": "string",
    "string_view": "string",
    "large_binary": "binary",
    "date32[day]": "date",
    "time64[us]": "time",
    "timestamp[us]": "timestamp",
}
#: Types of Python that are values wherever they stand, where text is SQL.
NUMBERS = (bool, int, float, decimal.Decimal, dt.date, dt.time, dt.timedelta)


def literal(value: object) -> str | None:
    """Returns a value as SQL; None if it has no such kind."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value) if value >= 0 else f"({value})"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes):
        return f"from_hex('{value.hex()}')"
    if isinstance(value, decimal.Decimal):
        return f"({value:f})" if value.is_finite() else None
    if isinstance(value, dt.datetime):
        kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
        return f"{kind} '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, dt.time):
        return f"TIME '{value.isoformat()}'" if value.tzinfo is None else None
    if isinstance(value, dt.timedelta):
        return f"to_microseconds({value // dt.timedelta(microseconds=1)})"
    return None


def _float(value: float) -> str:
    if not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    text = repr(value)
    # With an exponent it is a double; without one, a decimal.
    text = text if "e" in text else f"{text}e0"
    return text if value >= 0 else f"({text})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Returns the name of a column as SQL."""
    return '"' + name.replace('"', '""') + '"'


def type_text(kind: object) -> str:
    """Returns a type as SQL: a name, a pyarrow type, or a class of Python.

    Raises:
        OptionsError: Another type.
    """
    given = kind.__name__ if isinstance(kind, type) else str(kind)
    name = given.lower().replace(" ", "")
    if not isinstance(kind, str | type):
        name = _PRINTED.get(given, name).replace("decimal128(", "decimal(")
    if name in _TYPES:
        return _TYPES[name]
    precision, comma, scale = name.removeprefix("decimal(").removesuffix(")").partition(",")
    if name.startswith("decimal(") and comma and precision.isdigit() and scale.isdigit():
        return f"DECIMAL({int(precision)},{int(scale)})"
    raise OptionsError(
        f"cast got the type {shown(kind)}; known are {', '.join(_TYPES)} and decimal(PRECISION,SCALE)"
    )
