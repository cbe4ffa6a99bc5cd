"""Refuses tasks and actors that no node of the cluster could ever run."""

from __future__ import annotations

from exoshuffle.engines.sim.cluster.description import Cluster
from exoshuffle.errors import OptionsError
from exoshuffle.futures.options import ActorOptions, TaskOptions
from exoshuffle.units import format_bytes


def check_demand(cluster: Cluster, name: str, options: TaskOptions | ActorOptions) -> None:
    """Refuses a task that can never start.

    Raises:
        OptionsError: No node has what it needs.
    """
    for resource, amount in options.demand.items():
        most = max(machine.amounts.get(resource, 0) for machine in cluster.machines)
        if amount > most:
            raise OptionsError(
                f"{name} needs {amount:g} of {resource}, and no node has more than {most:g}; ask for less, or simulate "
                "larger nodes"
            )
    memory = max(machine.memory_bytes for machine in cluster.machines)
    if options.memory > memory:
        raise OptionsError(
            f"{name} needs {format_bytes(options.memory)} of memory, and no node has more than {format_bytes(memory)}; "
            "ask for less, or simulate larger nodes"
        )
