"""The streaming strategy: states after every round, in order; and task sets that cannot fold."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections import Counter
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError, TaskError
from exoshuffle.strategies import (
    Round,
    Simple,
    Speculation,
    Streaming,
    get_strategy,
)
from exoshuffle.strategies.library import strategy_names
from exoshuffle.testing import assert_every_row_arrives
from exoshuffle.testing.programs import LabelTasks
from exoshuffle.testing.shuffles import small_plan
from tests.unit.stepped import Call, Script, Task, stepped, task_of

WORDS = ["to be or not", "to be that", "is the question", "whether tis", "nobler in", "the mind"]


def count(_: int, line: str) -> list[Counter[str]]:
    """Words by the parity of their length."""
    parts: list[Counter[str]] = [Counter(), Counter()]
    for word in line.split():
        parts[len(word) % 2][word] += 1
    return parts


def add(_: int, state: Counter[str] | None, slices: list[Counter[str]]) -> Counter[str]:
    return sum(slices, Counter(state or {}))


def test_every_round_has_the_result_of_the_maps_so_far() -> None:
    seen: list[tuple[int, bool, list[Counter[str]]]] = []

    def look(folded: Round) -> None:
        seen.append((folded.num_maps, folded.is_last, xs.get(list(folded.states))))

    with stepped():
        results = xs.get(
            list(
                xs.shuffle(
                    WORDS, map=count, fold=add, num_partitions=2, strategy=Streaming(look, 2)
                )
            )
        )
    assert [(num_maps, is_last) for num_maps, is_last, _ in seen] == [
        (2, False),
        (4, False),
        (6, True),
    ]
    for num_maps, _, states in seen:
        words = Counter(" ".join(WORDS[:num_maps]).split())
        assert states[0] + states[1] == words
    assert seen[-1][2] == results


def test_rows_reach_the_states_in_the_order_of_the_maps() -> None:
    late = Script(lambda call: 9.0 if call.name == "map" and call.number % 2 == 0 else 1.0)
    with stepped(late):
        assert_every_row_arrives(Streaming(round_size=3), 10, 4)


class SlicedLabels(LabelTasks):
    """States are slices; says in which order partitions were folded."""

    states_are_slices = True

    def __init__(self, num_partitions: int) -> None:
        super().__init__(num_partitions)
        self.folded: list[int] = []

    def fold(self, partition: int, state: Any, slices: list[Any]) -> Any:
        self.folded.append(partition)
        return [*(state or []), *itertools.chain(*slices)]


def test_states_that_are_slices_are_reduced() -> None:
    late = Script(lambda call: 9.0 if call.name == "map" and call.number % 2 == 0 else 1.0)
    with stepped(late) as engine:
        assert_every_row_arrives(Streaming(round_size=3), 10, 4, SlicedLabels(4))
        assert engine.submitted == {"map": 10, "fold": 16, "reduce": 4}
        assert engine.reduced == [(Call("fold", number),) for number in (15, 14, 13, 12)]


@pytest.mark.parametrize(("num_rounds", "first"), [(2, [0, 1, 2]), (3, [2, 1, 0])])
def test_rounds_fold_to_and_fro_and_the_last_one_downwards(
    num_rounds: int, first: list[int]
) -> None:
    tasks = SlicedLabels(3)
    with stepped():
        assert_every_row_arrives(Streaming(round_size=2), 2 * num_rounds - 1, 3, tasks)
    assert tasks.folded[:3] == first
    assert tasks.folded[-6:] == [0, 1, 2, 2, 1, 0]


def test_a_state_is_let_go_when_its_reduce_is_submitted() -> None:
    tasks, splits, plan = SlicedLabels(3), [[1], [2]], small_plan(2, 3)
    seen: list[weakref.ref[Task]] = []

    def look(folded: Round) -> None:
        seen[:] = [weakref.ref(task_of(state)) for state in folded.states]

    with stepped():
        results = Streaming(look).shuffle(tasks, splits, plan)
        for partition in range(2):
            assert xs.get(next(results))[0] == partition
        gc.collect()
        assert [state() is None for state in seen] == [True, True, False]


def test_the_next_round_of_maps_runs_beside_the_folds() -> None:
    script = Script(lambda call: 10.0 if call.name == "fold" else 1.0)
    with stepped(script) as engine:
        rounds = Streaming(round_size=2).rounds(
            LabelTasks(1), [[index] for index in range(6)], small_plan(6, 1)
        )
        next(rounds)
        assert engine.submitted == {"map": 2, "fold": 1}
        next(rounds)
        assert engine.now == pytest.approx(11)
        assert engine.submitted == {"map": 4, "fold": 2}


def test_folds_run_beside_maps_of_which_a_slow_one_is_copied() -> None:
    script = Script(lambda call: 50.0 if call == Call("map", 5) else 1.0)
    with stepped(script) as engine:
        chosen = Speculation(multiple=2, fraction=0.5, min_seconds=0, clock=engine.clock)
        strategy = Streaming(round_size=4, speculation=chosen)
        assert_every_row_arrives(strategy, 8, 2)
        assert engine.submitted == {"map": 9, "fold": 4}
        assert engine.cancelled == [Call("map", 5)]
        # Two CPUs: a round of maps takes two seconds. The copy starts when map 5 has run twice as long as others. The
        # folds of the last round take one more.
        assert engine.now == pytest.approx(6)


def test_a_failed_fold_ends_the_rounds() -> None:
    with stepped(Script(fails=lambda call: call == Call("fold", 1))):
        rounds = Streaming(round_size=1).rounds(LabelTasks(2), [[1], [2], [3]], small_plan(3, 2))
        next(rounds)
        with pytest.raises(TaskError, match="task fold failed"):
            next(rounds)


def test_a_plan_without_rounds_is_divided() -> None:
    tasks, splits, plan = LabelTasks(1), [[index] for index in range(20)], small_plan(20, 1)
    with stepped():
        rounds = list(Streaming().rounds(tasks, splits, plan))
    assert [folded.num_maps for folded in rounds] == list(range(2, 21, 2))


class CannotFold:
    executor = "process"

    def map(self, index: int, split: Any) -> Any: ...
    def merge(self, *blocks: Any) -> Any: ...
    def reduce(self, partition: int, slices: list[Any]) -> Any: ...


def test_a_task_set_that_cannot_fold_is_refused() -> None:
    strategy: Any = get_strategy("streaming")
    with (
        stepped(),
        pytest.raises(OptionsError, match="needs a task set with fold, which CannotFold has not"),
    ):
        next(strategy.shuffle(CannotFold(), [1], small_plan(1, 1)))


def test_a_round_has_a_map() -> None:
    with pytest.raises(OptionsError, match="round_size is 0"):
        Streaming(round_size=0)


def test_strategies_by_name() -> None:
    assert isinstance(get_strategy("streaming"), Streaming)
    assert get_strategy(chosen := Simple()) is chosen
    with pytest.raises(OptionsError, match="known are simple, push, pre_shuffle_merge, streaming"):
        get_strategy("merge")
    assert strategy_names() == ["simple", "push", "pre_shuffle_merge", "streaming"]
