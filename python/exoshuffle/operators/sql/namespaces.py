"""Functions of text, of moments and of lists: ``col("s").str``, ``col("ts").dt`` and ``col("items").list``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn

from exoshuffle.arguments import is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.sql.literals import type_text
from exoshuffle.operators.sql.terms import E, Operand, Term, called, computed, operand

#: The remedy for functions that have no other one.
IN_SQL = 'write one of DuckDB in SQL, as in xs.sql("upper(s)"), or map_batches(function)'
_IN_SECONDS = 'write xs.sql("epoch(t2 - t1)") for seconds'
_TRUNCATED = 'write truncate("day")'
_LATER = 'write xs.sql("t + INTERVAL 1 DAY")'
_NAMED_DAY = 'write strftime("%A")'
#: By the names of Polars and pandas.
_REMEDIES = {
    **{
        f"total_{unit}": _IN_SECONDS
        for unit in ("seconds", "minutes", "hours", "days", "milliseconds")
    },
    **dict.fromkeys(("floor", "round", "normalize"), _TRUNCATED),
    **dict.fromkeys(("offset_by", "shift"), _LATER),
    "day_name": _NAMED_DAY,
    "sum": 'write xs.sql("list_sum(l)")',
    "mean": 'write xs.sql("list_avg(l)")',
    "max": 'write xs.sql("list_max(l)")',
    "min": 'write xs.sql("list_min(l)")',
    "sort": 'write xs.sql("list_sort(l)")',
    "unique": 'write xs.sql("list_distinct(l)")',
    "join": "write xs.sql(\"array_to_string(l, ', ')\")",
    "eval": 'write xs.sql("list_transform(l, lambda x: x + 1)")',
    "zfill": "write xs.sql(\"lpad(s, 5, '0')\")",
    "extract": 'write xs.sql("regexp_extract(s, pattern, 1)")',
}
#: Polars' names of units that ``truncate`` takes.
_UNITS = {
    "1y": "year",
    "1q": "quarter",
    "1mo": "month",
    "1w": "week",
    "1d": "day",
    "1h": "hour",
    "1m": "minute",
    "1s": "second",
}


class _Named:
    """Says what to write instead of a function that is not here."""

    if not TYPE_CHECKING:  # else every name that is wrong would seem right

        def __getattr__(self, name: str) -> NoReturn:
            message = f"{type(self).__name__.lower()} have no function {name!r}"
            if not name.startswith("_"):
                message += f"; {_REMEDIES.get(name, IN_SQL)}"
            # With an object of its own, Python suggests no other name behind the remedy.
            raise AttributeError(message, name=name, obj=None)


@dataclass(frozen=True)
class Texts(_Named, Generic[E]):
    """Functions of text."""

    expression: Term[E]

    def contains(self, pattern: Operand, *, literal: bool = False) -> E:
        """Whether a regular expression matches a part of the text; with ``literal``, whether it has this part."""
        return called(
            "contains" if literal else "regexp_matches", self.expression, operand(pattern)
        )

    def starts_with(self, start: Operand) -> E:
        """Whether the text starts so; ``startswith`` is the same."""
        return called("starts_with", self.expression, operand(start))

    def ends_with(self, end: Operand) -> E:
        """Whether the text ends so; ``endswith`` is the same."""
        return called("ends_with", self.expression, operand(end))

    def lower(self) -> E:
        """Returns the text in small letters; ``to_lowercase`` is the same."""
        return called("lower", self.expression)

    def upper(self) -> E:
        """Returns the text in capital letters; ``to_uppercase`` is the same."""
        return called("upper", self.expression)

    def len(self) -> E:
        """Returns the number of characters; ``len_chars`` is the same."""
        return called("length", self.expression)

    def replace(self, old: Operand, new: Operand) -> E:
        """Replaces every occurrence of a text, as pandas does; ``replace_all`` replaces patterns."""
        return called("replace", self.expression, operand(old), operand(new))

    def replace_all(self, pattern: Operand, new: Operand, *, literal: bool = False) -> E:
        r"""Replaces every match of a regular expression, as Polars does; with ``literal``, every occurrence of a text.

        A group of the match is ``\1`` in the new text.
        """
        if literal:
            return self.replace(pattern, new)
        return called(
            "regexp_replace", self.expression, operand(pattern), operand(new), operand("g")
        )

    def strip(self) -> E:
        """Returns the text without spaces at its ends; ``strip_chars`` is the same."""
        return called("trim", self.expression)

    def split(self, by: Operand) -> E:
        """Returns the list of the parts between the occurrences of a text."""
        return called("string_split", self.expression, operand(by))

    def to_datetime(self, form: str) -> E:
        """Reads a timestamp: ``to_datetime("%Y-%m-%d %H:%M:%S")``; text of another form is an error."""
        return called("strptime", self.expression, operand(form))

    def to_date(self, form: str = "%Y-%m-%d") -> E:
        """Reads a date, as ``to_datetime`` reads a timestamp."""
        read = self.to_datetime(form)
        return computed(self.expression, f"CAST({read.text} AS {type_text('date')})")

    def slice(self, offset: int, length: int) -> E:
        """Returns so many characters from a place on, which is 0 for the first one and -1 for the last."""
        for each in (offset, length):
            if not is_whole(each):
                raise OptionsError(
                    f"slice got {shown(each)}; give a place and a number of characters"
                )
        first = operand(offset + 1 if offset >= 0 else offset)
        return called("substr", self.expression, first, operand(length))

    startswith, endswith = starts_with, ends_with
    to_lowercase, to_uppercase, len_chars = lower, upper, len  # noqa: A003  ours
    strip_chars = strip


@dataclass(frozen=True)
class Moments(_Named, Generic[E]):
    """Parts of dates and timestamps, as numbers, and these as text."""

    expression: Term[E]

    def year(self) -> E:
        """Returns the year."""
        return called("year", self.expression)

    def month(self) -> E:
        """Returns the month, from 1."""
        return called("month", self.expression)

    def day(self) -> E:
        """Returns the day of the month, from 1."""
        return called("day", self.expression)

    def hour(self) -> E:
        """Returns the hour, from 0."""
        return called("hour", self.expression)

    def minute(self) -> E:
        """Returns the minute, from 0."""
        return called("minute", self.expression)

    def second(self) -> E:
        """Returns the second, from 0."""
        return called("second", self.expression)

    def quarter(self) -> E:
        """Returns the quarter, from 1."""
        return called("quarter", self.expression)

    def strftime(self, form: str) -> E:
        """Writes it as text: ``strftime("%d/%m/%Y")``; ``to_string`` is the same."""
        return called("strftime", self.expression, operand(form))

    def date(self) -> E:
        """Returns the date of a timestamp."""
        return computed(self.expression, f"CAST({self.expression.text} AS {type_text('date')})")

    def weekday(self) -> E:
        """Returns the day of the week, from 1 for Monday to 7."""
        return called("isodow", self.expression)

    def truncate(self, unit: str) -> E:
        """Returns the begin of the ``"year"``, ``"month"``, ``"day"``, ``"hour"`` or other unit of ``date_trunc``.

        Polars' ``"1y"``, ``"1mo"``, ``"1d"`` and so on are these; other spans are those of ``time_bucket`` in SQL.
        """
        if unit[:1].isdigit() and unit not in _UNITS:
            raise OptionsError(
                f'truncate got {unit!r}; write one unit, or xs.sql("time_bucket(INTERVAL 5 MINUTE, t)") for several'
            )
        named = operand(_UNITS.get(unit, unit)).text
        return computed(self.expression, f"date_trunc({named}, {self.expression.text})")

    to_string = strftime


@dataclass(frozen=True)
class Lists(_Named, Generic[E]):
    """Functions of lists."""

    expression: Term[E]

    def len(self) -> E:
        """Returns the number of values, nulls among them."""
        return called("len", self.expression)

    def first(self) -> E:
        """Returns the first value; null where there is none."""
        return self.get(0)

    def last(self) -> E:
        """Returns the last value; null where there is none."""
        return self.get(-1)

    def get(self, index: int) -> E:
        """Returns the value at a place, from 0, or from -1 at the end; null where there is none."""
        if not is_whole(index):
            raise OptionsError(f"get got {shown(index)}; give a place, 0 for the first value")
        return called("list_extract", self.expression, operand(index + 1 if index >= 0 else index))

    def contains(self, value: Operand) -> E:
        """Whether one of the values is this one."""
        return called("list_contains", self.expression, operand(value))


def within(name: str) -> str | None:
    """Returns what to write for a function of text, of moments or of lists that an expression is asked for itself."""
    for place, kind in (("str", Texts), ("dt", Moments), ("list", Lists)):
        if hasattr(kind, name):
            return f'write xs.col("x").{place}.{name}(...)'
    return None
