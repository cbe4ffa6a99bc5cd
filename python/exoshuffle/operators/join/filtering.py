"""Finds the conditions on rows of a join that the rows of its sides can be asked instead.

Guarantee: the rows of the join are the same, in their order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.join.join import Join
from exoshuffle.operators.sql.movable import Condition

if TYPE_CHECKING:
    import pyarrow as pa

#: The kind of join where a filter drops all rows that have none of the left side, or none of the right one.
_WITHOUT_LEFT_NULLS = {"right": "inner", "full": "left"}
_WITHOUT_RIGHT_NULLS = {"left": "inner", "full": "right"}


@dataclass(frozen=True)
class Placed:
    """A join and the places of conditions on its rows.

    Attributes:
        join: The join, of fewer rows without a match if the conditions drop some of these.
        left: Conditions on rows of the left side.
        right: Conditions on rows of the right side.
        above: Conditions on its rows.
    """

    join: Join
    left: list[Condition]
    right: list[Condition]
    above: list[Condition]


def sides_of(join: Join, conditions: Sequence[Condition]) -> Placed:
    """Returns the places of conditions. Cost: some milliseconds for each if the join keeps rows without a match."""
    for _ in range(2):  # a full join may lose the rows without left, and then those without right
        for condition in conditions:
            join = dataclasses.replace(join, how=_how_behind(join, condition))
    placed = Placed(join, [], [], [])
    equal = ({key.right: key.left for key in join.keys}, {key.left: key.right for key in join.keys})
    for condition in conditions:
        left = _on_side(join, "left", condition, equal[0])
        right = _on_side(join, "right", condition, equal[1])
        if not _is_enough(join, condition, left, right):
            placed.above.append(condition)
            continue
        placed.left.extend([] if left is None else [left])
        placed.right.extend([] if right is None else [right])
    return placed


def _how_behind(join: Join, condition: Condition) -> str:
    """Returns the kind of join that has the same rows for which a condition is true."""
    outputs = [each for each in join.outputs if each.field.name in condition.columns]
    for hows, other in ((_WITHOUT_LEFT_NULLS, "right"), (_WITHOUT_RIGHT_NULLS, "left")):
        is_of_one = all(getattr(output, other) is None for output in outputs)
        if join.how in hows and is_of_one and condition.drops_nulls(join.output_schema):
            return hows[join.how]
    return join.how


def _on_side(
    join: Join, side: str, condition: Condition, equal: Mapping[str, str]
) -> Condition | None:
    """Returns the condition on rows of a side; None if that side has not all of its columns, or equal keys."""
    schema: pa.Schema = getattr(join, side)
    names: dict[str, str] = {}
    for output in join.outputs:
        own = getattr(output, side) or equal.get(output.left or output.right or "")
        if own is not None and schema.field(own).type == output.field.type:
            names[output.field.name] = own
    return condition.renamed(names) if condition.columns <= names.keys() else None


def _is_enough(
    join: Join, condition: Condition, left: Condition | None, right: Condition | None
) -> bool:
    """Whether rows that a side drops by a condition are all that the condition drops of the join."""
    outputs = [each for each in join.outputs if each.field.name in condition.columns]
    is_left = left is not None and all(output.left for output in outputs)
    is_right = right is not None and all(output.right for output in outputs)
    if join.how == "full":
        return is_left and is_right
    if join.how == "right":
        return is_right
    if join.how in ("inner", "cross"):
        return left is not None or right is not None
    return is_left
