"""The parts of their files that trees read, as far as footers and folders tell."""

from __future__ import annotations

from exoshuffle import _native
from exoshuffle.dataset.inputs.narrowing import narrowed
from exoshuffle.dataset.tree.nodes import Files, MapNode, Node, UnionNode, sources
from exoshuffle.operators.steps.step import Step


def narrowings(
    node: Node, later: tuple[Step, ...] = ()
) -> list[tuple[_native.Source, _native.Source]]:
    """Returns the files below a node, whole and with the rows that filters may keep; ``later`` steps come behind it."""
    if isinstance(node, Files):
        return [(node.source, narrowed(node.source, later))]
    if isinstance(node, MapNode):
        later = (node.step, *later)
    elif not isinstance(node, UnionNode):
        later = ()
    return [found for child in node.children for found in narrowings(child, later)]


def share_read(whole: Node, filtered: Node) -> float:
    """Returns the share of a tree's rows that are read with filters in it; of its files where these tell no rows."""
    before, after = sources(whole), [left for _, left in narrowings(filtered)]
    rows = [source.rows for source in before]
    if None in rows:
        return sum(len(source.files) for source in after) / max(
            1, sum(len(source.files) for source in before)
        )
    return sum(source.rows or 0 for source in after) / max(1, sum(count or 0 for count in rows))
