"""The Ray that an engine runs on: it is started, joined or found; and the resources of its nodes.

Guarantees: every failure has a message that says what to do; a Ray that was found is left as it was.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from exoshuffle.engines.ray import delivery
from exoshuffle.engines.ray.guard import MemoryGuard
from exoshuffle.engines.ray.joining import join
from exoshuffle.engines.ray.starting import Folders, Wanted, start, tell_logs
from exoshuffle.engines.ray.usage import watch_spilled
from exoshuffle.engines.ray.written_files import WrittenFiles
from exoshuffle.errors import ForkedEngineError, OptionsError
from exoshuffle.futures.engine import Node
from exoshuffle.futures.options import CPU
from exoshuffle.units import counted, format_bytes

#: The process that was connected last.
_connected_in: int | None = None


class Cluster:
    """A Ray that this process is connected to.

    Args:
        address: The address of a cluster; None for the one in ``RAY_ADDRESS``, or to start one.
        wanted: The options to start it with.
        timeout_seconds: How long to wait for an answer.

    Attributes:
        was_found: Whether this process was connected to it before.
        was_started: Whether it was started here.
        num_cpus: CPU slots of all nodes.
        store_bytes: Size of the object stores of all nodes.
    """

    def __init__(self, address: str | None, wanted: Wanted, timeout_seconds: float) -> None:
        global _connected_in
        self._folders: Folders | None = None
        self._spilled: WrittenFiles | None = None
        self._guard: MemoryGuard | None = None
        self._spill_dirs = wanted.spill_dirs
        self._fitting: set[tuple[tuple[str, float], ...]] = set()
        self._names: set[str] = set()
        self.was_found = ray.is_initialized()
        self.was_started = False
        if self.was_found and _connected_in not in (None, os.getpid()):
            raise ForkedEngineError(
                f"process {_connected_in}, which this process was forked from, is connected to Ray, and Ray cannot be "
                'used in both. Start the process by spawn instead of fork, or call exoshuffle.init("local") in it'
            )
        address = address or os.environ.get("RAY_ADDRESS")
        if self.was_found:
            wanted.check_nothing("Ray runs in this process already")
            if not _is_worker():
                delivery.check_workers(timeout_seconds)
        elif address and address != "local":
            wanted.check_nothing(f"the cluster at {address} runs already")
            join(address, timeout_seconds)
        else:
            self._folders = start(wanted)
            self.was_started = True
            self._spilled = watch_spilled()
        totals = _totals().values()
        self.num_cpus = int(sum(total.get(CPU, 0) for total in totals))
        self.store_bytes = int(sum(total.get("object_store_memory", 0) for total in totals))
        if self.num_cpus < 1:
            self.close()
            raise OptionsError("no node of the Ray cluster has a CPU; start one that has")
        _connected_in = os.getpid()
        # No other system tells what processes have.
        if self.was_started and sys.platform == "linux":
            declarable = int(sum(total.get("memory", 0) for total in totals))
            self._guard = MemoryGuard(declarable, declarable + self.store_bytes)

    @property
    def spill_dirs(self) -> list[str]:
        """The directory that a Ray spills to that was started here; none where it was found."""
        return self._spill_dirs or ([] if self._folders is None else self._folders.paths[:1])

    def spilled_bytes(self) -> int | None:
        """Returns the bytes that Ray has spilled since it was started here; None if that is not known."""
        return None if self._spilled is None else self._spilled.num_bytes()

    def close(self) -> None:
        """Leaves the cluster, and ends it if it was started here."""
        if self.was_found:
            return
        if self._guard is not None:
            self._guard.close()
        ray.shutdown()
        if self._spilled is not None:
            self._spilled.close()
        tell_logs(True)
        if self._folders is not None:
            self._folders.remove()

    def nodes(self) -> list[Node]:
        """See ``Engine``."""
        return [Node(name, _declared(total)) for name, total in _totals().items()]

    def described(self) -> list[str]:
        """Returns lines on the cluster, and on what holds its memory to a limit; see ``DescribedEngine``."""
        totals = _totals().values()
        cpus, stores, declared = (
            int(sum(total.get(name, 0) for total in totals))
            for name in (CPU, "object_store_memory", "memory")
        )
        whose = (
            "a Ray that this program started"
            if self.was_started
            else "a Ray cluster that was found"
        )
        return [
            f"{whose}: {counted(len(totals), 'node')}, {counted(cpus, 'CPU')}, {format_bytes(stores)} of object store",
            f"enforced: the store spills what exceeds it; tasks start while the memory= that they declare fits into "
            f"{format_bytes(declared)}",
            _held_to(self._guard is not None),
        ]

    def check(self, what: str, demand: Mapping[str, float], memory: int) -> None:
        """Refuses a demand that no node can ever meet, for which Ray would wait.

        Raises:
            OptionsError: No node can meet the demand.
        """
        wanted = {**demand, "memory": memory} if memory else dict(demand)
        key = tuple(sorted(wanted.items()))
        if key in self._fitting:
            return
        totals = _totals().values()
        if any(all(total.get(name, 0) >= wanted[name] for name in wanted) for total in totals):
            self._fitting.add(key)
            return
        for name, amount in wanted.items():
            most = max((total.get(name, 0) for total in totals), default=0)
            if amount > most:
                shown = format_bytes if name == "memory" else "{:g}".format
                raise OptionsError(
                    f"{what} needs {shown(amount)} {name}; the node that has most has {shown(most)}: "
                    "ask for less, or add a node"
                )
        raise OptionsError(f"{what} needs {wanted}, which no node has together")

    def affinity(self, node: str | None) -> str | NodeAffinitySchedulingStrategy:
        """Returns Ray's strategy to prefer a node."""
        if node is not None and node not in self._names:
            self._names = set(_totals())
        if node is None or node not in self._names:
            return "DEFAULT"
        return NodeAffinitySchedulingStrategy(node, soft=True)


def _held_to(is_guarded: bool) -> str:
    """Returns a line that says whether somebody measures what tasks take."""
    if is_guarded:
        return (
            "also enforced: when tasks together take more than that, one that takes more than it declared is stopped. "
            "This program's own process is not measured"
        )
    return "not enforced: what processes really take; Ray ends some when a node has no memory left"


def _is_worker() -> bool:
    """Whether this process runs tasks of a program; the program has checked the workers already."""
    return bool(ray.get_runtime_context().worker.mode == ray.WORKER_MODE)


def _totals() -> dict[str, dict[str, float]]:
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def _declared(total: Mapping[str, float]) -> dict[str, float]:
    """Returns resources without those that Ray adds for itself."""
    return {
        name: amount
        for name, amount in total.items()
        if name not in {"memory", "object_store_memory"}
        and not name.startswith(("node:", "accelerator_type:"))
    }
