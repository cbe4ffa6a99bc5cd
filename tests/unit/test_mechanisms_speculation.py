"""Speculation: which tasks get a copy and when, who wins, and what becomes of the others; on a clock by script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError, TaskError
from exoshuffle.futures import Ref
from exoshuffle.strategies import (
    BestEffort,
    PreShuffleMerge,
    Push,
    Simple,
    Speculation,
    Streaming,
    as_finished,
)
from exoshuffle.strategies.mechanisms.in_flight import run_all
from exoshuffle.testing import assert_every_row_arrives
from exoshuffle.testing.programs import LabelTasks
from exoshuffle.testing.shuffles import small_plan
from tests.unit.stepped import NEVER, Call, Script, SteppedEngine, stepped

#: Two CPUs: ten tasks of a second each take five.
NUM_TASKS = 10


def submit(index: int) -> Ref:
    ref: Ref = xs.remote(lambda: index, name="work").remote()
    return ref


def speculation(engine: SteppedEngine, **options: Any) -> Speculation:
    return Speculation(**{"fraction": 0.5, "min_seconds": 0, "clock": engine.clock, **options})


def slow(**seconds: float) -> Script:
    """Tasks that take a second, but for some: ``t3=7`` is the task submitted fourth."""
    return Script(lambda call: seconds.get(f"t{call.number}", 1.0))


def run(script: Script, **options: Any) -> tuple[SteppedEngine, dict[int, int]]:
    with stepped(script) as engine:
        chosen = speculation(engine, **options)
        pairs = [(i, xs.get(ref)) for i, ref in as_finished(submit, range(NUM_TASKS), chosen)]
        assert sorted(index for index, _ in pairs) == list(range(NUM_TASKS))
        return engine, dict(pairs)


def test_equal_tasks_get_no_copies() -> None:
    engine, results = run(slow())
    assert results == {index: index for index in range(NUM_TASKS)}
    assert engine.submitted["work"] == NUM_TASKS
    assert engine.now == pytest.approx(NUM_TASKS / 2)


def test_a_slow_task_is_copied_and_the_copy_wins() -> None:
    engine, results = run(slow(t9=NEVER))
    assert results[9] == 9
    # It starts at 4, is slow at 5.5 by a multiple of 1.5, and its copy takes a second.
    assert engine.now == pytest.approx(6.5)
    assert engine.submitted["work"] == NUM_TASKS + 1
    assert engine.cancelled == [Call("work", 9)]


def test_the_first_wins_when_the_copy_is_slower() -> None:
    engine, results = run(slow(t9=2, t10=NEVER))
    assert results[9] == 9
    assert engine.now == pytest.approx(6)
    assert engine.cancelled == [Call("work", 10)]


def test_there_is_one_copy_at_most() -> None:
    engine, _ = run(slow(t9=50, t10=60))
    assert engine.submitted["work"] == NUM_TASKS + 1
    assert engine.now == pytest.approx(54)


def test_no_copy_before_enough_tasks_are_done() -> None:
    # Task 0 is slow from 1.5 on; with one CPU for the others, the ninth of them is done at 9.
    engine, _ = run(slow(t0=NEVER), fraction=0.9)
    assert engine.now == pytest.approx(10)
    engine, _ = run(slow(t0=NEVER), fraction=0.2)
    # Two are done at 2; the copy of task 0 runs beside the others until 3.
    assert engine.cancelled == [Call("work", 0)]
    assert engine.now < 9


def test_short_tasks_are_left_alone() -> None:
    engine, _ = run(slow(t9=5), min_seconds=6)
    assert engine.submitted["work"] == NUM_TASKS


def test_no_more_tasks_than_cpus_are_submitted_while_they_are_measured() -> None:
    with stepped() as engine:
        tasks = as_finished(submit, range(NUM_TASKS), speculation(engine))
        next(tasks)
        assert engine.submitted["work"] == 2


@pytest.mark.parametrize("seconds", [1.0, 4.0])
def test_a_task_counts_from_when_it_begins(seconds: float) -> None:
    script = Script(lambda call: {Call("gate", 0): 20.0, Call("work", 9): seconds}.get(call, 1.0))
    with stepped(script) as engine:
        gate = xs.remote(lambda: 0, name="gate").remote()

        def submit_behind(index: int) -> Ref:
            if index < 9:
                return submit(index)
            ref: Ref = xs.remote(lambda _: index, name="work").remote(gate)
            return ref

        results = list(as_finished(submit_behind, range(NUM_TASKS), speculation(engine)))
        assert len(results) == NUM_TASKS
        # It has waited for 15 s. Of its own time, a second is usual, and 4 are not.
        assert engine.submitted["work"] == NUM_TASKS + (seconds > 1)


def test_without_speculation_tasks_wait_in_the_engine_but_not_all_of_them() -> None:
    with stepped() as engine:
        next(as_finished(submit, range(100)))
        assert engine.submitted["work"] == 8


def test_without_speculation_nobody_waits_for_results() -> None:
    with stepped() as engine:
        assert len(run_all(submit, range(100), None)) == 100
        assert (engine.submitted["work"], engine.now) == (100, 0)
        refs = run_all(submit, range(NUM_TASKS), speculation(engine))
        assert [xs.get(ref) for ref in refs] == list(range(NUM_TASKS))


@pytest.mark.parametrize("failing", [9, 10])
def test_one_of_two_copies_may_fail(failing: int) -> None:
    script = Script(
        lambda call: {9: 5.0, 10: 7.0}.get(call.number, 1.0),
        fails=lambda call: call.number == failing,
    )
    engine, results = run(script)
    assert results[9] == 9
    assert engine.submitted["work"] == NUM_TASKS + 1


@pytest.mark.parametrize("failing", [{3}, {9, 10}])
def test_a_task_fails_when_all_its_copies_have(failing: set[int]) -> None:
    script = Script(
        lambda call: {9: 5.0, 10: 7.0}.get(call.number, 1.0),
        fails=lambda call: call.number in failing,
    )
    with stepped(script) as engine:
        tasks = as_finished(submit, range(NUM_TASKS), speculation(engine))
        with pytest.raises(TaskError, match="by script"):
            list(tasks)


def test_copies_may_go_elsewhere() -> None:
    copies: list[tuple[int, str | None]] = []

    def submit_copy(index: int, node: str | None) -> Ref:
        copies.append((index, node))
        return submit(index)

    for num_nodes in (1, 2):
        with stepped(slow(t9=NEVER), num_nodes) as engine:
            list(as_finished(submit, range(NUM_TASKS), speculation(engine), submit_copy))
    assert copies == [(9, None), (9, "node1")]


@pytest.mark.parametrize(
    "make",
    [
        Simple,
        lambda chosen: Push(speculation=chosen),
        lambda chosen: PreShuffleMerge(speculation=chosen),
        lambda chosen: Streaming(round_size=4, speculation=chosen),
    ],
)
def test_strategies_copy_slow_maps(make: Callable[[Speculation], Any]) -> None:
    with stepped(Script(lambda call: NEVER if call == Call("map", 3) else 1.0)) as engine:
        assert_every_row_arrives(make(speculation(engine)), 7, 3)
        assert engine.submitted["map"] == 8
        assert engine.cancelled == [Call("map", 3)]


@pytest.mark.parametrize("late", [4, 7, 11])
@pytest.mark.parametrize(
    ("step", "make"),
    [
        ("merge", lambda chosen: Push(speculation=chosen)),
        ("merge", lambda chosen: Push(merge_bytes=200, speculation=chosen)),
        ("fold", lambda chosen: Streaming(round_size=4, speculation=chosen)),
        ("reduce", Simple),
        ("reduce", lambda chosen: Push(speculation=chosen)),
        ("reduce", lambda chosen: PreShuffleMerge(speculation=chosen)),
    ],
)
def test_strategies_copy_slow_merges_folds_and_reduces(
    step: str, make: Callable[[Speculation], Any], late: int
) -> None:
    hanging = Call(step, late)
    with stepped(Script(lambda call: NEVER if call == hanging else 1.0)) as engine:
        strategy = make(speculation(engine, multiple=3, fraction=0.25))
        assert_every_row_arrives(strategy, 48, 12 if step == "reduce" else 3)
        assert engine.cancelled == [hanging]


@pytest.mark.parametrize(
    ("step", "make"),
    [
        ("map", Simple),
        ("map", lambda chosen: Push(speculation=chosen)),
        ("map", lambda chosen: PreShuffleMerge(speculation=chosen)),
        ("map", lambda chosen: Streaming(round_size=6, speculation=chosen)),
        ("fold", lambda chosen: Streaming(round_size=6, speculation=chosen)),
    ],
)
def test_a_copy_runs_on_another_node_than_the_task(
    step: str, make: Callable[[Speculation], Any]
) -> None:
    hanging = Call(step, 3)
    script = Script(
        lambda call: NEVER if call == hanging else 1.0,
        node=lambda options: options.node or "node1",
    )
    with stepped(script, num_nodes=3) as engine:
        assert_every_row_arrives(make(speculation(engine, fraction=0.25)), 12, 4)
        assert engine.cancelled == [hanging]
        assert engine.asked_nodes[step].count("node2") >= 1


@pytest.mark.parametrize("num_nodes", [1, 3])
def test_a_copy_of_a_reduce_runs_on_another_node(num_nodes: int) -> None:
    hanging = Call("reduce", 4)
    with stepped(Script(lambda call: NEVER if call == hanging else 1.0), num_nodes) as engine:
        assert_every_row_arrives(Simple(speculation(engine)), 6, 12)
        assert engine.cancelled == [hanging]
        partition, node = engine.reduced_at[4]
        first, second = (where for number, where in engine.reduced_at if number == partition)
        assert first == node
        assert (first == second) == (num_nodes == 1)


def test_a_copy_of_a_reduce_that_runs_elsewhere_does_not_follow_it() -> None:
    hanging = Call("reduce", 0)
    script = Script(lambda call: NEVER if call == hanging else 1.0, node=lambda _: "node1")
    with stepped(script, num_nodes=3) as engine:
        assert_every_row_arrives(Simple(speculation(engine)), 6, 12)
        assert engine.cancelled == [hanging]
        assert engine.asked_nodes["reduce"].count("node0") == 4
        assert engine.asked_nodes["reduce"].count("node2") == 5


def test_results_come_in_order_and_no_more_reduces_run_than_cpus() -> None:
    with stepped(Script(lambda call: 3.0 if call == Call("reduce", 0) else 1.0)) as engine:
        strategy = Simple(speculation(engine, multiple=9))
        results = strategy.shuffle(LabelTasks(20), [[0]], small_plan(1, 20))
        for number, ref in enumerate(results):
            assert xs.get(ref)[0] == number
            # Two more run beside the result, and four have run beside the slow one.
            assert engine.submitted["reduce"] - number <= 7
        assert engine.submitted["reduce"] == 20


def test_reduces_that_nobody_waits_for_any_more_are_cancelled() -> None:
    with stepped() as engine:
        results = Simple(speculation(engine)).shuffle(LabelTasks(9), [[0]], small_plan(1, 9))
        next(results)
        results.close()
        assert engine.submitted["reduce"] == 3
        assert engine.cancelled == [Call("reduce", 2), Call("reduce", 1)]


def test_a_copy_of_a_merge_runs_on_another_node() -> None:
    hanging = Call("merge", 9)
    with stepped(Script(lambda call: NEVER if call == hanging else 1.0), num_nodes=2) as engine:
        chosen = speculation(engine, multiple=3, fraction=0.25)
        assert_every_row_arrives(Push(speculation=chosen), 48, 4)
        assert engine.cancelled == [hanging]
        # Each node merges its range of the same maps once, and the other node does so for the one that hangs.
        where, maps = engine.merged_by_node[9]
        nodes = [node for node, inputs in engine.merged_by_node if inputs == maps]
        other = {"node0": "node1", "node1": "node0"}[where]
        assert sorted(nodes) == sorted([where, other, other])


def test_a_slow_merge_is_not_copied_where_its_inputs_can_take_its_place() -> None:
    hanging = Call("merge", 4)
    with stepped(Script(lambda call: NEVER if call == hanging else 1.0)) as engine:
        chosen = speculation(engine, multiple=3, fraction=0.25)
        strategy = Push(True, speculation=chosen, best_effort=BestEffort(timeout_seconds=1))
        assert_every_row_arrives(strategy, 48, 3)
        assert engine.cancelled == [hanging]


def test_a_merge_fails_when_its_copy_has_failed_too() -> None:
    slow_ones = {Call("merge", 4): 20.0}
    script = Script(lambda call: slow_ones.get(call, 1.0), fails=lambda call: call.name == "merge")
    with stepped(script) as engine, pytest.raises(TaskError, match="by script"):
        assert_every_row_arrives(Push(speculation=speculation(engine)), 48, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"multiple": 0.5}, "multiple is 0.5"),
        ({"multiple": float("inf")}, "multiple is inf"),
        ({"fraction": 0}, "fraction is 0"),
        ({"fraction": 1.5}, "fraction is 1.5"),
        ({"min_seconds": -1}, "min_seconds is -1"),
    ],
)
def test_options_that_cannot_work(options: dict[str, float], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        Speculation(**options)  # type: ignore[arg-type]
