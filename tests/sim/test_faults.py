"""Deaths, stragglers and losses in virtual time, by script; and what lineage makes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

import exoshuffle as xs
from exoshuffle.engines.sim import Cluster, Disk, Faults, Machine, SeededFaults, SimEngine
from exoshuffle.errors import (
    ActorDiedError,
    BlockLostError,
    OptionsError,
    TaskError,
    WorkerDiedError,
)
from exoshuffle.strategies import Push, Simple, Speculation, Streaming
from exoshuffle.testing import assert_every_row_arrives
from exoshuffle.testing.shuffles import LabelTasks, small_plan

MACHINE = Machine(2, 10_000_000, Disk(1e8, 1e8), 1e8)


@contextlib.contextmanager
def faulty(faults: Faults, num_nodes: int = 1, **options) -> Iterator[SimEngine]:
    with xs.init(SimEngine(Cluster.of(MACHINE, num_nodes), faults=faults, **options)) as engine:
        assert isinstance(engine, SimEngine)
        yield engine


def one() -> int:
    return 1


def add(*values: int) -> int:
    return sum(values)


def attempts(engine: SimEngine) -> list[tuple[str, int]]:
    seen: list[tuple[str, int]] = []
    engine.add_observer(lambda event: seen.append((event.name, event.attempt)))
    return seen


@pytest.mark.parametrize("death", ["before", "after"])
def test_a_death_costs_an_attempt(death):
    with faulty(Faults({("one", 0, 1): death, ("one", 0, 2): death})) as engine:
        seen = attempts(engine)
        assert xs.get(xs.remote(one).remote()) == 1
        assert seen == [("one", 3)]


def test_without_retries_a_death_is_the_end():
    with faulty(Faults({("one", 0, 1): "after"})), pytest.raises(TaskError) as caught:
        xs.get(xs.remote(one, max_retries=0).remote())
    assert isinstance(caught.value.__cause__, WorkerDiedError)


def test_deaths_from_outside_do_not_count_up_to_a_bound():
    deaths = {("one", 0, attempt): "before" for attempt in range(1, 20)}
    with faulty(Faults(deaths)), pytest.raises(TaskError) as caught:
        xs.get(xs.remote(one).remote())
    assert caught.value.attempt == 17


def test_a_straggler_takes_longer_and_a_copy_takes_its_place():
    slow = Faults(slow={("map", 2, 1): 1000.0})
    with faulty(slow, num_nodes=2) as engine:
        assert_every_row_arrives(Simple(), 5, 3)
        alone = engine.now
    with faulty(slow, num_nodes=2) as engine:
        speculation = Speculation(multiple=2, fraction=0.5, min_seconds=0.01, clock=engine.clock)
        assert_every_row_arrives(Simple(speculation), 5, 3)
        assert engine.now < alone / 10


@pytest.mark.parametrize(
    ("step", "make"),
    [
        ("merge", lambda copies: Push(speculation=copies)),
        ("fold", lambda copies: Streaming(round_size=4, speculation=copies)),
    ],
)
def test_a_copy_takes_the_place_of_a_slow_merge_or_fold(step, make):
    slow = Faults(slow={(step, 5, 1): 1000.0})
    with faulty(slow, num_nodes=2) as engine:
        assert_every_row_arrives(make(None), 48, 4)
        alone = engine.now
    with faulty(slow, num_nodes=2) as engine:
        copies = Speculation(multiple=3, fraction=0.25, min_seconds=0.01, clock=engine.clock)
        assert_every_row_arrives(make(copies), 48, 4)
        assert engine.now < alone / 5


def test_a_lost_object_is_made_again_with_all_that_it_was_made_from():
    with faulty(Faults(losses={("add", 0): 0.01, ("one", 0): 0.01})) as engine:
        seen = attempts(engine)
        made = xs.remote(add).remote(xs.remote(one).remote())
        xs.wait([made])
        assert xs.locate(made) == ["node-0"]
        xs.wait([xs.remote(add).remote() for _ in range(40)], num_ready=40)
        assert xs.locate(made) == []
        seen.clear()
        assert xs.get(made) == 1
        assert seen == [("one", 2), ("add", 2)]
        assert engine.stats()["num_made_again"] == 2


def test_long_lineages_are_no_recursion():
    """Every link is lost, since nobody keeps it; then the last one is lost, too."""
    faults = Faults(losses={("add", 2999): 0.0})
    with faulty(faults) as engine:
        ref = xs.put(1)
        for _ in range(3000):
            ref = xs.remote(add).remote(ref)
        xs.wait([ref])
        xs.wait([xs.remote(one).remote()])
        assert xs.get(ref) == 1
        assert engine.stats()["num_made_again"] == 3000


def test_what_was_put_cannot_be_made_again():
    with faulty(Faults(node_deaths=[(0.01, "node-0")]), num_nodes=2):
        kept, small = xs.put(bytes(200_000)), xs.put("small")
        xs.wait([xs.remote(one, node="node-1").remote() for _ in range(40)], num_ready=40)
        with pytest.raises(BlockLostError, match="put the value again"):
            xs.get(kept)
        # It stays with the program.
        assert xs.get(small) == "small"


def test_a_node_dies_with_what_it_has_and_what_runs_there():
    with faulty(Faults(node_deaths=[(0.0105, "node-1")]), num_nodes=2) as engine:
        refs = [xs.remote(one, node="node-1").remote() for _ in range(30)]
        xs.wait(refs, num_ready=30)
        assert {node.name for node in xs.nodes()} == {"node-0"}
        assert xs.get(xs.remote(add).remote(*refs)) == 30
        assert {place for ref in refs for place in xs.locate(ref)} == {"node-0"}
        assert engine.stats()["num_lost"] > 0


def test_a_generator_makes_only_lost_items_again():
    def items() -> Iterator[int]:
        yield from range(4)

    faults = Faults(node_deaths=[(0.02, "node-1")])
    with faulty(faults, num_nodes=2) as engine:
        refs = list(xs.remote(items, num_returns="streaming", node="node-1").remote())
        xs.wait([xs.remote(one, node="node-0").remote() for _ in range(60)], num_ready=60)
        assert [xs.locate(ref) for ref in refs] == [[]] * 4
        assert xs.get([refs[1], refs[3]]) == [1, 3]
        assert xs.locate(refs[0]) == []
        assert engine.stats()["num_lost"] == 4


class Tally:
    def __init__(self) -> None:
        self.number = 0

    def add(self) -> int:
        self.number += 1
        return self.number


@pytest.mark.parametrize("max_restarts", [0, 1])
def test_an_actor_dies_with_its_node(max_restarts):
    with faulty(Faults(node_deaths=[(0.03, "node-1")]), num_nodes=2):
        actor = xs.remote(Tally, node="node-1", max_restarts=max_restarts).remote()
        assert xs.get(actor.add.remote()) == 1
        xs.wait([xs.remote(one, node="node-0").remote() for _ in range(80)], num_ready=80)
        if max_restarts:
            assert xs.get(actor.add.remote()) == 1
        else:
            with pytest.raises(ActorDiedError, match="node-1 died"):
                xs.get(actor.add.remote())


def test_nodes_that_there_are_not_are_refused():
    with pytest.raises(OptionsError, match=r"'node-7'.*known are node-0, node-1"):
        SimEngine(Cluster.of(MACHINE, 2), faults=Faults(node_deaths=[(1.0, "node-7")]))


def trace(seed: int, **options) -> str:
    faults = SeededFaults(seed=seed, node_deaths=[(0.01, "node-2")])
    with faulty(faults, num_nodes=3, seed=seed, **options) as engine:
        assert_every_row_arrives(Simple(), 6, 4)
        return engine.trace_hash


def test_one_seed_is_one_course_of_events():
    assert len({trace(3) for _ in range(3)}) == 1
    assert len({trace(seed) for seed in range(5)}) == 5


@pytest.mark.parametrize(("keeps", "more_maps"), [(False, 26), (True, 10)])
def test_map_outputs_that_are_kept_are_not_made_again(keeps: bool, more_maps: int):
    """A node dies in the last folds. It has run 10 of 30 maps; states need those, and all others that are let go."""
    strategy = Streaming(round_size=6, keep_map_outputs=keeps)
    _, times = maps_and_rounds(strategy, Faults())
    num_maps, _ = maps_and_rounds(strategy, Faults(node_deaths=[(times[-1] + 0.0005, "node-2")]))
    assert num_maps == 30 + more_maps


def maps_and_rounds(strategy: Streaming, faults: Faults) -> tuple[int, list[float]]:
    """Runs 30 maps on three nodes; returns how many have run in all, and when the folds of each round began."""
    times: list[float] = []
    with faulty(faults, num_nodes=3) as engine:
        seen = attempts(engine)
        strategy.on_round = lambda _: times.append(engine.clock())
        tasks, splits = LabelTasks(6), [[index] for index in range(30)]
        results = [xs.get(ref) for ref in strategy.shuffle(tasks, splits, small_plan(30, 6))]
    assert results == [(r, [(index, r, index) for index in range(30)]) for r in range(6)]
    return [name for name, _ in seen].count("map"), times
