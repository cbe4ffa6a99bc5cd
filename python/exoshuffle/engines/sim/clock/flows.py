"""Flows: bytes on their way through disks, networks and storages, which they share max-min fairly.

Guarantee: whenever a flow begins or ends, the rates of all flows that could feel it are computed anew; between two such
moments rates are constant. Flows that share nothing with it, over any number of others, are not looked at.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping

from exoshuffle.engines.sim.clock.events import Action, Clock, Timer
from exoshuffle.engines.sim.clock.history import History
from exoshuffle.engines.sim.clock.sharing import Need, max_min

#: A flow with less than this share of its bytes left has ended: the rest is rounding.
_ROUNDING = 1e-9


class Flow:
    """Bytes on their way."""

    __slots__ = ("done", "is_over", "left", "need", "num_bytes", "rate", "since", "timer")

    def __init__(self, num_bytes: float, need: Need, done: Action, now: float) -> None:
        self.num_bytes = num_bytes
        self.left = num_bytes
        self.need = need
        self.done = done
        self.rate = 0.0
        self.since = now
        self.timer: Timer | None = None
        self.is_over = False


class Flows:
    """The flows of a cluster.

    Args:
        clock: The clock.
        capacities: Units per second, by resource.
    """

    def __init__(self, clock: Clock, capacities: Mapping[Hashable, float]) -> None:
        self._clock = clock
        self._capacities = {
            resource: rate for resource, rate in capacities.items() if rate < math.inf
        }
        #: The flows through each resource, in the order in which they began.
        self._through: dict[Hashable, dict[Flow, None]] = defaultdict(dict)
        self._touched: dict[Hashable, None] = {}
        self._free: list[Flow] = []
        self._is_due = False
        #: Units that were used of each resource, for utilisation.
        self.used: dict[Hashable, float] = defaultdict(float)
        self.history = History()

    def start(self, num_bytes: float, need: Need, done: Action) -> Flow:
        """Begins a flow; ``done`` happens when all of its bytes have arrived."""
        known = {
            resource: amount
            for resource, amount in need.per_byte.items()
            if amount > 0 and resource in self._capacities
        }
        flow = Flow(num_bytes, Need(known, need.limit), done, self._clock.now)
        for resource in known:
            self._through[resource][flow] = None
        if not known:
            self._free.append(flow)
        self._change(known)
        return flow

    def stop(self, flow: Flow) -> None:
        """Ends a flow before its bytes have arrived; ``done`` does not happen. Does nothing if they have."""
        if flow.is_over:
            return
        if flow.timer is not None:
            flow.timer.cancel()
        self._leave(flow)

    def capacity(self, resource: Hashable) -> float:
        """Returns the units per second of a resource."""
        return self._capacities.get(resource, math.inf)

    def settle(self) -> None:
        """Counts what has arrived until now, for statistics."""
        for flows in list(self._through.values()):
            for flow in flows:
                self._settle(flow)

    def _leave(self, flow: Flow) -> None:
        self._settle(flow)
        flow.is_over = True
        for resource in flow.need.per_byte:
            self._through[resource].pop(flow, None)
        self._change(flow.need.per_byte)

    def _change(self, resources: Mapping[Hashable, float]) -> None:
        self._touched.update(dict.fromkeys(resources))
        if not self._is_due:
            # Several flows that begin at one moment are shared among once.
            self._is_due = True
            self._clock.soon(self._share)

    def _share(self) -> None:
        """Computes the rates of all flows that what has changed can reach."""
        self._is_due = False
        free, self._free = self._free, []
        flows = dict.fromkeys(free) | self._reached()
        if not flows:
            return
        capacities = {
            resource: self._capacities[resource]
            for flow in flows
            for resource in flow.need.per_byte
        }
        rates = max_min([flow.need for flow in flows], capacities)
        for flow, rate in zip(flows, rates, strict=True):
            if flow.timer is None or abs(rate - flow.rate) > _ROUNDING * rate:
                self._settle(flow)
                flow.rate = rate
                self._aim(flow)

    def _reached(self) -> dict[Flow, None]:
        touched, self._touched = self._touched, {}
        flows: dict[Flow, None] = {}
        seen = set(touched)
        waiting = list(touched)
        while waiting:
            for flow in self._through[waiting.pop()]:
                if flow not in flows:
                    flows[flow] = None
                    further = [each for each in flow.need.per_byte if each not in seen]
                    seen.update(further)
                    waiting += further
        return flows

    def _settle(self, flow: Flow) -> None:
        now, since = self._clock.now, flow.since
        moved = min(flow.left, flow.rate * (now - since)) if now > since else 0.0
        flow.left -= moved
        flow.since = now
        for resource, amount in flow.need.per_byte.items() if moved else ():
            self.used[resource] += moved * amount
            self.history.add(resource, since, now, moved * amount)

    def _aim(self, flow: Flow) -> None:
        """Sets when the flow ends at its present rate."""
        if flow.timer is not None:
            flow.timer.cancel()
        seconds = 0.0 if flow.left <= _ROUNDING * flow.num_bytes else flow.left / flow.rate
        flow.timer = self._clock.after(seconds, lambda: self._end(flow))

    def _end(self, flow: Flow) -> None:
        self._leave(flow)
        flow.done()
