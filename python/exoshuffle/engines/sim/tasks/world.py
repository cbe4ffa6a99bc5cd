"""The world of a simulation: its nodes, the time that passes, and what bytes take on their way."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Mapping

from exoshuffle.engines.sim.clock.events import Clock
from exoshuffle.engines.sim.clock.flows import Flow, Flows
from exoshuffle.engines.sim.clock.routines import Threads
from exoshuffle.engines.sim.clock.sharing import Need
from exoshuffle.engines.sim.cluster.description import Cluster, Machine, ObjectStorage, node_names
from exoshuffle.engines.sim.objects.arguments import Medium
from exoshuffle.engines.sim.objects.state import Shared
from exoshuffle.engines.sim.objects.store import Store
from exoshuffle.engines.sim.tasks.task import Place

#: Slices from more nodes than this are one flow, as of 40 nodes each has like parts, and sharing costs 40 times less.
MOST_FLOWS = 8
#: The object storage, as a resource.
STORAGE_REQUESTS: Hashable = ("storage", "requests")


class World:
    """All that the parts of the engine share.

    Args:
        cluster: The description.
        seed: Decides the order of events of one moment.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.clock = Clock(seed)
        self.threads = Threads()
        self.shared = Shared()
        self.numbers = itertools.count()
        self.counts: Counter[str] = Counter()
        self.flows = Flows(self.clock, _capacities(cluster))
        self.places = {
            name: Place(name, machine, self._store(name, machine))
            for name, machine in zip(node_names(cluster), cluster.machines, strict=True)
        }

    def alive(self) -> list[Place]:
        """Returns the nodes that have not died."""
        return [place for place in self.places.values() if place.is_alive]

    def fetch(
        self, place: Place, taken: Mapping[Medium, tuple[int, int]], done: Callable[[], None]
    ) -> dict[Flow, None]:
        """Brings bytes to a node, from all of their places at once; returns the flows, in order.

        Args:
            place: Where to.
            taken: Bytes and requests, by where they lie.
            done: Called when all have arrived.
        """
        sources: dict[str, dict[Medium, tuple[int, int]]] = {}
        for medium, amounts in taken.items():
            sources.setdefault(medium[0], {})[medium] = amounts
        each = list(sources.values()) if len(sources) <= MOST_FLOWS else [taken]
        left = len(each)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                done()

        return dict.fromkeys(self._flow(place, part, one_less) for part in each)

    def _flow(
        self, place: Place, taken: Mapping[Medium, tuple[int, int]], done: Callable[[], None]
    ) -> Flow:
        """Brings bytes to a node in one flow, whose parts arrive at the same moment."""
        total = max(1, sum(num_bytes for num_bytes, _ in taken.values()))
        per_byte: dict[Hashable, float] = {}

        def add(resource: Hashable, units: float) -> None:
            per_byte[resource] = per_byte.get(resource, 0.0) + units / total

        for (name, in_memory), (num_bytes, requests) in taken.items():
            add((place.name, "slices"), requests * self.cluster.slice_seconds)
            if not in_memory:
                machine, is_far = self.places[name].machine, name != place.name
                seconds = _disk_seconds(machine, num_bytes, requests, is_far=is_far)
                add((name, "disk"), seconds)
                self.counts["disk_requests"] += requests
                self.counts["restored_bytes"] += num_bytes
            if name != place.name:
                add((name, "out"), num_bytes)
                add((place.name, "in"), num_bytes)
                self.counts["network_bytes"] += num_bytes
        return self.flows.start(total, Need(per_byte), done)

    def read_storage(
        self, place: Place, num_bytes: int, requests: int, done: Callable[[], None]
    ) -> Flow:
        """Reads bytes of the object storage."""
        self.counts["storage_read_bytes"] += num_bytes
        self.counts["storage_read_requests"] += requests
        connections = self._object_storage.connections
        return self._storage((place.name, "in"), num_bytes, requests, connections, done)

    def write_storage(
        self, place: Place, num_bytes: int, requests: int, done: Callable[[], None]
    ) -> Flow:
        """Writes bytes to the object storage."""
        self.counts["storage_written_bytes"] += num_bytes
        self.counts["storage_write_requests"] += requests
        storage = self._object_storage
        connections = storage.write_connections or storage.connections
        return self._storage((place.name, "out"), num_bytes, requests, connections, done)

    def use_disk(
        self, place: Place, read: int, written: int, requests: int, done: Callable[[], None]
    ) -> Flow:
        """Reads and writes bytes of the disks of a node."""
        self.counts["disk_requests"] += requests
        seconds = _disk_seconds(place.machine, read, requests, written)
        total = max(1, read + written)
        return self.flows.start(total, Need({(place.name, "disk"): seconds / total}), done)

    @property
    def _object_storage(self) -> ObjectStorage:
        assert self.cluster.storage is not None
        return self.cluster.storage

    def _storage(
        self,
        interface: Hashable,
        num_bytes: int,
        requests: int,
        connections: int,
        done: Callable[[], None],
    ) -> Flow:
        storage = self._object_storage
        total = max(1, num_bytes)
        per_byte = {interface: num_bytes / total, STORAGE_REQUESTS: requests / total}
        rounds = -(-requests // connections)
        # Each connection waits for the first byte of each of its requests.
        seconds = num_bytes / (connections * storage.connection_bytes_per_second)
        seconds += rounds * storage.latency_seconds
        limit = total / seconds if seconds > 0 else float("inf")
        return self.flows.start(total, Need(per_byte, limit), done)

    def _store(self, name: str, machine: Machine) -> Store:
        def write(num_bytes: int, requests: int, done: Callable[[], None]) -> None:
            self.counts["spilled_bytes"] += num_bytes
            self.use_disk(self.places[name], 0, num_bytes, requests, done)

        disk = None if machine.disk is None else write
        return Store(name, machine.memory_bytes, self.clock, disk)


def _capacities(cluster: Cluster) -> dict[Hashable, float]:
    capacities: dict[Hashable, float] = {}
    for name, machine in zip(node_names(cluster), cluster.machines, strict=True):
        capacities[name, "in"] = capacities[name, "out"] = machine.network_bytes_per_second
        if machine.disk is not None:
            # In seconds of a disk, since requests take time beside their bytes.
            capacities[name, "disk"] = machine.disk.num_disks
        if cluster.slice_seconds:
            # In seconds of the node's fetching.
            capacities[name, "slices"] = 1.0
    if cluster.storage is not None:
        capacities[STORAGE_REQUESTS] = cluster.storage.requests_per_second
    return capacities


def _disk_seconds(
    machine: Machine, read: int, requests: int, written: int = 0, *, is_far: bool = False
) -> float:
    disk = machine.disk
    assert disk is not None
    read_rate = disk.read_bytes_per_second
    if is_far and disk.remote_read_bytes_per_second is not None:
        read_rate = disk.remote_read_bytes_per_second
    seconds = read / read_rate + written / disk.write_bytes_per_second
    return seconds + requests * disk.request_seconds
