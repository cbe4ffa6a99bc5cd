"""Simulates a shuffle: the strategy runs as it is, on modelled tasks, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from exoshuffle.engines.sim.clock.history import History
from exoshuffle.engines.sim.cluster.prices import Use, bill
from exoshuffle.engines.sim.engine import SimEngine
from exoshuffle.engines.sim.faults import Faults
from exoshuffle.engines.sim.runs.plan_file import scenario as scenario_of
from exoshuffle.engines.sim.runs.report import Line, Report, Stage
from exoshuffle.engines.sim.runs.scenario import Scenario
from exoshuffle.engines.sim.tasks.outcomes import Ran
from exoshuffle.errors import EngineError
from exoshuffle.futures import Engine, Ref, Value, raise_errors, wait
from exoshuffle.futures.engine import running_engine
from exoshuffle.futures.options import Executor
from exoshuffle.futures.session import adopt, engine_in_use

_DEVICES = ("CPU", "disk", "in", "out")


class ModelledTasks:
    """A task set whose functions never run: models stand for them."""

    executor: Executor = "thread"

    def map(self, index: int, split: Value) -> object:
        """See ``TaskSet``."""
        raise NotImplementedError

    def merge(self, *blocks: Value) -> object:
        """See ``TaskSet``."""
        raise NotImplementedError

    def reduce(self, partition: int, slices: list[Value]) -> object:
        """See ``TaskSet``."""
        raise NotImplementedError

    def fold(self, partition: int, state: Value, slices: list[Value]) -> object:
        """See ``StreamingTaskSet``."""
        raise NotImplementedError


def simulate(
    scenario: Scenario | str | Path, *, seed: int = 0, faults: Faults | None = None
) -> Report:
    """Runs a shuffle in virtual time and says what it would take.

    Args:
        scenario: The shuffle, or the path of a TOML file with it.
        seed: Decides the order of events of one moment.
        faults: The faults to make; default: none.

    Raises:
        OptionsError: The scenario cannot work; before virtual time starts.
        DeadlockError: The nodes have too little memory for the shuffle to go on.
        TaskError: A task needs more memory than a node has.

    The engine in use is left as it is. Cost: 5,000 tasks take 1 s of CPU on 10 nodes, and 10 s on 40 nodes. There each
    transfer that begins is shared among 120 devices.
    """
    if running_engine() is not None:
        raise EngineError("simulate works outside of tasks only; call it in the program")
    if not isinstance(scenario, Scenario):
        scenario = scenario_of(scenario)
    before = engine_in_use()
    engine = SimEngine(scenario.cluster, models=scenario.models(), seed=seed, faults=faults)
    adopt(engine)
    try:
        results = list(_results(scenario))
        wait(results, num_ready=len(results))
        raise_errors(results)
        return _report(scenario, engine)
    finally:
        engine.close()
        # A program without an engine has none afterwards.
        adopt(cast("Engine", before))


def _results(scenario: Scenario) -> Iterator[Ref]:
    splits = range(scenario.num_splits)
    return scenario.planned_strategy.shuffle(ModelledTasks(), splits, scenario.plan())


def _report(scenario: Scenario, engine: SimEngine) -> Report:
    engine.world.flows.settle()
    seconds = engine.now
    stats = engine.stats()
    lines, width = _lines(engine)
    stages = _stages(engine.ran)
    costs, currency = _costs(scenario, seconds, stages, stats)
    bounds = _bounds(engine, stats["cpu_microseconds"] / 1e6)
    return Report(
        strategy=scenario.planned_strategy.name,
        seconds=seconds,
        bound_seconds=bounds,
        stages=stages,
        utilisation={name: bound / seconds for name, bound in bounds.items()},
        num_bytes={
            "spilled": stats["spilled_bytes"],
            "restored": stats["restored_bytes"],
            "between nodes": stats["network_bytes"],
            "read from storage": stats["storage_read_bytes"],
            "written to storage": stats["storage_written_bytes"],
            "results without room": stats["fallback_bytes"],
            "peak of a node": stats["peak_bytes"],
        },
        num_requests={
            "requests of disks": stats["disk_requests"],
            "reads of storage": stats["storage_read_requests"],
            "writes of storage": stats["storage_write_requests"],
        },
        num_objects=next(engine.world.numbers),
        costs=costs,
        currency=currency,
        trace_hash=engine.trace_hash,
        lines=lines,
        piece_seconds=width,
    )


def _stages(ran: list[Ran]) -> list[Stage]:
    names = dict.fromkeys(each.name for each in ran)
    by_name = {name: [each for each in ran if each.name == name] for name in names}
    return [
        Stage(
            name,
            len(tasks),
            min(each.start for each in tasks),
            max(each.end for each in tasks),
            sum(each.end - each.start for each in tasks) / len(tasks),
        )
        for name, tasks in by_name.items()
    ]


def _bounds(engine: SimEngine, cpu_seconds: float) -> dict[str, float]:
    """Returns what each device would take alone, if all of its kind were busy all the time."""
    flows, places = engine.world.flows, engine.world.places.values()
    bounds = {"CPU": cpu_seconds / engine.num_cpus}
    for device in _DEVICES[1:]:
        used = sum(flows.used.get((place.name, device), 0.0) for place in places)
        capacity = sum(flows.capacity((place.name, device)) for place in places)
        if used:
            bounds["network " + device if device != "disk" else device] = used / capacity
    return bounds


def _lines(engine: SimEngine) -> tuple[list[Line], float]:
    history, flows = engine.world.flows.history, engine.world.flows
    running = History()
    for each in engine.ran:
        running.add(each.node, each.start, each.end, each.end - each.start)
    while running.width < history.width:
        running.halve()
    while history.width < running.width:
        history.halve()
    width = history.width
    lines = []
    for place in engine.world.places.values():
        busy = [units / width / place.machine.num_cpus for units in running.used(place.name)]
        lines.append(Line(place.name, "CPU", busy))
        for device in _DEVICES[1:]:
            capacity = flows.capacity((place.name, device))
            used = history.used((place.name, device))
            lines.append(Line(place.name, device, [units / width / capacity for units in used]))
    return lines, width


def _costs(
    scenario: Scenario, seconds: float, stages: list[Stage], stats: dict[str, int]
) -> tuple[dict[str, float], str]:
    bought = scenario.bought
    if bought is None:
        return {}, ""
    last = stages[-1]
    stored = []
    if scenario.reads == "storage":
        stored.append((scenario.total_bytes, seconds))
    if scenario.writes == "storage":
        # As if all results were there from the first on, which is a little too long.
        stored.append((scenario.total_bytes, last.end - last.start))
    use = Use(
        seconds,
        bought.machines,
        bought.volume_gigabytes,
        stats["storage_read_requests"],
        stats["storage_write_requests"],
        tuple(stored),
    )
    return bill(bought.prices, use), bought.prices.currency
