"""Reduces of several nodes: whose partitions are whose, and that all nodes have work while results come in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from unittest import mock

import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError, TaskError
from exoshuffle.futures import Node, Ref, TaskOptions
from exoshuffle.strategies.mechanisms.dealing import dealt
from exoshuffle.strategies.mechanisms.node_ranges import NodeRange, cuts, node_ranges
from tests.unit.stepped import Call, Script, SteppedEngine, stepped, task_of


def ranges_of(num_partitions: int, **cpus: float) -> list[NodeRange]:
    """How nodes with so many CPUs share the partitions."""
    with stepped() as engine:
        found = [Node(name, {"CPU": number}) for name, number in cpus.items()]
        with mock.patch.object(engine, "nodes", return_value=found):
            return node_ranges(num_partitions)


def test_nodes_share_partitions_by_their_cpus() -> None:
    found = ranges_of(10, small=1, none=0, large=4)
    assert found == [NodeRange(range(2), "small"), NodeRange(range(2, 10), "large")]


def test_a_node_alone_has_all_and_is_not_asked_for() -> None:
    assert ranges_of(5, only=8, none=0) == [NodeRange(range(5), None)]
    assert ranges_of(1, a=2, b=2) == [NodeRange(range(1), None)]
    assert cuts(ranges_of(5, only=8)) == ()
    assert cuts(ranges_of(5, only=8), 32) is None, "the engine knows best"


@pytest.mark.parametrize("num_partitions", [2, 3, 7, 100])
def test_ranges_divide_the_partitions(num_partitions: int) -> None:
    found = ranges_of(num_partitions, a=1, b=1.5, c=7, d=2)
    assert [p for each in found for p in each.partitions] == list(range(num_partitions))
    assert all(len(each.partitions) for each in found)


def test_blocks_are_cut_between_nodes_and_further() -> None:
    found = ranges_of(12, a=1, b=1)
    assert cuts(found) == (6,)
    assert cuts(found, 4) == (3, 6, 9)
    assert cuts(found, 5) == (2, 4, 6, 8, 10)
    assert cuts(found, 1000) == tuple(range(1, 12))


def reduces(engine: SteppedEngine, numbers: range, made: list[Ref] | None = None) -> Iterator[Ref]:
    """Tasks, submitted when they are asked for."""
    for number in numbers:
        options = TaskOptions(name=f"{number}")
        ref = engine.submit(lambda number=number: number, (), {}, options)
        if made is not None:
            made.append(ref)
        yield ref


def test_asking_for_one_result_gives_work_to_all_nodes() -> None:
    with stepped() as engine:
        runs = [reduces(engine, range(start, start + 10)) for start in (0, 10, 20)]
        results = dealt(runs, 1000)
        next(results)
        assert sorted(engine.submitted) == ["0", "10", "20"]
        next(results)
        assert sorted(engine.submitted) == ["0", "1", "10", "11", "20", "21"]
        assert engine.now == 0
        assert xs.get(list(results)) == [*range(2, 30)]


def test_runs_may_be_empty_or_of_different_lengths() -> None:
    with stepped() as engine:
        runs = [reduces(engine, each) for each in (range(0), range(1), range(1, 9), range(9, 12))]
        assert xs.get(list(dealt(runs, 1000))) == list(range(12))
        assert list(dealt([], 10)) == []


def test_no_more_are_submitted_than_the_limit_beside_those_that_are_done() -> None:
    with stepped() as engine:
        made: list[Ref] = []
        runs = [reduces(engine, range(start, start + 50), made) for start in (0, 50)]
        unfinished = [sum(not task_of(ref).is_over for ref in made) for _ in dealt(runs, 8)]
        assert max(unfinished) == 8
        assert len(made) == 100


def test_those_that_nobody_has_seen_are_cancelled_when_the_caller_gives_up() -> None:
    with stepped() as engine:
        results = dealt([reduces(engine, range(start, start + 3)) for start in (0, 3, 6)], 100)
        assert task_of(next(results)).call == Call("0", 0)
        results.close()  # type: ignore[attr-defined]
        assert {call.name for call in engine.cancelled} == {"3", "6"}


def test_a_failure_is_told_before_its_turn_and_ends_the_others() -> None:
    with stepped(Script(fails=lambda call: call.name == "20")) as engine:
        made: list[Ref] = []
        runs = [reduces(engine, range(start, start + 20), made) for start in (0, 20)]
        seen: list[str] = []
        with pytest.raises(TaskError, match="task 20 failed"):
            seen.extend(task_of(ref).call.name for ref in dealt(runs, 4))
        assert len(made) < 40
        unseen = [task_of(ref) for ref in made if task_of(ref).call.name not in seen]
        assert len(unseen) >= 2
        assert all(task.is_over for task in unseen)


def test_options_of_ranges_are_checked() -> None:
    for cuts_given in ((0,), (4,), (2, 2), [1], ("a",), (1.5,), 0):
        with pytest.raises(OptionsError, match=r"cuts is .*ascending numbers .* num_returns"):
            dataclasses.replace(TaskOptions(num_returns=4), cuts=cuts_given)
    assert TaskOptions(num_returns=4, cuts=(1, 3)).cuts == (1, 3)
