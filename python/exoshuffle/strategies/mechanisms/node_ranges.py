"""Divides the partitions of a shuffle among nodes: each node has a range of them, and runs their reduces.

Source: Exoshuffle §4.1.2 and listing 7 (Luan's dissertation), where a range of reduces belongs to each worker. Then
each byte crosses the network once, however many partitions there are: it goes to the node that will reduce it.

A node has as many partitions as it has CPUs among all. On one node there is one range, without a preference.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from exoshuffle.futures import Refs, nodes

#: The pieces of a block whose slices are taken one by one. A Ray object costs its owner 1.3 KB and the cluster 0.8 ms.
#: A node that wants one slice is sent the piece around it. So there are a few pieces in each node range.
PIECES = 32


@dataclass(frozen=True)
class NodeRange:
    """Partitions in a row that belong to one node.

    Attributes:
        partitions: Their numbers.
        node: The node; None if any will do.
    """

    partitions: range
    node: str | None

    @property
    def is_all(self) -> bool:
        """Whether there is no other range."""
        return self.node is None


@dataclass(frozen=True)
class Reading:
    """The partitions and blocks that the reduces of a node read.

    Attributes:
        where: The partitions, and their node.
        blocks: The blocks that have their slices, in the order of the maps.
        num_merged: The number of maps of each block; default: one each, if there are as many blocks as maps.
    """

    where: NodeRange
    blocks: Refs
    num_merged: Sequence[int] = ()

    @property
    def partitions(self) -> range:
        """The numbers of the partitions."""
        return self.where.partitions


def node_ranges(num_partitions: int) -> list[NodeRange]:
    """Divides partitions among the nodes that are alive; a node without CPUs, or with too few, has none."""
    places = [(node.name, node.resources.get("CPU", 0)) for node in nodes()]
    places = [(name, cpus) for name, cpus in places if cpus > 0]
    total = sum(cpus for _, cpus in places)
    ranges: list[NodeRange] = []
    before = 0.0
    for name, cpus in places:
        start, before = round(num_partitions * before / total), before + cpus
        stop = round(num_partitions * before / total)
        if start < stop:
            ranges.append(NodeRange(range(start, stop), name))
    if len(ranges) < 2:
        return [NodeRange(range(num_partitions), None)]
    return ranges


def homes(ranges: Sequence[NodeRange]) -> list[str | None]:
    """Returns the node of each partition."""
    return [each.node for each in ranges for _ in each.partitions]


def by_node(readings: Sequence[Reading]) -> list[list[Reading]]:
    """Returns the readings of each node, which follow one another."""
    return [
        list(together)
        for _, together in itertools.groupby(readings, key=lambda reading: reading.where.node)
    ]


def cuts(ranges: Sequence[NodeRange], num_pieces: int = 1) -> tuple[int, ...] | None:
    """Returns where to cut a block between the ranges, and each range further: into so many pieces in all, or more.

    A single range that is in pieces is left to the engine: None.
    """
    if len(ranges) < 2:
        return None if num_pieces > 1 else ()
    found: list[int] = []
    for each in ranges:
        partitions = each.partitions
        pieces = -(-num_pieces // len(ranges))
        step = -(-len(partitions) // pieces)
        found += partitions[::step]
    return tuple(found[1:])
