"""The OVER clause of window functions as SQL, from what ``over`` and ``Dataset.window`` are given.

``operators.over.parsing`` reads the text again, so a window function that was written as SQL and one that was made of
objects are the same.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import TypeAlias

from exoshuffle.arguments import is_number, is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.operators.sql.literals import literal

#: The first and the last row of a frame, counted from the row itself; None for the first or last of the key.
RowFrame: TypeAlias = tuple[int | None, int | None]
#: The same as distances from the row's value of ``order_by``.
Distance: TypeAlias = "int | float | dt.timedelta | None"
RangeFrame: TypeAlias = tuple[Distance, Distance]
#: The word that all window functions have.
_OVER = re.compile(r"\bover\b", re.IGNORECASE)


def may_have_windows(text: object) -> bool:
    """Whether SQL may have window functions: parsing takes 3 ms, and most expressions have none."""
    return isinstance(text, str) and _OVER.search(text) is not None


def over_clause(partition_by: Sequence[str], order_by: Sequence[str], frame: str = "") -> str:
    """Returns ``OVER (...)``.

    Args:
        partition_by: SQL of the keys.
        order_by: SQL of the order, with directions.
        frame: The SQL of ``frame_sql``.
    """
    parts = [
        f"PARTITION BY {', '.join(partition_by)}" if partition_by else "",
        f"ORDER BY {', '.join(order_by)}" if order_by else "",
        frame,
    ]
    return f"OVER ({' '.join(filter(None, parts))})"


def order_sql(
    columns: Sequence[str], descending: bool | Sequence[bool], nulls: str | Sequence[str]
) -> list[str]:
    """Returns the order of columns, given as SQL, with their directions and the place of nulls.

    Raises:
        OptionsError: Something else than directions and places, or another number of them.
    """
    downs = _each("descending", descending, len(columns))
    places = _each("nulls", nulls, len(columns))
    for down in downs:
        if not isinstance(down, bool):
            raise OptionsError(
                f"descending is {shown(down)}; write True or False, or a list of these"
            )
    for place in places:
        if place not in ("first", "last"):
            raise OptionsError(f'nulls is {shown(place)}; write "first" or "last"')
    return [
        f"{column} {'DESC' if down else 'ASC'} NULLS {str(place).upper()}"
        for column, down, place in zip(columns, downs, places, strict=True)
    ]


def frame_sql(frame: RowFrame | None, range_frame: RangeFrame | None) -> str:
    """Returns the frame as SQL; empty for neither, which is the frame of SQL.

    Raises:
        OptionsError: Both, something else than two bounds, or bounds in the wrong order.
    """
    if frame is not None and range_frame is not None:
        raise OptionsError(
            f"frame is {shown(frame)} and range_frame is {shown(range_frame)}; give one of them"
        )
    if frame is not None:
        if not _are_bounds(frame, is_whole):
            raise OptionsError(
                f"frame is {shown(frame)}; give two numbers of rows, such as (-2, 0) for a row and the two before, "
                "with None for no bound"
            )
        return _between("ROWS", "frame", frame)
    if range_frame is None:
        return ""
    if not _are_bounds(range_frame, _is_distance):
        raise OptionsError(
            f"range_frame is {shown(range_frame)}; give two numbers or timedeltas, such as (-7, 0) for values of up to "
            "7 less, with None for no bound"
        )
    return _between("RANGE", "range_frame", range_frame)


def _between(unit: str, argument: str, bounds: RangeFrame) -> str:
    first, last = bounds
    try:
        is_reversed = first is not None and last is not None and first > last  # type: ignore[operator]
    except TypeError:  # a number and a timedelta
        is_reversed = True
    if is_reversed:
        raise OptionsError(
            f"{argument} is {shown(bounds)}; the first bound must not lie behind the last, and both are of one kind"
        )
    return f"{unit} BETWEEN {_bound(first, 'PRECEDING')} AND {_bound(last, 'FOLLOWING')}"


def _bound(value: Distance, unbounded: str) -> str:
    if value is None:
        return f"UNBOUNDED {unbounded}"
    if not value:
        return "CURRENT ROW"
    is_before = value != abs(value)
    size = literal(abs(value))
    return f"{size} {'PRECEDING' if is_before else 'FOLLOWING'}"


def _are_bounds(given: object, is_bound: object) -> bool:
    if not isinstance(given, tuple | list) or len(given) != 2:
        return False
    return all(each is None or is_bound(each) for each in given)  # type: ignore[operator]


def _is_distance(value: object) -> bool:
    # NaN is no distance, and infinity is None.
    is_finite = is_number(value) and value - value == 0
    return is_finite or isinstance(value, dt.timedelta)


def _each(argument: str, given: object, count: int) -> list[object]:
    """Returns the values of an argument for each column; a single value is for all."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        return [given] * count
    if len(given) != count:
        raise OptionsError(
            f"{argument} is {shown(given)}; give one for all columns of order_by, or {count} of them"
        )
    return list(given)
