"""Expressions as Python objects: ``col("x") > 3``. Each is the SQL text that the same expression has as text.

Guarantee: an object adds nothing that text could not say, so both are checked, computed and pushed down alike. Every
part is in parentheses, and every name and value is quoted, so no name or value can become SQL.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from exoshuffle.arguments import is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.sql.elsewhere import ON_EXPRESSIONS
from exoshuffle.operators.sql.literals import literal, quoted, type_text
from exoshuffle.operators.sql.over import (
    RangeFrame,
    RowFrame,
    frame_sql,
    order_sql,
    over_clause,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns as a name, an expression, or a list of these.
Columns: TypeAlias = "str | Expr | Sequence[str | Expr]"
#: What an operator takes beside an expression.
Scalar: TypeAlias = (
    "bool | int | float | decimal.Decimal | str | bytes | dt.date | dt.time | dt.timedelta | None"
)
Operand: TypeAlias = "Expr | Scalar"


@dataclass(frozen=True, eq=False, repr=False)
class Expr:
    """An expression over the columns of a row; made by ``col``, ``lit`` and ``sql``, and of others by operators.

    Null comes of null, as in SQL: ``col("x") == 3`` is null where x is, and a filter leaves such a row out. ``%`` has
    the sign of the divisor, as in Python. ``and``, ``or`` and ``not`` are written ``&``, ``|`` and ``~``, with
    parentheses around comparisons.

    Attributes:
        text: The expression as SQL.
        name: The name of its column in a result; None if it has none yet.
    """

    text: str
    name: str | None = None

    def __repr__(self) -> str:
        return f"col({self.name!r})" if self.is_column else f"sql({self.text!r})"

    @property
    def is_column(self) -> bool:
        """Whether it is a column under its own name, and nothing more."""
        return self.name is not None and self.text == quoted(self.name)

    if not TYPE_CHECKING:  # else every name that is wrong would seem right

        def __getattr__(self, name: str) -> Any:
            if name not in ON_EXPRESSIONS:
                raise AttributeError(f"an expression has no attribute {name!r}")
            remedy = ON_EXPRESSIONS[name].replace('"x"', repr(self.name or "x"))
            # With an object of its own, Python suggests no other name behind the remedy.
            raise AttributeError(
                f"an expression has no attribute {name!r}; {remedy}", name=name, obj=None
            )

    def __bool__(self) -> bool:
        raise OptionsError(
            f"the expression {shown(self)} has a value for each row, so none by itself; write & for and, | for or, ~ "
            "for not, between(low, high) for low <= x <= high, and is_in for in"
        )

    def alias(self, name: str) -> Expr:
        """Gives its column a name, for ``select`` and ``with_columns``."""
        return Expr(self.text, _name("alias", name))

    # --- arithmetic --------------------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> Expr:
        operator = "||" if isinstance(other, str) else "+"
        return _two(self, operator, lit(other))

    def __radd__(self, other: Operand) -> Expr:
        operator = "||" if isinstance(other, str) else "+"
        return _two(lit(other), operator, self)

    def __sub__(self, other: Operand) -> Expr:
        return _two(self, "-", _number("-", other))

    def __rsub__(self, other: Operand) -> Expr:
        return _two(_number("-", other), "-", self)

    def __mul__(self, other: Operand) -> Expr:
        return _two(self, "*", _number("*", other))

    def __rmul__(self, other: Operand) -> Expr:
        return _two(_number("*", other), "*", self)

    def __truediv__(self, other: Operand) -> Expr:
        return _two(self, "/", _number("/", other))

    def __rtruediv__(self, other: Operand) -> Expr:
        return _two(_number("/", other), "/", self)

    def __floordiv__(self, other: Operand) -> Expr:
        right = _number("//", other)
        return Expr(f"(({self.text} - {_remainder(self, right).text}) // {right.text})", self.name)

    def __mod__(self, other: Operand) -> Expr:
        return _remainder(self, _number("%", other))

    def __rmod__(self, other: Operand) -> Expr:
        return _remainder(_number("%", other), self)

    def __pow__(self, other: Operand) -> Expr:
        return _call("pow", self, _number("**", other))

    def __neg__(self) -> Expr:
        return Expr(f"(- {self.text})", self.name)

    def abs(self) -> Expr:
        """Returns the value without its sign."""
        return _call("abs", self)

    def round(self, digits: int = 0) -> Expr:
        """Rounds to so many digits behind the point."""
        return _call("round", self, lit(digits))

    def floor(self) -> Expr:
        """Returns the greatest whole number that is not greater."""
        return _call("floor", self)

    def ceil(self) -> Expr:
        """Returns the least whole number that is not less."""
        return _call("ceil", self)

    def sqrt(self) -> Expr:
        """Returns the square root; of a negative number it is an error when its row is read."""
        return _call("sqrt", self)

    def clip(self, low: Operand, high: Operand) -> Expr:
        """Returns the value, or the bound that it exceeds; null stays null."""
        within = f"least(greatest({self.text}, {lit(low).text}), {lit(high).text})"
        return Expr(f"(CASE WHEN {self.text} IS NOT NULL THEN {within} END)", self.name)

    # --- comparisons -------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # an expression, not a truth value
        return _two(self, "=", _compared("==", "is_null()", other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]  # as __eq__
        return _two(self, "<>", _compared("!=", "is_not_null()", other))

    def __lt__(self, other: Operand) -> Expr:
        return _two(self, "<", lit(other))

    def __le__(self, other: Operand) -> Expr:
        return _two(self, "<=", lit(other))

    def __gt__(self, other: Operand) -> Expr:
        return _two(self, ">", lit(other))

    def __ge__(self, other: Operand) -> Expr:
        return _two(self, ">=", lit(other))

    __hash__ = None  # type: ignore[assignment]  # equal is no answer here

    def between(self, low: Operand, high: Operand) -> Expr:
        """Whether the value is neither below ``low`` nor above ``high``."""
        return Expr(f"({self.text} BETWEEN {lit(low).text} AND {lit(high).text})", self.name)

    def is_in(self, values: Iterable[Operand]) -> Expr:
        """Whether the value is one of a list, which is not empty; ``isin`` is the same."""
        if isinstance(values, str | bytes | Expr) or not isinstance(values, Iterable):
            raise OptionsError(f"is_in got {shown(values)}; give a list of values")
        listed = [lit(value).text for value in values]
        if not listed:
            return Expr("false", self.name)
        return Expr(f"({self.text} IN ({', '.join(listed)}))", self.name)

    def is_null(self) -> Expr:
        """Whether the value is null."""
        return Expr(f"({self.text} IS NULL)", self.name)

    def is_not_null(self) -> Expr:
        """Whether the value is not null."""
        return Expr(f"({self.text} IS NOT NULL)", self.name)

    def is_nan(self) -> Expr:
        """Whether a float is NaN, which is not null."""
        return _call("isnan", self)

    def fill_null(self, value: Operand) -> Expr:
        """Returns the value, or another in the place of null."""
        return _call("coalesce", self, lit(value))

    # The names by which users of Polars and pandas know these.
    is_between, isin = between, is_in
    isna = isnull = is_null
    notna = notnull = is_not_null

    # --- truth values ------------------------------------------------------------------------------------------

    def __and__(self, other: Operand) -> Expr:
        return _two(self, "AND", _condition("&", other))

    def __rand__(self, other: Operand) -> Expr:
        return _two(_condition("&", other), "AND", self)

    def __or__(self, other: Operand) -> Expr:
        return _two(self, "OR", _condition("|", other))

    def __ror__(self, other: Operand) -> Expr:
        return _two(_condition("|", other), "OR", self)

    def __invert__(self) -> Expr:
        return Expr(f"(NOT {self.text})", self.name)

    # --- aggregates, for groups --------------------------------------------------------------------------------

    def sum(self) -> Aggregation:
        """Returns the sum over a group, for ``agg``; so do the others of these methods."""
        return self._aggregated("sum")

    def mean(self) -> Aggregation:
        """Returns the mean."""
        return self._aggregated("mean")

    def min(self) -> Aggregation:
        """Returns the least value."""
        return self._aggregated("min")

    def max(self) -> Aggregation:
        """Returns the greatest value."""
        return self._aggregated("max")

    def count(self) -> Aggregation:
        """Returns the number of values that are not null."""
        return self._aggregated("count")

    def n_unique(self) -> Aggregation:
        """Returns the number of different values that are not null."""
        return self._aggregated("count_distinct")

    def first(self) -> Aggregation:
        """Returns the first value in input order."""
        return self._aggregated("first")

    def last(self) -> Aggregation:
        """Returns the last value in input order."""
        return self._aggregated("last")

    def median(self) -> Aggregation:
        """Returns the median."""
        return self._aggregated("median")

    def std(self) -> Aggregation:
        """Returns the standard deviation of a sample."""
        return self._aggregated("std")

    def var(self) -> Aggregation:
        """Returns the variance of a sample."""
        return self._aggregated("var")

    def quantile(self, fraction: float) -> Aggregation:
        """Returns the quantile at a fraction, exactly."""
        return self._aggregated("quantile", fraction)

    def any(self) -> Aggregation:
        """Returns whether a condition holds anywhere."""
        return self._aggregated("bool_or")

    def all(self) -> Aggregation:
        """Returns whether a condition holds everywhere."""
        return self._aggregated("bool_and")

    def implode(self) -> Aggregation:
        """Returns the list of all values, with nulls, in input order."""
        return self._aggregated("list")

    def approx_n_unique(self) -> Aggregation:
        """Returns about the number of different values."""
        return self._aggregated("approx_count_distinct")

    def _aggregated(self, function: str, *parameter: float) -> Aggregation:
        given = ", ".join([self.text, *(lit(each).text for each in parameter)])
        return Aggregation(f"{function}({given})", self.name)

    # --- window functions --------------------------------------------------------------------------------------

    def shift(self, n: int = 1, fill_value: Operand = None) -> Expr:
        """Returns the value n rows before, or behind for a negative n, for ``over``; ``lag`` is the same.

        Args:
            n: Number of rows in the order of ``over``.
            fill_value: The value where there is no such row; default: null.
        """
        if not is_whole(n):
            raise OptionsError(
                f"shift got {shown(n)}; give a number of rows, such as 1 for the row before"
            )
        default = "" if fill_value is None else f", {lit(fill_value).text}"
        return Expr(f"lag({self.text}, {n}{default})", self.name)

    def lead(self, n: int = 1, fill_value: Operand = None) -> Expr:
        """Returns the value n rows behind, as ``shift`` returns those before."""
        return self.shift(-n, fill_value)

    def over(
        self,
        *partition_by: Columns,
        order_by: Columns = (),
        descending: bool | Sequence[bool] = False,
        nulls: str | Sequence[str] = "last",
        frame: RowFrame | None = None,
        range_frame: RangeFrame | None = None,
    ) -> Expr:
        """Makes a function a window function: a value for each row, from the rows of the same keys.

        For example ``xs.col("x").sum().over("k")``, ``xs.row_number().over("k", order_by="t")``, and
        ``xs.col("x").shift(1).over("k", order_by="t")``.

        Args:
            *partition_by: The keys, as names, expressions or lists of them; without any, all rows are one key.
            order_by: The order of the rows of a key. With it, and without a frame, an aggregate is of all rows up to
                this one and those of equal order, as in SQL (not so in Polars).
            descending: As in ``sort``.
            nulls: As in ``sort``.
            frame: The first and last row that count, from the row itself: ``(-2, 0)`` is a row and the two before it,
                ``(None, None)`` all rows of the key.
            range_frame: The same as distances of the values of ``order_by``, numbers or timedeltas.

        Raises:
            OptionsError: Something else, or a column, which is no function of several rows.
        """
        if self.is_column:
            raise OptionsError(
                f"over() got the column {self.name!r}; write a function before it, such as "
                f"xs.col({self.name!r}).sum().over(keys) or xs.col({self.name!r}).shift(1).over(keys, order_by=...)"
            )
        ordered = order_sql(_columns_sql("order_by", [order_by]), descending, nulls)
        keys = _columns_sql("partition_by", partition_by)
        clause = over_clause(keys, ordered, frame_sql(frame, range_frame))
        return Expr(f"({self.text} {clause})", self.name)

    lag = shift

    # --- types and text ----------------------------------------------------------------------------------------

    def cast(self, kind: str | type | pa.DataType) -> Expr:
        """Gives the value another type; a value that does not fit is an error when its row is read.

        Args:
            kind: A name such as ``"float64"``, ``"text"`` or ``"decimal(10,2)"``, a pyarrow type, or ``int``,
                ``float``, ``str`` or ``bool``.

        Raises:
            OptionsError: Another type.
        """
        return Expr(f"CAST({self.text} AS {type_text(kind)})", self.name)

    @property
    def str(self) -> Texts:
        """Functions of text: ``col("s").str.lower()``."""
        return Texts(self)

    @property
    def dt(self) -> Moments:
        """Parts of dates and timestamps: ``col("ts").dt.year()``."""
        return Moments(self)

    @property
    def list(self) -> Lists:
        """Functions of lists: ``col("items").list.len()``."""
        return Lists(self)


@dataclass(frozen=True, eq=False, repr=False)
class Aggregation(Expr):
    """An aggregate of an expression, for ``agg``: ``(xs.col("price") * xs.col("quantity")).sum()``.

    It can be computed with like any expression: ``agg(xs.col("x").sum() / xs.len())``.
    """

    def alias(self, name: str) -> Aggregation:
        """Gives its column another name."""
        return Aggregation(self.text, _name("alias", name))

    def over(self, *partition_by: Columns, **order: Any) -> Expr:
        """Makes it a window function, with the arguments of ``Expr.over``."""
        # Aggregates choose values that are not null; window functions of these names choose any, as in SQL.
        is_choice = self.text.startswith(("first(", "last("))
        text = f"{self.text[:-1]} IGNORE NULLS)" if is_choice else self.text
        return Expr(text, self.name).over(*partition_by, **order)


@dataclass(frozen=True)
class Texts:
    """Functions of text."""

    expression: Expr

    def contains(self, pattern: Operand, *, literal: bool = False) -> Expr:
        """Whether a regular expression matches a part of the text; with ``literal``, whether it has this part."""
        return _call("contains" if literal else "regexp_matches", self.expression, lit(pattern))

    def starts_with(self, start: Operand) -> Expr:
        """Whether the text starts so; ``startswith`` is the same."""
        return _call("starts_with", self.expression, lit(start))

    def ends_with(self, end: Operand) -> Expr:
        """Whether the text ends so; ``endswith`` is the same."""
        return _call("ends_with", self.expression, lit(end))

    def lower(self) -> Expr:
        """Returns the text in small letters; ``to_lowercase`` is the same."""
        return _call("lower", self.expression)

    def upper(self) -> Expr:
        """Returns the text in capital letters; ``to_uppercase`` is the same."""
        return _call("upper", self.expression)

    def len(self) -> Expr:
        """Returns the number of characters; ``len_chars`` is the same."""
        return _call("length", self.expression)

    def replace(self, old: Operand, new: Operand) -> Expr:
        """Replaces every occurrence of a text; ``replace_all`` is the same."""
        return _call("replace", self.expression, lit(old), lit(new))

    def strip(self) -> Expr:
        """Returns the text without spaces at its ends; ``strip_chars`` is the same."""
        return _call("trim", self.expression)

    def split(self, by: Operand) -> Expr:
        """Returns the list of the parts between the occurrences of a text."""
        return _call("string_split", self.expression, lit(by))

    def to_datetime(self, form: str) -> Expr:
        """Reads a timestamp: ``to_datetime("%Y-%m-%d %H:%M:%S")``; text of another form is an error."""
        return _call("strptime", self.expression, lit(form))

    def to_date(self, form: str = "%Y-%m-%d") -> Expr:
        """Reads a date, as ``to_datetime`` reads a timestamp."""
        return self.to_datetime(form).cast("date")

    def slice(self, offset: int, length: int) -> Expr:
        """Returns so many characters from a place on, which is 0 for the first one and -1 for the last."""
        for each in (offset, length):
            if not is_whole(each):
                raise OptionsError(
                    f"slice got {shown(each)}; give a place and a number of characters"
                )
        return _call(
            "substr", self.expression, lit(offset + 1 if offset >= 0 else offset), lit(length)
        )

    startswith, endswith = starts_with, ends_with
    to_lowercase, to_uppercase, len_chars = lower, upper, len  # noqa: A003  ours
    replace_all, strip_chars = replace, strip


@dataclass(frozen=True)
class Moments:
    """Parts of dates and timestamps, as numbers, and these as text."""

    expression: Expr

    def year(self) -> Expr:
        """Returns the year."""
        return _call("year", self.expression)

    def month(self) -> Expr:
        """Returns the month, from 1."""
        return _call("month", self.expression)

    def day(self) -> Expr:
        """Returns the day of the month, from 1."""
        return _call("day", self.expression)

    def hour(self) -> Expr:
        """Returns the hour, from 0."""
        return _call("hour", self.expression)

    def minute(self) -> Expr:
        """Returns the minute, from 0."""
        return _call("minute", self.expression)

    def second(self) -> Expr:
        """Returns the second, from 0."""
        return _call("second", self.expression)

    def quarter(self) -> Expr:
        """Returns the quarter, from 1."""
        return _call("quarter", self.expression)

    def strftime(self, form: str) -> Expr:
        """Writes it as text: ``strftime("%d/%m/%Y")``; ``to_string`` is the same."""
        return _call("strftime", self.expression, lit(form))

    def date(self) -> Expr:
        """Returns the date of a timestamp."""
        return self.expression.cast("date")

    def weekday(self) -> Expr:
        """Returns the day of the week, from 1 for Monday to 7."""
        return _call("isodow", self.expression)

    def truncate(self, unit: str) -> Expr:
        """Returns the begin of the ``"year"``, ``"month"``, ``"day"``, ``"hour"`` or other unit of ``date_trunc``."""
        return Expr(f"date_trunc({lit(unit).text}, {self.expression.text})", self.expression.name)

    to_string = strftime


@dataclass(frozen=True)
class Lists:
    """Functions of lists."""

    expression: Expr

    def len(self) -> Expr:
        """Returns the number of values, nulls among them."""
        return _call("len", self.expression)

    def first(self) -> Expr:
        """Returns the first value; null where there is none."""
        return self.get(0)

    def last(self) -> Expr:
        """Returns the last value; null where there is none."""
        return self.get(-1)

    def get(self, index: int) -> Expr:
        """Returns the value at a place, from 0, or from -1 at the end; null where there is none."""
        if not is_whole(index):
            raise OptionsError(f"get got {shown(index)}; give a place, 0 for the first value")
        return _call("list_extract", self.expression, lit(index + 1 if index >= 0 else index))

    def contains(self, value: Operand) -> Expr:
        """Whether one of the values is this one."""
        return _call("list_contains", self.expression, lit(value))


def col(name: str) -> Expr:
    """Returns the expression that is a column: ``dataset.filter((xs.col("x") > 3) & xs.col("s").is_in(["a", "b"]))``.

    Raises:
        OptionsError: Something else than a name.
    """
    return Expr(quoted(_name("col", name)), name)


def sql(text: str) -> Expr:
    """Returns the expression that some SQL is, to go with others: ``xs.col("x") > xs.sql("length(s) + 1")``.

    Raises:
        OptionsError: No text. SQL that cannot be read is refused where the expression is used.
    """
    given: Any = text
    if not isinstance(given, str) or not given.strip():
        raise OptionsError(f'sql got {shown(given)}; write SQL as text, such as "price > 3"')
    return Expr(f"({given})")


def lit(value: Any) -> Expr:
    """Returns the expression that is a value, the same for all rows; an expression as it is.

    Args:
        value: None, a truth value, a number, text, bytes, or a date, time, timestamp or timedelta.

    Raises:
        OptionsError: A value of another kind.
    """
    if isinstance(value, Expr):
        return value
    if hasattr(value, "item") and hasattr(value, "dtype"):  # a number of NumPy
        value = value.item()
    text = literal(value)
    if text is None:
        raise OptionsError(
            f"an expression cannot hold {shown(value)}; give a number, text, a date or another expression"
        )
    return Expr(text)


def text_of_expression(given: Any) -> Any:
    """Returns the SQL of an expression; anything else as it is.

    Raises:
        OptionsError: A function of an expression that was not called.
    """
    if isinstance(getattr(given, "__self__", None), Expr | Texts | Moments | Lists):
        raise OptionsError(
            f"an expression is the function {given.__name__}; write {given.__name__}()"
        )
    _refuse_aggregate(given)
    return given.text if isinstance(given, Expr) else given


def _refuse_aggregate(given: object) -> None:
    """Raises ``OptionsError`` for an aggregate where a value for each row is needed."""
    if isinstance(given, Aggregation):
        raise OptionsError(
            f"{given.text} has no value for each row; write over(keys) behind it, over() for all rows as one key, or "
            "give it to agg()"
        )


def named_expressions(call: str, given: Iterable[Any]) -> dict[str, str]:
    """Returns the SQL of expressions by their names.

    Raises:
        OptionsError: Something else, an expression without a name, or a name twice.
    """
    found: dict[str, str] = {}
    for each in given:
        _refuse_aggregate(each)
        if not isinstance(each, Expr):
            raise OptionsError(
                f'{call} got {shown(each)}; give xs.col(...).alias("name"), or name="SQL"'
            )
        if each.name is None:
            raise OptionsError(
                f'{call} got the expression {shown(each)} without a name; add .alias("name"), or write name=...'
            )
        if each.name in found:
            raise OptionsError(
                f"{call} would give two columns the name {each.name!r}; add .alias()"
            )
        found[each.name] = each.text
    return found


def function_texts(named: Iterable[Any], functions: Mapping[str, Any]) -> dict[str, str]:
    """Returns functions of several rows, without OVER, as SQL by the names of their columns.

    Raises:
        OptionsError: None, something else, or a name twice.
    """
    found: dict[str, str] = {}
    for name, each in [
        *((getattr(each, "name", None), each) for each in named),
        *functions.items(),
    ]:
        text = each.text if isinstance(each, Expr) else each
        if not isinstance(text, str) or not name:
            raise OptionsError(
                f'window got {shown(each)}; write name="sum(x)", or xs.col("x").sum().alias("name")'
            )
        if "(" not in text or re.search(r"\bover\b", text, re.IGNORECASE):
            raise OptionsError(
                f'window has {name}={text!r}; write a function with its arguments, such as "row_number()" or "sum(x)", '
                "and for expressions with OVER with_columns()"
            )
        if name in found:
            raise OptionsError(f"window would give two columns the name {name!r}; add .alias()")
        found[name] = text
    if not found:
        raise OptionsError('window needs at least one function, for example n="row_number()"')
    return found


def _columns_sql(argument: str, given: Iterable[Any]) -> list[str]:
    """Returns columns as SQL; each may be a name, an expression, or a list of these."""
    found = []
    for each in given:
        if isinstance(each, list | tuple):
            found += _columns_sql(argument, each)
        elif isinstance(each, Expr):
            found.append(each.text)
        else:
            found.append(quoted(_name(argument, each)))
    return found


def _name(call: str, name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise OptionsError(f"{call} got {shown(name)}; give the name of a column as text")
    return name


def _two(left: Expr, operator: str, right: Expr) -> Expr:
    name = left.name if left.name is not None else right.name
    return Expr(f"({left.text} {operator} {right.text})", name)


def _call(function: str, *arguments: Expr) -> Expr:
    return Expr(f"{function}({', '.join(each.text for each in arguments)})", arguments[0].name)


def _remainder(left: Expr, right: Expr) -> Expr:
    """Returns the remainder with the sign of the divisor; that of SQL has the sign of the dividend."""
    rest = f"({left.text} % {right.text})"
    text = f"(({rest} + {right.text}) % {right.text})"
    return Expr(text, left.name if left.name is not None else right.name)


def _number(operator: str, other: Operand) -> Expr:
    if isinstance(other, str):
        raise OptionsError(
            f"{operator} got the text {shown(other)}; write xs.col({other!r}) for a column, or xs.sql() for SQL"
        )
    return lit(other)


def _condition(operator: str, other: Operand) -> Expr:
    if isinstance(other, str):
        raise OptionsError(
            f"{operator} got the text {shown(other)}; write xs.sql({other!r}) for SQL, or xs.col() for a column"
        )
    if not isinstance(other, Expr | bool):
        raise OptionsError(
            f"{operator} got {shown(other)}; put parentheses around comparisons, as in (a > 1) {operator} (b < 2)"
        )
    return lit(other)


def _compared(operator: str, instead: str, other: object) -> Expr:
    if other is None:
        raise OptionsError(f"{operator} None is null for every row; write {instead}")
    return lit(other)
