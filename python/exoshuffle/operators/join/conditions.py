"""Joins by conditions: sorts them into keys, filters of one side, and filters of pairs.

Guarantee: the pairs are those for which all conditions are true. Equal columns of types that have no common one stay
conditions, which DuckDB compares as it does in a filter.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.join.join import Join, JoinOptions, parse_join
from exoshuffle.operators.join.keys import common_type
from exoshuffle.operators.join.outputs import refuse_duplicates
from exoshuffle.operators.join.ranges import ranges_of
from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.expressions import Expr
from exoshuffle.operators.sql.parsing import parse_expression

if TYPE_CHECKING:
    import pyarrow as pa

_COMPARISON = re.compile("[<>=]")


@dataclass(frozen=True)
class Conditions:
    """The conditions of a join.

    Attributes:
        keys: Columns of the left and the right side that must be equal.
        left: Conditions that name columns of the left side alone, as SQL.
        right: The same of the right side.
        both: All others.
    """

    keys: list[tuple[str, str]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    right: list[str] = field(default_factory=list)
    both: list[str] = field(default_factory=list)


def parse_conditions(
    texts: Sequence[str], left: pa.Schema, right: pa.Schema, suffix: str
) -> Conditions:
    """Returns the conditions of a join, cut at their ANDs.

    Raises:
        OptionsError, SchemaError: As ``parse_expression``, over the columns of both sides; or a column has the name of
            one of the other side.
    """
    import pyarrow as pa

    refuse_duplicates("join_where", [*left.names, *right.names], suffix)
    pairs = pa.schema([*left, *right])
    found = Conditions()
    for text in texts:
        parse_expression(text, pairs)
        for part in syntax.conjuncts(syntax.parse(text)):
            sql = syntax.text_of(part)
            names = set(parse_expression(sql, pairs).columns)
            if names and names <= set(left.names):
                found.left.append(sql)
            elif names and names <= set(right.names):
                found.right.append(sql)
            elif key := _key(part, left, right):
                found.keys.append(key)
            else:
                found.both.append(sql)
    return found


def crossing(left: pa.Schema, right: pa.Schema, both: Sequence[str]) -> Join:
    """Returns the join of all pairs, or of fewer with all for which these conditions are true."""
    made = parse_join(left, right, JoinOptions(how="cross"))
    return dataclasses.replace(made, ranges=ranges_of(both, left, right))


def refuse_condition(on: object) -> None:
    """Raises ``OptionsError`` for a condition where keys are wanted."""
    is_condition = isinstance(on, Expr) and not on.is_column
    if is_condition or (isinstance(on, str) and _COMPARISON.search(on)):
        raise OptionsError(
            f"on is the condition {shown(on)}; write join_where(other, condition), or names of columns that are equal"
        )


def _key(part: syntax.Node, left: pa.Schema, right: pa.Schema) -> tuple[str, str] | None:
    """Returns the columns of both sides that a condition says are equal; None for another condition."""
    if part["type"] != "COMPARE_EQUAL":
        return None
    sides = [part["left"], part["right"]]
    if any(side["class"] != "COLUMN_REF" or len(side["column_names"]) > 1 for side in sides):
        return None
    one, other = (side["column_names"][0] for side in sides)
    ours, theirs = (one, other) if one in left.names else (other, one)
    if ours not in left.names or theirs not in right.names:
        return None
    kind = common_type(left.field(ours).type, right.field(theirs).type)
    return None if kind is None else (ours, theirs)
