"""Descriptions of clusters: nodes with CPUs, memory, disks and a network, and an object storage beside them.

Guarantee: a description that cannot work (no nodes, a rate of zero) is refused when it is made. So no virtual time
passes before the error. Rates are in bytes per second; ``math.inf`` says that something is no bottleneck.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from exoshuffle.arguments import is_number, is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.futures.options import CPU, GPU


@dataclass(frozen=True)
class Disk:
    """The disks of a node, which are used together.

    Attributes:
        read_bytes_per_second: Of one disk, in large requests.
        write_bytes_per_second: Likewise.
        request_seconds: The time of a disk that each request takes beside its bytes: a seek, or a command.
        num_disks: How many there are.
        remote_read_bytes_per_second: Of one disk that reads spilled slices for other nodes, whose requests interleave;
            default: as other reads.
    """

    read_bytes_per_second: float
    write_bytes_per_second: float
    request_seconds: float = 0.0
    num_disks: int = 1
    remote_read_bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        _check_rate("read_bytes_per_second", self.read_bytes_per_second)
        _check_rate("write_bytes_per_second", self.write_bytes_per_second)
        _check_seconds("request_seconds", self.request_seconds)
        _check_count("num_disks", self.num_disks)
        if self.remote_read_bytes_per_second is not None:
            _check_rate("remote_read_bytes_per_second", self.remote_read_bytes_per_second)


@dataclass(frozen=True)
class Machine:
    """A kind of node.

    Attributes:
        num_cpus: Tasks that run at once.
        memory_bytes: The budget for blocks and the working memory of tasks.
        disk: Where blocks are spilled; None if they cannot be.
        network_bytes_per_second: Of its network interface, each way.
        num_gpus: Declared GPUs.
        resources: Further declared resources by name.
        slowness: Its tasks take so many times as long; 1 is as the cost models say.
    """

    num_cpus: int
    memory_bytes: int
    disk: Disk | None = None
    network_bytes_per_second: float = math.inf
    num_gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    slowness: float = 1.0

    def __post_init__(self) -> None:
        _check_count("num_cpus", self.num_cpus)
        _check_count("memory_bytes", self.memory_bytes)
        _check_rate("network_bytes_per_second", self.network_bytes_per_second)
        _check_rate("slowness", self.slowness)

    @property
    def amounts(self) -> dict[str, float]:
        """Its resources in all, by name."""
        return {CPU: self.num_cpus, GPU: self.num_gpus, **self.resources}


@dataclass(frozen=True)
class ObjectStorage:
    """A storage beside the cluster, which every node reaches through its network interface.

    Attributes:
        latency_seconds: From a request to its first byte.
        requests_per_second: Requests that it takes from all nodes together.
        connection_bytes_per_second: Of one connection.
        connections: Connections of one task that reads.
        write_connections: Of one that writes; default: as many.
    """

    latency_seconds: float = 0.0
    requests_per_second: float = math.inf
    connection_bytes_per_second: float = math.inf
    connections: int = 1
    write_connections: int | None = None

    def __post_init__(self) -> None:
        _check_seconds("latency_seconds", self.latency_seconds)
        _check_rate("requests_per_second", self.requests_per_second)
        _check_rate("connection_bytes_per_second", self.connection_bytes_per_second)
        _check_count("connections", self.connections)
        if self.write_connections is not None:
            _check_count("write_connections", self.write_connections)


@dataclass(frozen=True)
class Cluster:
    """The nodes of a simulation.

    Attributes:
        machines: One for each node; the first node has the program on it.
        storage: The object storage that tasks read and write; None if there is none.
        call_seconds: The time of a call of the program to the engine.
        task_seconds: The time of its CPU for starting and ending a task, beside its function.
        slice_seconds: The time for each slice that a node fetches, beside its bytes: one after the other.
        fetches_ahead: Whether a node brings the arguments of tasks before they have a CPU, as the embedded engine does.
            If not, a task has its CPU while it fetches, as in a program that counts a task as running from then on.

    Raises:
        OptionsError: There are no nodes, or a time is negative.
    """

    machines: tuple[Machine, ...]
    storage: ObjectStorage | None = None
    call_seconds: float = 1e-4
    task_seconds: float = 1e-3
    slice_seconds: float = 0.0
    fetches_ahead: bool = True

    def __post_init__(self) -> None:
        if not self.machines:
            raise OptionsError("the cluster has no nodes; give at least one Machine")
        _check_seconds("call_seconds", self.call_seconds)
        # Without it, a program that asks again and again would ask for ever at the same moment.
        _check_rate("call_seconds", self.call_seconds)
        _check_seconds("task_seconds", self.task_seconds)
        _check_seconds("slice_seconds", self.slice_seconds)

    @classmethod
    def of(cls, machine: Machine, num_nodes: int, storage: ObjectStorage | None = None) -> Cluster:
        """Returns a cluster of equal nodes."""
        return cls((machine,) * num_nodes, storage)


def node_names(cluster: Cluster) -> list[str]:
    """Returns the names of the nodes: ``node-0`` and so on."""
    return [f"node-{index}" for index in range(len(cluster.machines))]


def _check_rate(name: str, value: object) -> None:
    if not (is_number(value) and value > 0):
        raise OptionsError(
            f"{name} is {shown(value)}; nothing would ever end: it must be a number above 0"
        )


def _check_seconds(name: str, value: object) -> None:
    if not (is_number(value) and 0 <= value < math.inf):
        raise OptionsError(f"{name} is {shown(value)}; it must be a number of seconds from 0 on")


def _check_count(name: str, value: object) -> None:
    if not (is_whole(value) and int(value) >= 1):
        raise OptionsError(f"{name} is {shown(value)}; it must be a whole number from 1 on")
