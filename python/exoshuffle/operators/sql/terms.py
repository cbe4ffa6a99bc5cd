"""Terms: parts of expressions as SQL, each with the name of the column that it would make.

Guarantee: every part is in parentheses, and every name and value is quoted, so no name or value can become SQL.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any, Generic, TypeAlias, TypeVar

from exoshuffle.errors import OptionsError, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.sql.literals import literal

#: The kind of expression that operators and functions make of a term: a class that inherits from ``Term``.
E = TypeVar("E", bound="Term[Any]")
#: The values that an operator takes beside an expression.
Scalar: TypeAlias = (
    "bool | int | float | decimal.Decimal | str | bytes | dt.date | dt.time | dt.timedelta | None"
)
#: A term of any kind: what an operator computes with it does not depend on that.
AnyTerm: TypeAlias = "Term[Any]"
Operand: TypeAlias = "AnyTerm | Scalar"


@dataclass(frozen=True, eq=False)
class Term(Generic[E]):
    """A part of an expression.

    Attributes:
        text: The term as SQL.
        name: The name of its column in a result; None if it has none yet.
    """

    text: str
    name: str | None = None

    def _made(self, text: str, name: str | None) -> E:
        """Returns the expression of some SQL."""
        raise NotImplementedError


def computed(term: Term[E], text: str) -> E:
    """Returns the expression of some SQL, which makes a column of the name of a term."""
    return term._made(text, term.name)  # noqa: SLF001  a term makes its kind


def called(function: str, first: Term[E], *others: AnyTerm) -> E:
    """Returns a function of some terms, which makes a column of the name of the first."""
    given = ", ".join(each.text for each in (first, *others))
    return computed(first, f"{function}({given})")


def operand(value: object) -> AnyTerm:
    """Returns a value, the same for all rows, as a term; a term as it is.

    Raises:
        OptionsError: A value that is neither; see ``lit``.
    """
    if isinstance(value, Term):
        return value
    if hasattr(value, "item") and hasattr(value, "dtype"):  # a number of NumPy
        value = value.item()
    text = literal(value)
    if text is None:
        raise OptionsError(
            f"an expression cannot hold {shown(value)}; give a number, text, a date or another expression"
        )
    return Term(text)
