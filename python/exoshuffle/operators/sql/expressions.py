"""Expressions as Python objects: ``col("x") > 3``. Each is the SQL text that the same expression has as text.

Guarantee: an object adds nothing that text could not say, so both are checked, computed and pushed down alike. Every
part is in parentheses, and every name and value is quoted, so no name or value can become SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from exoshuffle.arguments import is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.sql.algebra import Algebra
from exoshuffle.operators.sql.elsewhere import ON_EXPRESSIONS, remedy_for
from exoshuffle.operators.sql.literals import quoted, type_text
from exoshuffle.operators.sql.namespaces import IN_SQL, Lists, Moments, Texts, within
from exoshuffle.operators.sql.over import (
    RangeFrame,
    RowFrame,
    frame_sql,
    order_sql,
    over_clause,
)
from exoshuffle.operators.sql.terms import Operand, operand

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns as a name, an expression, or a list of these.
Columns: TypeAlias = "str | Expr | Sequence[str | Expr]"


class Expr(Algebra["Expr"]):
    """An expression over the columns of a row; made by ``col``, ``lit`` and ``sql``, and of others by operators.

    Null comes of null, as in SQL: ``col("x") == 3`` is null where x is, and a filter leaves such a row out. ``%`` has
    the sign of the divisor, as in Python. ``and``, ``or`` and ``not`` are written ``&``, ``|`` and ``~``, with
    parentheses around comparisons. A difference of timestamps is a duration, and one of dates a number of days.

    Attributes:
        text: The expression as SQL.
        name: The name of its column in a result; None if it has none yet.
    """

    def __repr__(self) -> str:
        return f"col({self.name!r})" if self.is_column else f"sql({self.text!r})"

    @property
    def is_column(self) -> bool:
        """Whether it is a column under its own name, and nothing more."""
        return self.name is not None and self.text == quoted(self.name)

    if not TYPE_CHECKING:  # else every name that is wrong would seem right

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"an expression has no attribute {name!r}")
            remedy = remedy_for(name, ON_EXPRESSIONS, Expr) or within(name) or IN_SQL
            remedy = remedy.replace('"x"', repr(self.name or "x"))
            # With an object of its own, Python suggests no other name behind the remedy.
            raise AttributeError(
                f"an expression has no attribute {name!r}; {remedy}", name=name, obj=None
            )

    def __bool__(self) -> bool:
        raise OptionsError(
            f"the expression {shown(self)} has a value for each row, so none by itself. Write & for and, | for or, ~ "
            "for not, between(low, high) for low <= x <= high, and is_in for in"
        )

    def _made(self, text: str, name: str | None) -> Expr:
        return Expr(text, name)

    def alias(self, name: str) -> Expr:
        """Gives its column a name, for ``select`` and ``with_columns``."""
        return Expr(self.text, _name("alias", name))

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
        default = "" if fill_value is None else f", {operand(fill_value).text}"
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
                this one and those of equal order. SQL has it so, and Polars has not.
            descending: As in ``sort``.
            nulls: As in ``sort``.
            frame: The first and last row that count, from the row itself. So ``(-2, 0)`` is a row and the two before
                it, ``(None, None)`` all rows of the key.
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
    def str(self) -> Texts[Expr]:
        """Functions of text: ``col("s").str.lower()``."""
        return Texts(self)

    @property
    def dt(self) -> Moments[Expr]:
        """Parts of dates and timestamps: ``col("ts").dt.year()``."""
        return Moments(self)

    @property
    def list(self) -> Lists[Expr]:
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


def col(name: str) -> Expr:
    """Returns the expression that is a column: ``dataset.filter((xs.col("x") > 3) & xs.col("s").is_in(["a", "b"]))``.

    Raises:
        OptionsError: Something else than a name.
    """
    return Expr(_column_sql("col", name), name)


def sql(text: str) -> Expr:
    """Returns the expression that some SQL is, to go with others: ``xs.col("x") > xs.sql("length(s) + 1")``.

    Raises:
        OptionsError: No text. SQL that cannot be read is refused where the expression is used.
    """
    given: Any = text
    if not isinstance(given, str) or not given.strip():
        raise OptionsError(f'sql got {shown(given)}; write SQL as text, such as "price > 3"')
    return Expr(f"({given})")


def lit(value: object) -> Expr:
    """Returns the expression that is a value, the same for all rows; an expression as it is.

    Args:
        value: None, a truth value, a number, text, bytes, or a date, time, timestamp or timedelta.

    Raises:
        OptionsError: A value of another kind.
    """
    return value if isinstance(value, Expr) else Expr(operand(value).text)


def _columns_sql(argument: str, given: Iterable[object]) -> list[str]:
    """Returns columns as SQL; each may be a name, an expression, or a list of these."""
    found = []
    for each in given:
        if isinstance(each, list | tuple):
            found += _columns_sql(argument, each)
        elif isinstance(each, Expr):
            found.append(each.text)
        else:
            found.append(_column_sql(argument, each))
    return found


def _column_sql(call: str, name: object) -> str:
    """Returns a column as SQL. One whose name is empty, as pandas writes the header of an index, cannot be in SQL."""
    if name == "":
        raise OptionsError(
            f"{call} got '', and a column without a name has no name in SQL; give it one before: "
            "rename({'': 'index'})"
        )
    return quoted(_name(call, name))


def _name(call: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise OptionsError(f"{call} got {shown(name)}; give the name of a column as text")
    return name
