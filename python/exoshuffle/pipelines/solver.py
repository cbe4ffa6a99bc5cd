"""Finds the shortest schedule that a pipeline can have without spilling: what every policy is measured by.

The search is that of Luan's dissertation (§2.5.4). It tries all sets of tasks that could begin in each state, and goes
on to the next moment at which a task ends. Its two reductions are in the states (``world``): tasks and slots of a kind
are alike. And a state at a time is one, however it came about. Two more make it fast. States that cannot beat a
schedule that is known are left out. So are those that an earlier arrival at the same state has overtaken.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

from exoshuffle.errors import OptionsError
from exoshuffle.pipelines.pipeline import Pipeline
from exoshuffle.pipelines.world import TICKS, State, World


def optimum(
    pipeline: Pipeline, most_states: int = 200_000, known: float = math.inf
) -> float | None:
    """Returns the seconds of the shortest schedule; None if none is found among so many states.

    Args:
        pipeline: The pipeline.
        most_states: Where the search gives up.
        known: The seconds of a schedule that does not spill, if there is one: the search looks for shorter ones.

    Raises:
        OptionsError: No schedule keeps to the memory, or a stage needs more than there is.

    Cost: up to 20 µs for a state. Their number grows with the numbers of tasks to the power of the stages.
    """
    pipeline.check_slots()
    world = World(pipeline)
    best = round(known * TICKS) if known < math.inf else None
    arrivals = {world.start(): 0}
    waiting = [(0, 0, world.start())]
    number = 0
    while waiting:
        now, _, state = heapq.heappop(waiting)
        if arrivals[state] < now:
            continue
        if world.is_done(state):
            return now / TICKS
        for begun in _beginnings(world, state):
            if not any(begun.running):
                continue
            passed, later = world.advance(begun)
            then = now + passed
            if arrivals.get(later, math.inf) <= then:
                continue
            if best is not None and then + world.least_ticks(later) >= best:
                continue
            arrivals[later] = then
            number += 1
            if number > most_states:
                return None
            heapq.heappush(waiting, (then, number, later))
    if best is None:
        raise OptionsError(
            f"no schedule keeps to {pipeline.memory} partitions between stages; give more memory"
        )
    return best / TICKS


def _beginnings(world: World, state: State) -> Iterable[State]:
    """Returns the states after any tasks began that could begin now, also none."""
    found = {state}
    fresh = [state]
    while fresh:
        one = fresh.pop()
        for stage in world.beginning(one):
            begun = world.begin(one, stage)
            if begun not in found:
                found.add(begun)
                fresh.append(begun)
    return found
