"""Sort keys, from the arguments of ``Dataset.sort`` or from SQL-like text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from exoshuffle.errors import OptionsError


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
        OptionsError: No key, lists of different lengths, or a word other than first and last for ``nulls``.
    """
    columns = [by] if isinstance(by, str) else list(by)
    if not columns:
        raise OptionsError("sort needs at least one column in by=")
    directions = [descending] * len(columns) if isinstance(descending, bool) else list(descending)
    placements = [nulls] * len(columns) if isinstance(nulls, str) else list(nulls)
    for name, values in (("descending", directions), ("nulls", placements)):
        if len(values) != len(columns):
            raise OptionsError(f"{name} has {len(values)} values for {len(columns)} columns in by=")
    for placement in placements:
        if placement not in ("first", "last"):
            raise OptionsError(f'nulls is {placement!r}; write "first" or "last"')
    return tuple(
        SortKey(column, bool(down), placement == "first")
        for column, down, placement in zip(columns, directions, placements, strict=True)
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


def names_of(columns: str | Sequence[str]) -> tuple[str, ...]:
    """Column names: a single one may be given without a list."""
    return (columns,) if isinstance(columns, str) else tuple(columns)
