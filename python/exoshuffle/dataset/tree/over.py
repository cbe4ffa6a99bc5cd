"""Adds the columns of window functions to a tree, so that steps see columns where expressions have such functions."""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle.dataset.tree.nodes import MapNode, Node, ShuffleNode, ShuffleOptions
from exoshuffle.operators.sql.over import may_have_windows
from exoshuffle.operators.steps.columns import WithColumns


def with_windows(
    node: Node, texts: Sequence[str], options: ShuffleOptions
) -> tuple[Node, tuple[str, ...], tuple[str, ...]]:
    """Returns the rows with the columns of the window functions in expressions.

    Args:
        node: The rows.
        texts: Expressions as SQL.
        options: How to run the shuffles.

    Returns:
        The rows; the expressions, which name these columns; and the columns that were added. The rows are those given,
        and there are no such columns, where no expression has a window function.

    Raises:
        SchemaError: See ``parse_windows``.
    """
    if not any(map(may_have_windows, texts)):
        return node, tuple(texts), ()
    from exoshuffle.operators.over.parsing import parse_windows
    from exoshuffle.operators.over.shuffle import over_shuffle

    plan = parse_windows(texts, node.schema)
    if plan is None:
        return node, tuple(texts), ()
    if plan.before:
        node = MapNode(node, WithColumns(plan.before))
    for windows in plan.windows:
        node = ShuffleNode((node,), over_shuffle(node.schema, windows), options)
    return node, plan.texts, plan.added
