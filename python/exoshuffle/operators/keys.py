"""Sort keys, from the arguments of ``Dataset.sort`` or from SQL-like text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from exoshuffle.errors import OptionsError, SchemaError


@dataclass(frozen=True)
class SortKey:
    """One column to sort by.

    Attributes:
        column: Its name.
        descending: Largest first.
        nulls_first: Nulls before all values, whatever the direction; default last.
    """

    column: str
    descending: bool = False
    nulls_first: bool = False


def parse_keys(
    by: str | Sequence[str],
    descending: bool | Sequence[bool] = False,
    nulls: str | Sequence[str] = "last",
) -> tuple[SortKey, ...]:
    """Sort keys from the arguments of ``Dataset.sort``.

    Raises:
        OptionsError: No key, something else than names, directions and placements, or lists of different lengths.
    """
    columns = names_of(by, "by")
    if not columns:
        raise OptionsError("sort needs at least one column in by=")
    directions = _each("descending", descending, len(columns))
    placements = _each("nulls", nulls, len(columns))
    for down in directions:
        if not isinstance(down, bool):
            raise OptionsError(f"descending is {down!r}; write True or False, or a list of these")
    for placement in placements:
        if placement not in ("first", "last"):
            raise OptionsError(f'nulls is {placement!r}; write "first" or "last"')
    return tuple(
        SortKey(column, down, placement == "first")
        for column, down, placement in zip(columns, directions, placements, strict=True)
    )


def _each(name: str, values: Any, count: int) -> list[Any]:
    """The values of an argument for each column: one is for all."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        return [values] * count
    listed = list(values)
    if len(listed) != count:
        raise OptionsError(f"{name} has {len(listed)} values for {count} columns in by=")
    return listed


def check_names(keys: Iterable[SortKey], columns: Sequence[str]) -> None:
    """Tells those who write SQL into ``by`` how a direction is given here; other names are left to the native object.

    Raises:
        SchemaError: A key is the name of a column with a direction behind it.
    """
    for key in keys:
        if key.column in columns or not key.column.strip():
            continue
        try:
            meant = _parse_key(key.column)
        except OptionsError:
            continue
        if meant.column in columns:
            raise SchemaError(
                f"there is no column {key.column!r}; for the order of {meant.column!r} write "
                f"descending={meant.descending}, and nulls= for the place of nulls"
            )


def parse_by(text: str) -> tuple[SortKey, ...]:
    """Sort keys from SQL-like text: ``"ts desc nulls first, id"``. Quote names with spaces: ``'"my key" desc'``.

    Raises:
        OptionsError: Text that is not of this form, or a key twice.
    """
    return _once(_parse_key(part) for part in _split_outside_quotes(text))


def _once(keys: Iterable[SortKey]) -> tuple[SortKey, ...]:
    """The keys; the second of two with one column would order nothing, so whoever wrote it meant something else."""
    found: dict[str, SortKey] = {}
    for key in keys:
        if key.column in found:
            raise OptionsError(f"sort key {key.column!r} is named twice; name it once")
        found[key.column] = key
    return tuple(found.values())


def _split_outside_quotes(text: str) -> list[str]:
    parts, current, quoted = [], "", False
    for character in text:
        quoted ^= character == '"'
        if character == "," and not quoted:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current]


def _parse_key(text: str) -> SortKey:
    text = text.strip()
    if text.startswith('"') and text.count('"') >= 2:
        column, _, rest = text[1:].partition('"')
    else:
        column, _, rest = text.partition(" ")
    words = rest.lower().split()
    descending = bool(words) and words[0] in ("desc", "descending")
    if words and words[0] in ("asc", "ascending", "desc", "descending"):
        words = words[1:]
    nulls_first = words == ["nulls", "first"]
    if not column or (words and words not in (["nulls", "first"], ["nulls", "last"])):
        raise OptionsError(
            f'cannot read sort key {text!r}; write for example "ts desc nulls first, id", and names with spaces in '
            "double quotes: '\"first name\" desc'"
        )
    return SortKey(column, descending, nulls_first)


def names_of(columns: str | Sequence[str], argument: str) -> tuple[str, ...]:
    """Column names: a single one may be given without a list.

    Raises:
        OptionsError: Something else than text; names the argument.
    """
    is_one = isinstance(columns, str | bytes) or not isinstance(columns, Iterable)
    names: tuple[Any, ...] = (columns,) if is_one else tuple(columns)
    for name in names:
        if not isinstance(name, str):
            hint = "; directions are given by descending=" if isinstance(name, tuple) else ""
            raise OptionsError(
                f"{argument} names {name!r}; it must be the name of a column, or a list of names{hint}"
            )
    return names
