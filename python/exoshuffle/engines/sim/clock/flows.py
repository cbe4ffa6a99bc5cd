"""Flows: bytes on their way through disks, networks and storages, which they share max-min fairly.

Guarantee: whenever a flow begins or ends, the rates of all flows that could feel it are computed anew. Between two such
moments rates are constant. Flows that share nothing with it, over any number of others, are not looked at.

Flows that need the same have the same rate at any time. So they are one bundle. All of them have moved the same bytes
since the bundle began, which is one number. Its flows end in the order of what that number will be. 12 readers on each
of 40 nodes are 40 bundles: sharing is computed for these, 4 times as fast as for 480 flows.
"""

from __future__ import annotations

import heapq
import itertools
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

    __slots__ = ("bundle", "done", "end", "ending", "num_bytes")

    def __init__(self, num_bytes: float, done: Action) -> None:
        self.num_bytes = num_bytes
        self.done = done
        #: The bytes that its bundle will have moved for each flow when this one ends.
        self.end = 0.0
        self.bundle: _Bundle | None = None
        #: Its end, between the arrival of its last byte and what happens then.
        self.ending: Timer | None = None


class _Bundle:
    """Flows that need the same.

    Attributes:
        moved: Bytes that each of its flows would have moved since the bundle began.
        flows: By when they end; some may have been stopped.
        count: Those that have not been stopped.
    """

    __slots__ = ("count", "flows", "moved", "need", "rate", "since", "timer")

    def __init__(self, need: Need, now: float) -> None:
        self.need = need
        self.moved = 0.0
        self.flows: list[tuple[float, int, Flow]] = []
        self.count = 0
        self.rate = 0.0
        self.since = now
        self.timer: Timer | None = None

    def first(self) -> Flow | None:
        """Returns the flow that ends next."""
        while self.flows and self.flows[0][2].bundle is not self:
            heapq.heappop(self.flows)
        return self.flows[0][2] if self.flows else None


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
        self._bundles: dict[Hashable, _Bundle] = {}
        #: The bundles through each resource, in the order in which they began.
        self._through: dict[Hashable, dict[_Bundle, None]] = defaultdict(dict)
        self._touched: dict[_Bundle, None] = {}
        self._numbers = itertools.count()
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
        flow = Flow(num_bytes, done)
        if not known and need.limit == math.inf:
            flow.ending = self._clock.soon(done)
            return flow
        bundle = self._bundle_of(Need(known, need.limit))
        self._settle(bundle)
        flow.bundle, flow.end = bundle, bundle.moved + num_bytes
        heapq.heappush(bundle.flows, (flow.end, next(self._numbers), flow))
        bundle.count += 1
        self._change(bundle)
        return flow

    def stop(self, flow: Flow) -> None:
        """Ends a flow before its bytes have arrived; ``done`` does not happen. Does nothing if they have."""
        if flow.bundle is not None:
            self._settle(flow.bundle)
            self._leave(flow)
        elif flow.ending is not None:
            flow.ending.cancel()

    def capacity(self, resource: Hashable) -> float:
        """Returns the units per second of a resource."""
        return self._capacities.get(resource, math.inf)

    def settle(self) -> None:
        """Counts what has arrived until now, for statistics."""
        for bundle in self._bundles.values():
            self._settle(bundle)

    def _bundle_of(self, need: Need) -> _Bundle:
        key = (tuple(need.per_byte.items()), need.limit)
        bundle = self._bundles.get(key)
        if bundle is None:
            bundle = self._bundles[key] = _Bundle(need, self._clock.now)
            for resource in need.per_byte:
                self._through[resource][bundle] = None
        return bundle

    def _leave(self, flow: Flow) -> None:
        """Takes a flow out of its bundle; a bundle without flows ends."""
        bundle = flow.bundle
        assert bundle is not None
        flow.bundle = None
        bundle.count -= 1
        if not bundle.count:
            del self._bundles[tuple(bundle.need.per_byte.items()), bundle.need.limit]
            for resource in bundle.need.per_byte:
                del self._through[resource][bundle]
        self._change(bundle)

    def _change(self, bundle: _Bundle) -> None:
        self._touched[bundle] = None
        if not self._is_due:
            # Several flows that begin at one moment are shared among once.
            self._is_due = True
            self._clock.soon(self._share)

    def _share(self) -> None:
        """Computes the rates of all flows that what has changed can reach."""
        self._is_due = False
        touched, self._touched = self._touched, {}
        bundles, capacities = self._reached(touched)
        needs = [bundle.need for bundle in bundles]
        rates = max_min(needs, capacities, [bundle.count for bundle in bundles])
        for bundle, rate in zip(bundles, rates, strict=True):
            if bundle in touched or abs(rate - bundle.rate) > _ROUNDING * rate:
                self._settle(bundle)
                bundle.rate = rate
                self._aim(bundle)
        for bundle in touched:
            if not bundle.count and bundle.timer is not None:
                bundle.timer.cancel()

    def _reached(
        self, touched: Mapping[_Bundle, None]
    ) -> tuple[list[_Bundle], dict[Hashable, float]]:
        """Returns the bundles that those can reach over shared resources, and the capacities of these resources."""
        reached = dict.fromkeys(touched)
        capacities: dict[Hashable, float] = {}
        waiting = list(touched)
        while waiting:
            for resource in waiting.pop().need.per_byte:
                if resource not in capacities:
                    capacities[resource] = self._capacities[resource]
                    # In order, not as sets: the same seed has to give the same course of events.
                    new = [each for each in self._through[resource] if each not in reached]
                    reached.update(dict.fromkeys(new))
                    waiting += new
        return [bundle for bundle in reached if bundle.count], capacities

    def _settle(self, bundle: _Bundle) -> None:
        now, since = self._clock.now, bundle.since
        bundle.since = now
        if now <= since or not bundle.count:
            return
        moved = bundle.rate * (now - since)
        bundle.moved += moved
        for resource, amount in bundle.need.per_byte.items():
            self.used[resource] += moved * amount * bundle.count
            self.history.add(resource, since, now, moved * amount * bundle.count)

    def _aim(self, bundle: _Bundle) -> None:
        """Sets when the next flow ends at the present rate."""
        if bundle.timer is not None:
            bundle.timer.cancel()
        flow = bundle.first()
        assert flow is not None
        seconds = max(0.0, flow.end - bundle.moved) / bundle.rate
        bundle.timer = self._clock.after(seconds, lambda: self._end(bundle))

    def _end(self, bundle: _Bundle) -> None:
        """Ends the flows whose bytes have all arrived, at one moment, in an order that the seed decides."""
        self._settle(bundle)
        flow = bundle.first()
        assert flow is not None
        # Its time has come, whatever rounding says.
        bundle.moved = max(bundle.moved, flow.end)
        while flow is not None and flow.end - bundle.moved <= _ROUNDING * flow.num_bytes:
            self._leave(flow)
            flow.ending = self._clock.soon(flow.done)
            flow = bundle.first()
