"""Functions of several expressions or none: Polars' ``when``, ``coalesce``, ``corr``, ``cov`` and ``len``."""

from __future__ import annotations

from exoshuffle.errors import OptionsError, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.sql.expressions import Aggregation, Expr, col, lit
from exoshuffle.operators.sql.terms import Operand


@dataclass(frozen=True)
class When:
    """A condition that waits for its value.

    Attributes:
        chosen: The expression before it, as SQL.
        condition: The condition.
    """

    chosen: str
    condition: Expr

    def then(self, value: Operand) -> Then:
        """Gives the value where the condition holds. Text is a value; ``xs.col`` names a column."""
        chosen = f"{self.chosen} WHEN {self.condition.text} THEN {lit(value).text}"
        return Then(f"({chosen} END)", None, chosen)


@dataclass(frozen=True, eq=False, repr=False)
class Then(Expr):
    """Conditions with their values, in the order in which they are tried; null where none holds.

    Attributes:
        chosen: They, as the beginning of SQL that may go on.
    """

    chosen: str = ""

    def when(self, condition: Expr) -> When:
        """Adds another condition, for rows where none before holds."""
        return When(self.chosen, _condition(condition))

    def otherwise(self, value: Operand) -> Expr:
        """Gives the value where no condition holds, and the expression."""
        return Expr(f"({self.chosen} ELSE {lit(value).text} END)")


def when(condition: Expr) -> When:
    """Chooses values by conditions: ``xs.when(xs.col("x") > 1).then("big").otherwise("small").alias("size")``.

    Raises:
        OptionsError: The condition is no expression.
    """
    return When("CASE", _condition(condition))


def coalesce(*given: str | Expr) -> Expr:
    """Returns the first value that is not null: ``xs.coalesce("a", "b", xs.lit(0))``.

    Args:
        *given: Names of columns, or expressions.

    Raises:
        OptionsError: Nothing, or something else.
    """
    if not given:
        raise OptionsError("coalesce got nothing; give names of columns, or expressions")
    listed = [each if isinstance(each, Expr) else col(each) for each in given]
    return Expr(f"coalesce({', '.join(each.text for each in listed)})", listed[0].name)


def len() -> Aggregation:  # noqa: A001  called as xs.len
    """Returns the number of rows of a group, for ``agg``: ``agg(xs.len())``, whose column is named ``len``."""
    return Aggregation("count(*)", "len")


def corr(y: str | Expr, x: str | Expr) -> Aggregation:
    """Returns Pearson's correlation of two columns or expressions, for ``agg``: ``agg(r=xs.corr("price", "weight"))``.

    Rows count that have both. It is NaN where all values of a column are equal, or one is infinite.

    Raises:
        OptionsError: Something else than names and expressions.
    """
    return _of_two("corr", y, x)


def cov(y: str | Expr, x: str | Expr) -> Aggregation:
    """Returns the covariance of a sample (n - 1) of two columns or expressions, for ``agg``; see ``corr``."""
    return _of_two("covar_samp", y, x)


def _of_two(function: str, y: str | Expr, x: str | Expr) -> Aggregation:
    first, second = (each if isinstance(each, Expr) else col(each) for each in (y, x))
    return Aggregation(f"{function}({first.text}, {second.text})", first.name)


def _condition(given: object) -> Expr:
    if not isinstance(given, Expr):
        raise OptionsError(
            f'when got {shown(given)}; give a condition, such as xs.col("x") > 3 or xs.sql("x > 3")'
        )
    return given
