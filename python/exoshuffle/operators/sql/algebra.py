"""``Algebra``: the operators of expressions, and the functions that stand for one."""

from __future__ import annotations

from collections.abc import Iterable

from exoshuffle.errors import OptionsError, shown
from exoshuffle.operators.sql.terms import AnyTerm, E, Operand, Term, called, operand


class Algebra(Term[E]):
    """An expression's arithmetic, comparisons and truth values."""

    # --- arithmetic --------------------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> E:
        operator = "||" if isinstance(other, str) else "+"
        return self._two(self, operator, operand(other))

    def __radd__(self, other: Operand) -> E:
        operator = "||" if isinstance(other, str) else "+"
        return self._two(operand(other), operator, self)

    def __sub__(self, other: Operand) -> E:
        return self._two(self, "-", _number("-", other))

    def __rsub__(self, other: Operand) -> E:
        return self._two(_number("-", other), "-", self)

    def __mul__(self, other: Operand) -> E:
        return self._two(self, "*", _number("*", other))

    def __rmul__(self, other: Operand) -> E:
        return self._two(_number("*", other), "*", self)

    def __truediv__(self, other: Operand) -> E:
        return self._two(self, "/", _number("/", other))

    def __rtruediv__(self, other: Operand) -> E:
        return self._two(_number("/", other), "/", self)

    def __floordiv__(self, other: Operand) -> E:
        right = _number("//", other)
        return self._made(
            f"(({self.text} - {self._remainder(self, right).text}) // {right.text})", self.name
        )

    def __mod__(self, other: Operand) -> E:
        return self._remainder(self, _number("%", other))

    def __rmod__(self, other: Operand) -> E:
        return self._remainder(_number("%", other), self)

    def __pow__(self, other: Operand) -> E:
        return called("pow", self, _number("**", other))

    def __neg__(self) -> E:
        return self._made(f"(- {self.text})", self.name)

    def abs(self) -> E:
        """Returns the value without its sign."""
        return called("abs", self)

    def round(self, digits: int = 0) -> E:
        """Rounds to so many digits behind the point."""
        return called("round", self, operand(digits))

    def floor(self) -> E:
        """Returns the greatest whole number that is not greater."""
        return called("floor", self)

    def ceil(self) -> E:
        """Returns the least whole number that is not less."""
        return called("ceil", self)

    def sqrt(self) -> E:
        """Returns the square root; of a negative number it is an error when its row is read."""
        return called("sqrt", self)

    def clip(self, low: Operand, high: Operand) -> E:
        """Returns the value, or the bound that it exceeds; null stays null."""
        within = f"least(greatest({self.text}, {operand(low).text}), {operand(high).text})"
        return self._made(f"(CASE WHEN {self.text} IS NOT NULL THEN {within} END)", self.name)

    # --- comparisons -------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> E:  # type: ignore[override]  # an expression, not a truth value
        return self._two(self, "=", _compared("==", "is_null()", other))

    def __ne__(self, other: object) -> E:  # type: ignore[override]  # as __eq__
        return self._two(self, "<>", _compared("!=", "is_not_null()", other))

    def __lt__(self, other: Operand) -> E:
        return self._two(self, "<", operand(other))

    def __le__(self, other: Operand) -> E:
        return self._two(self, "<=", operand(other))

    def __gt__(self, other: Operand) -> E:
        return self._two(self, ">", operand(other))

    def __ge__(self, other: Operand) -> E:
        return self._two(self, ">=", operand(other))

    __hash__ = None  # type: ignore[assignment]  # equal is no answer here

    def between(self, low: Operand, high: Operand) -> E:
        """Whether the value is neither below ``low`` nor above ``high``."""
        return self._made(
            f"({self.text} BETWEEN {operand(low).text} AND {operand(high).text})", self.name
        )

    def is_in(self, values: Iterable[Operand]) -> E:
        """Whether the value is one of a list, which is not empty; ``isin`` is the same."""
        if isinstance(values, str | bytes | Term) or not isinstance(values, Iterable):
            raise OptionsError(f"is_in got {shown(values)}; give a list of values")
        listed = [operand(value).text for value in values]
        if not listed:
            return self._made("false", self.name)
        return self._made(f"({self.text} IN ({', '.join(listed)}))", self.name)

    def is_null(self) -> E:
        """Whether the value is null."""
        return self._made(f"({self.text} IS NULL)", self.name)

    def is_not_null(self) -> E:
        """Whether the value is not null."""
        return self._made(f"({self.text} IS NOT NULL)", self.name)

    def is_nan(self) -> E:
        """Whether a float is NaN, which is not null."""
        return called("isnan", self)

    def fill_null(self, value: Operand) -> E:
        """Returns the value, or another in the place of null."""
        return called("coalesce", self, operand(value))

    # The names by which users of Polars and pandas know these.
    is_between, isin = between, is_in
    isna = isnull = is_null
    notna = notnull = is_not_null

    # --- truth values ------------------------------------------------------------------------------------------

    def __and__(self, other: Operand) -> E:
        return self._two(self, "AND", _condition("&", other))

    def __rand__(self, other: Operand) -> E:
        return self._two(_condition("&", other), "AND", self)

    def __or__(self, other: Operand) -> E:
        return self._two(self, "OR", _condition("|", other))

    def __ror__(self, other: Operand) -> E:
        return self._two(_condition("|", other), "OR", self)

    def __invert__(self) -> E:
        return self._made(f"(NOT {self.text})", self.name)

    # --- internals ---------------------------------------------------------------------------------------------

    def _two(self, left: AnyTerm, operator: str, right: AnyTerm) -> E:
        return self._made(f"({left.text} {operator} {right.text})", _name_of(left, right))

    def _remainder(self, left: AnyTerm, right: AnyTerm) -> E:
        """Returns the remainder with the sign of the divisor; that of SQL has the sign of the dividend."""
        rest = f"({left.text} % {right.text})"
        text = f"(({rest} + {right.text}) % {right.text})"
        return self._made(text, _name_of(left, right))


def _name_of(left: AnyTerm, right: AnyTerm) -> str | None:
    """Returns the name of the column that two terms make."""
    return left.name if left.name is not None else right.name


def _number(operator: str, other: Operand) -> AnyTerm:
    if isinstance(other, str):
        raise OptionsError(
            f"{operator} got the text {shown(other)}; write xs.col({other!r}) for a column, or xs.sql() for SQL"
        )
    return operand(other)


def _condition(operator: str, other: Operand) -> AnyTerm:
    if isinstance(other, str):
        raise OptionsError(
            f"{operator} got the text {shown(other)}; write xs.sql({other!r}) for SQL, or xs.col() for a column"
        )
    if not isinstance(other, Term | bool):
        raise OptionsError(
            f"{operator} got {shown(other)}; put parentheses around comparisons, as in (a > 1) {operator} (b < 2)"
        )
    return operand(other)


def _compared(operator: str, instead: str, other: object) -> AnyTerm:
    if other is None:
        raise OptionsError(f"{operator} None is null for every row; write {instead}")
    return operand(other)
