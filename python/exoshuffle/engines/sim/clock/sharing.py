"""Shares resources among flows: max-min fair, by progressive filling.

Guarantee: no resource is used beyond its capacity. Each flow has a bottleneck: its own limit, or a resource that is
full and of whose flows none is faster. So no flow could be faster without a slower one being slower still.

Source: Bertsekas and Gallager, Data Networks, 6.5.2. Cost: the number of resources times the number of flows' needs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from exoshuffle.late_dataclasses import dataclass

#: Rounding: a resource is full if so little of it is left, as a share of the level.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Need:
    """The resources that a flow takes.

    Attributes:
        per_byte: Units of each resource for a byte, for example seconds of a disk.
        limit: The most bytes per second, whatever is free.
    """

    per_byte: Mapping[Hashable, float]
    limit: float = float("inf")


def max_min(
    needs: Sequence[Need], capacities: Mapping[Hashable, float], counts: Sequence[int]
) -> list[float]:
    """Returns the bytes per second of each flow.

    Args:
        needs: Those of flows; a flow without needs and without a limit is infinitely fast.
        capacities: Units per second, by resource.
        counts: How many flows have each of the needs.
    """
    rates = [float("inf")] * len(needs)
    active = dict.fromkeys(range(len(needs)))
    left = dict(capacities)
    load = dict.fromkeys(capacities, 0.0)
    for need, count in zip(needs, counts, strict=True):
        for resource, amount in need.per_byte.items():
            load[resource] += amount * count
    while active:
        level = min(needs[index].limit for index in active)
        for resource, amount in load.items():
            if amount > 0:
                level = min(level, max(0.0, left[resource]) / amount)
        if level == float("inf"):
            break
        full = {
            resource
            for resource, amount in load.items()
            if amount > 0 and left[resource] <= level * amount * (1 + _ROUNDING)
        }
        ended = [
            index
            for index in active
            if needs[index].limit <= level or not full.isdisjoint(needs[index].per_byte)
        ]
        for index in ended:
            del active[index]
            rates[index] = level
        # Nobody needs the rest that the last ones leave.
        for index in ended if active else ():
            for resource, amount in needs[index].per_byte.items():
                left[resource] -= level * amount * counts[index]
                load[resource] -= amount * counts[index]
        _forget_rounding(load, needs, active)
    return rates


def _forget_rounding(
    load: dict[Hashable, float], needs: Sequence[Need], active: Mapping[int, None]
) -> None:
    """Sets what no active flow needs to exactly nothing: else its rounding error would be a bottleneck."""
    used = {resource for index in active for resource in needs[index].per_byte}
    for resource in load.keys() - used:
        load[resource] = 0.0
