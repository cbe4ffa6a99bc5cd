"""A shuffle to plan for a cluster that is only described: without the numbers that the plan decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exoshuffle.engines.sim.cluster.description import Cluster
from exoshuffle.engines.sim.runs.scenario import Bought, Where


@dataclass(frozen=True)
class Question:
    """A shuffle to plan.

    Attributes:
        cluster: The nodes.
        total_bytes: Size of all rows.
        cpu: Seconds of a CPU for each gigabyte, by step; see ``Scenario``.
        strategy: The name of a strategy, or ``auto``.
        num_partitions: Reduces; default: as the planner decides.
        reads, writes: See ``Scenario``.
        read_request_bytes, write_request_bytes: Size of a request to the object storage.
        bought: The things that have a price; None for no bill.
    """

    cluster: Cluster
    total_bytes: int
    cpu: Mapping[str, float]
    strategy: str = "auto"
    num_partitions: int | None = None
    reads: Where = "disk"
    writes: Where = "disk"
    read_request_bytes: int = 16 << 20
    write_request_bytes: int = 100_000_000
    bought: Bought | None = None
