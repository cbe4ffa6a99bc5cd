"""Prunes: leaves out files, before reading their rows, if a filter on partition columns keeps no row of them.

Guarantee: the rows of the result are the same, and so are their random numbers, because files keep their numbers.
Conditions are pushed down through steps that pass columns on, and into unions. Conditions that need other columns too,
or that cannot be computed for the values of folders, leave out nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.inputs.hive import partitions_of
from exoshuffle.dataset.tree.nodes import Files, MapNode, Node, UnionNode
from exoshuffle.errors import InputError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.sql import syntax
from exoshuffle.operators.sql.evaluation import evaluated
from exoshuffle.operators.sql.parsing import parse_expression

if TYPE_CHECKING:
    import pyarrow as pa


def pruned(node: MapNode) -> MapNode:
    """Returns the tree without the files of which its last step, if that is a filter, keeps no row.

    Cost: looks at the values of the partition columns of every file, some milliseconds for thousands.
    """
    sql = node.step.condition_sql
    return node if sql is None else dataclasses.replace(node, child=without_files(node.child, sql))


def without_files(node: Node, condition: str) -> Node:
    """Returns the tree without the files of which a condition keeps no row; see ``pruned``."""
    names = {name: name for name in node.schema.names}
    return _without_files(node, _Condition(condition, node.schema), names)


@dataclass(frozen=True)
class _Condition:
    """The condition of a filter.

    Attributes:
        text: SQL.
        schema: Schema of the rows that the filter gets.
    """

    text: str
    schema: pa.Schema

    def keeps(self, values: pa.Table) -> list[bool]:
        """Says for each row of some columns whether the condition may be true, whatever the other columns hold."""
        keeps = [True] * values.num_rows
        for part in syntax.conjuncts(syntax.parse(self.text)):
            for row, value in enumerate(self._values_of(syntax.text_of(part), values)):
                keeps[row] &= value is True
        return keeps

    def _values_of(self, part: str, values: pa.Table) -> list[bool | None]:
        """Computes a part for each row; returns nothing where it needs other columns, or cannot be computed."""
        # Names are looked up in the whole schema: a name that differs in case may be another column.
        read = parse_expression(part, self.schema).columns
        if not read or not set(read) <= set(values.schema.names):
            return []
        expression = parse_expression(part, values.select(read).schema)
        try:
            found = [mask.to_pylist() for _, [mask] in evaluated((expression,), values)]
        except InputError:  # the filter itself raises this when a row has the value, if one does
            return []
        return [value for part_of in found for value in part_of]


def _without_files(node: Node, condition: _Condition, names: Mapping[str, str]) -> Node:
    """Prunes the tree below a filter; ``names`` maps the filter's names of columns to the names in this tree."""
    if isinstance(node, Files):
        return _matching(node, condition, names)
    if isinstance(node, UnionNode):
        children = tuple(_without_files(child, condition, names) for child in node.children)
        return node if _are_same(children, node.children) else UnionNode(children)
    if isinstance(node, MapNode):
        before = node.step.names_before(names)
        if before:
            child = _without_files(node.child, condition, before)
            return node if child is node.child else MapNode(child, node.step)
    return node


def _are_same(nodes: Sequence[Node], others: Sequence[Node]) -> bool:
    """Whether nothing was left out, so that a node which several others take rows from is still one."""
    return all(node is other for node, other in zip(nodes, others, strict=True))


def _matching(node: Files, condition: _Condition, names: Mapping[str, str]) -> Files:
    values = partitions_of(node.source)
    known = [name for name, own in names.items() if own in values.schema.names]
    if not known:
        return node
    values = values.select([names[name] for name in known]).rename_columns(known)
    keeps = condition.keeps(values)
    kept = [file for file, is_kept in enumerate(keeps) if is_kept]
    if len(kept) == len(keeps):
        return node
    source = node.source.with_files(kept)
    return dataclasses.replace(
        node,
        source=source,
        left_out=node.left_out and node.left_out.within(kept),
        num_pruned=node.num_pruned + len(keeps) - len(kept),
    )
