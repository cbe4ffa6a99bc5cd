"""The tolerance of an as-of join, in the unit of the column that has to be near."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from fractions import Fraction
from typing import TYPE_CHECKING

from exoshuffle.durations import SECONDS, parse_duration
from exoshuffle.errors import OptionsError, shown
from exoshuffle.operators.join.keys import JoinKey

if TYPE_CHECKING:
    import pyarrow as pa


def parse_tolerance(
    value: object, on: JoinKey, direction: str
) -> int | float | decimal.Decimal | None:
    """Returns the tolerance as a number of units of the type of ``on``; None for None.

    Args:
        value: A number for numbers; for times a ``timedelta`` or text such as ``"10s"`` or ``"1h30m"``.
        on: The columns that have to be near.
        direction: ``nearest`` needs distances as well.

    Raises:
        OptionsError: It is negative, or does not fit the type.
    """
    import pyarrow as pa

    kind = on.type
    is_time = pa.types.is_temporal(kind)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (is_time or is_number) and (value is not None or direction == "nearest"):
        asked = "tolerance" if value is not None else "direction='nearest'"
        raise OptionsError(
            f"join_asof: column {on.left!r} is {kind}, which has no distances; leave out {asked}"
        )
    if value is None:
        return None
    number = _time(value, kind) if is_time else _number(value, kind)
    if number is None:
        kinds = (
            "a timedelta, or text such as '10s' or '1h30m'"
            if is_time
            else "a number that is finite"
        )
        raise OptionsError(
            f"tolerance is {shown(value)}; of column {on.left!r} ({kind}) it must be {kinds}"
        )
    if number < 0:
        raise OptionsError(f"tolerance is {shown(value)}; it must not be negative")
    return number


def _number(value: object, kind: pa.DataType) -> int | float | decimal.Decimal | None:
    """Returns the number, rounded down for integers; None if it is no number."""
    import pyarrow as pa

    if isinstance(value, str):
        try:
            value = decimal.Decimal(value)
        except decimal.InvalidOperation:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return None
    if not math.isfinite(value):
        return None
    if pa.types.is_integer(kind):
        return math.floor(value)
    return float(value) if pa.types.is_floating(kind) else decimal.Decimal(value)


def _time(value: object, kind: pa.DataType) -> int | None:
    """Returns the time in units of a type, rounded down; None if it is no time."""
    if isinstance(value, dt.timedelta):
        seconds = Fraction(value // dt.timedelta(microseconds=1), 10**6)
    elif not isinstance(value, str) or (parsed := parse_duration(value)) is None:
        return None
    else:
        seconds = parsed
    return math.floor(seconds / _unit_of(kind))


def _unit_of(kind: pa.DataType) -> Fraction:
    import pyarrow as pa

    if kind == pa.date32():
        return SECONDS["d"]
    return SECONDS["ms" if kind == pa.date64() else kind.unit]
