"""Max-min fair sharing against its definition, and against water that rises in small steps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.engines.sim.clock.events import Clock
from exoshuffle.engines.sim.clock.flows import Flows
from exoshuffle.engines.sim.clock.sharing import Need, max_min

RESOURCES = ["a", "b", "c", "d"]
AMOUNTS = st.floats(0.01, 10)
NEED = st.builds(
    Need,
    st.dictionaries(st.sampled_from(RESOURCES), AMOUNTS, min_size=1),
    st.one_of(st.just(math.inf), st.floats(0.1, 50)),
)
NEEDS = st.lists(NEED, max_size=8)
CAPACITIES = st.fixed_dictionaries({name: st.floats(0.1, 100) for name in RESOURCES})


def used_of(needs, rates, resource):
    return sum(
        rate * need.per_byte.get(resource, 0) for need, rate in zip(needs, rates, strict=True)
    )


@given(NEEDS, CAPACITIES)
def test_every_flow_has_a_bottleneck_and_nothing_is_overfull(needs, capacities):
    rates = max_min(needs, capacities, [1] * len(needs))
    for resource, capacity in capacities.items():
        assert used_of(needs, rates, resource) <= capacity * (1 + 1e-6)
    for need, rate in zip(needs, rates, strict=True):
        full = [
            resource
            for resource in need.per_byte
            if used_of(needs, rates, resource) >= capacities[resource] * (1 - 1e-6)
        ]
        fastest = [
            max(
                other
                for each, other in zip(needs, rates, strict=True)
                if each.per_byte.get(resource, 0) > 0
            )
            for resource in full
        ]
        is_bounded = rate >= need.limit * (1 - 1e-9)
        assert is_bounded or any(rate >= most * (1 - 1e-6) for most in fastest)


@given(NEEDS, CAPACITIES)
def test_it_is_what_water_finds_that_rises_in_small_steps(needs, capacities):
    step = 0.01
    levels = [0.0] * len(needs)
    rising = set(range(len(needs)))
    while rising and max(levels, default=0) < 20:
        for index in list(rising):
            levels[index] += step
            over = any(
                used_of(needs, levels, resource) > capacities[resource]
                for resource in needs[index].per_byte
            )
            if over or levels[index] > needs[index].limit:
                levels[index] -= step
                rising.discard(index)
    for level, rate in zip(levels, max_min(needs, capacities, [1] * len(needs)), strict=True):
        # Water that rises flow by flow may end a few steps early on each resource.
        assert level == pytest.approx(min(rate, 20), abs=step * (2 + 1000 * len(needs)), rel=0.05)


@given(st.lists(st.tuples(NEED, st.integers(1, 4)), max_size=4), CAPACITIES)
def test_flows_that_need_the_same_are_shared_among_together_as_one_by_one(counted, capacities):
    needs, counts = [need for need, _ in counted], [count for _, count in counted]
    each = [need for need, count in counted for _ in range(count)]
    one_by_one = max_min(each, capacities, [1] * len(each))
    together = max_min(needs, capacities, counts)
    rates = [rate for rate, count in zip(together, counts, strict=True) for _ in range(count)]
    assert rates == pytest.approx(one_by_one)


def test_a_flow_that_ends_leaves_its_share_to_others():
    clock = Clock()
    flows = Flows(clock, {"disk": 100.0})
    ended = {}
    for name, num_bytes in {"short": 100, "long": 300}.items():
        flows.start(
            num_bytes, Need({"disk": 1.0}), lambda name=name: ended.setdefault(name, clock.now)
        )
    while clock.step():
        pass
    # Both have 50 a second until 2 s; then the long one has 100.
    assert ended == {"short": pytest.approx(2.0), "long": pytest.approx(4.0)}
    assert flows.used["disk"] == pytest.approx(400)


def test_a_flow_is_as_fast_as_its_narrowest_place_and_leaves_the_rest():
    clock = Clock()
    flows = Flows(clock, {"wide": 100.0, "narrow": 10.0})
    ended = {}
    flows.start(10, Need({"wide": 1.0, "narrow": 1.0}), lambda: ended.setdefault("both", clock.now))
    flows.start(90, Need({"wide": 1.0}), lambda: ended.setdefault("wide", clock.now))
    while clock.step():
        pass
    assert ended == {"both": pytest.approx(1.0), "wide": pytest.approx(1.0)}


def test_a_flow_that_is_stopped_never_ends():
    clock = Clock()
    flows = Flows(clock, {"disk": 10.0})
    ended = []
    flow = flows.start(100, Need({"disk": 1.0}), lambda: ended.append("stopped"))
    flows.start(100, Need({"disk": 1.0}), lambda: ended.append(clock.now))
    clock.after(2, lambda: flows.stop(flow))
    while clock.step():
        pass
    # 10 bytes in 2 s at half the rate, and 90 in 9 s.
    assert ended == [pytest.approx(11.0)]


def test_a_flow_is_felt_over_any_number_of_others():
    """One that takes from the second leaves the third more, with which it shares nothing."""
    clock = Clock()
    flows = Flows(clock, {"a": 10.0, "b": 20.0})
    ended = []
    flows.start(1000, Need({"a": 1.0, "b": 1.0}), lambda: None)
    flows.start(95, Need({"b": 1.0}), lambda: ended.append(clock.now))
    clock.after(1, lambda: flows.start(1000, Need({"a": 1.0}), lambda: None))
    while clock.step():
        pass
    # 10 a second for a second, then 15.
    assert ended == [pytest.approx(1 + 85 / 15)]
