"""Functions of a row's place among the rows of its keys, for ``over``: ``xs.rank().over("k", order_by="t")``."""

from __future__ import annotations

from exoshuffle.arguments import is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.operators.sql.expressions import Expr


def row_number() -> Expr:
    """Returns 1, 2, 3 … in the order of ``over``; rows of equal order come in input order."""
    return Expr("row_number()", "row_number")


def rank() -> Expr:
    """Returns 1 and the number of rows before, so that rows of equal order have one rank: 1, 1, 3."""
    return Expr("rank()", "rank")


def dense_rank() -> Expr:
    """Returns as ``rank`` does, without leaving out numbers: 1, 1, 2."""
    return Expr("dense_rank()", "dense_rank")


def percent_rank() -> Expr:
    """Returns the rank as a fraction, from 0 for the first row to 1."""
    return Expr("percent_rank()", "percent_rank")


def cume_dist() -> Expr:
    """Returns the fraction of the rows that are not behind this one in the order."""
    return Expr("cume_dist()", "cume_dist")


def ntile(n: int) -> Expr:
    """Returns the number, from 1, of the part that a row is in, if the rows are cut into n parts of about one size.

    Raises:
        OptionsError: No whole number, or less than 1.
    """
    if not is_whole(n) or n < 1:
        raise OptionsError(f"ntile got {shown(n)}; give a number of parts, at least 1")
    return Expr(f"ntile({n})", "ntile")
