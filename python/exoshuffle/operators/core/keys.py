"""Keys: sort keys from the arguments of ``Dataset.sort`` or from SQL-like text, and names of other keys.

A key that is named again changes nothing, whatever kind of key it is: lists of columns are often put together from
others. If it is named with another direction or place of nulls, that is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from exoshuffle.arguments import check_flag
from exoshuffle.errors import OptionsError, SchemaError, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.sql.expressions import Expr
from exoshuffle.operators.sql.listed import split_list
from exoshuffle.units import counted

#: Types that can be iterated and are no lists: a dictionary would lose its values, and a set has no order.
NO_LISTS = (str, bytes, Mapping, set, frozenset)
#: A name, in quotes or of one word, or an expression, which has more than words; then a direction and a place of nulls.
_KEY = re.compile(
    r'(?P<key>"[^"]*"|\S+|(?=.*[^\w\s.]).+?)'
    r"(\s+(?P<direction>asc|ascending|desc|descending))?(\s+nulls\s+(?P<place>first|last))?",
    re.IGNORECASE | re.DOTALL,
)


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
    """Returns sort keys from the arguments of ``Dataset.sort``.

    Raises:
        OptionsError: No key, something other than names, directions and placements, lists of different lengths, or a
            key twice in different ways.
    """
    columns = names_of(by, "by")
    if not columns:
        raise OptionsError("sort needs at least one column in by=")
    directions = _each("descending", descending, len(columns))
    placements = _each("nulls", nulls, len(columns))
    descends = [_descends(down) for down in directions]
    for placement in placements:
        if placement not in ("first", "last"):
            raise OptionsError(f'nulls is {placement!r}; write "first" or "last"')
    return _once(
        SortKey(column, down, placement == "first")
        for column, down, placement in zip(columns, descends, placements, strict=True)
    )


def _descends(down: object) -> bool:
    if not isinstance(down, bool):
        raise OptionsError(f"descending is {down!r}; write True or False, or a list of these")
    return down


def _each(name: str, values: object, count: int) -> list[object]:
    """Returns the values of an argument for each column; a single value is for all."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        return [values] * count
    listed = list(values)
    if len(listed) != count:
        raise OptionsError(
            f"{name} has {counted(len(listed), 'value')} for {counted(count, 'column')} in by="
        )
    return listed


def are_directions(given: object) -> bool:
    """Whether an argument is ``descending``: True, False, or a list of these."""
    listed = given if isinstance(given, list | tuple) and given else [given]
    return all(isinstance(each, bool) for each in listed)


def places_of(nulls_last: object) -> str | list[str]:
    """Returns Polars' ``nulls_last`` as ``nulls``.

    Raises:
        OptionsError: Something else than True, False, or a list of these.
    """
    if isinstance(nulls_last, list | tuple) and are_directions(nulls_last):
        return ["last" if each else "first" for each in nulls_last]
    check_flag("nulls_last", nulls_last)
    return "last" if nulls_last else "first"


def check_keys(keys: object) -> tuple[SortKey, ...]:
    """Checks ``SortKey`` objects, at least one, and returns them, each once.

    Raises:
        OptionsError: Something else, or a key twice in different ways.
    """
    listed = tuple(keys) if isinstance(keys, Iterable) else (keys,)
    if not listed or not all(isinstance(key, SortKey) for key in listed):
        raise OptionsError(
            f'keys is {shown(keys)}; give a list of SortKey objects, one at least, or names to sort("column")'
        )
    return _once(listed)


def check_names(keys: Iterable[SortKey], columns: Sequence[str]) -> None:
    """Tells users who write SQL into ``by`` how to give a direction here; the native object refuses other names.

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
    """Returns sort keys from SQL-like text: ``"ts desc nulls first, id"``. Quotes are for spaces: ``'"my key" desc'``.

    Raises:
        OptionsError: Text that is not of this form, or a key twice in different ways.
    """
    return _once(_parse_key(part) for part in split_list(text))


def parse_names(text: str) -> list[str]:
    """Returns column names from a list with commas, quoted as for ``parse_by``; none for blank text.

    Raises:
        OptionsError: Nothing between two commas.
    """
    if not text.strip():
        return []
    names = [part.strip() for part in split_list(text)]
    if "" in names:
        raise OptionsError(f"{text!r} names a column without a name; write for example 'shop, day'")
    return [_unquoted(name) for name in names]


def _unquoted(name: str) -> str:
    is_quoted = len(name) > 2 and name[0] == name[-1] == '"' and name.count('"') == 2
    return name[1:-1] if is_quoted else name


def _once(keys: Iterable[SortKey]) -> tuple[SortKey, ...]:
    """Returns the keys, each once. A second key of a column orders nothing, so another direction is a mistake."""
    found: dict[str, SortKey] = {}
    for key in keys:
        if found.setdefault(key.column, key) != key:
            raise OptionsError(
                f"sort key {key.column!r} is named twice, in different ways; name it once"
            )
    return tuple(found.values())


def _parse_key(text: str) -> SortKey:
    found = _KEY.fullmatch(text.strip())
    if found is None or not found["key"].strip('"'):
        raise OptionsError(
            f'cannot read sort key {text.strip()!r}; write for example "ts desc nulls first, lower(id)", and names '
            "with spaces in double quotes: '\"first name\" desc'"
        )
    descending = (found["direction"] or "").lower().startswith("desc")
    return SortKey(_unquoted(found["key"]), descending, (found["place"] or "").lower() == "first")


def names_of(columns: object, argument: str) -> tuple[str, ...]:
    """Returns column names: a single one may be given without a list.

    Raises:
        OptionsError: Something other than text, or names without an order or with values; names the argument.
    """
    given: Iterable[object] = (columns,)
    if isinstance(columns, Iterable) and not isinstance(columns, NO_LISTS):
        given = columns
    names: list[str] = []
    for each in given:
        name = each.name if isinstance(each, Expr) and each.is_column else each
        if not isinstance(name, str):
            hint = "; directions are given by descending=" if isinstance(name, tuple) else ""
            raise OptionsError(
                f"{argument} names {shown(name)}; it must be the name of a column, or a list of names{hint}"
            )
        names.append(name)
    return tuple(names)


def once(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of keys, in their order, each once."""
    return tuple(dict.fromkeys(names))


def names_in(arguments: Iterable[object], operation: str) -> tuple[str, ...]:
    """Returns the column names of several arguments, each of which is one name or a list; raises as ``names_of``."""
    return tuple(name for argument in arguments for name in names_of(argument, operation))
