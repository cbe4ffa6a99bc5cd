"""``exoshuffle.shuffle``: a shuffle of functions by every strategy, in worker processes and on threads; its errors."""

from __future__ import annotations

import doctest
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.errors import InputError, MemoryLimitError, OptionsError, TaskError
from exoshuffle.strategies import FixedFiles, MergeOptions, PreShuffleMerge, Push
from exoshuffle.strategies import functions as functions_module

pytestmark = [pytest.mark.usefixtures("shared_engine"), pytest.mark.shares_engine]

INPUTS = [range(start, start + 7) for start in range(0, 70, 7)]
NUM_PARTITIONS = 3


def divide(_: int, numbers: range) -> list[list[int]]:
    return [[n for n in numbers if n % NUM_PARTITIONS == p] for p in range(NUM_PARTITIONS)]


def concatenate(*blocks: Sequence[list[int]]) -> list[list[int]]:
    return [[*itertools.chain(*slices)] for slices in zip(*blocks, strict=True)]


def collect(_: int, slices: list[list[int]]) -> list[int]:
    return [*itertools.chain(*slices)]


def extend(_: int, state: list[int] | None, slices: list[list[int]]) -> list[int]:
    return [*(state or []), *itertools.chain(*slices)]


FUNCTIONS: dict[str, Any] = {
    "map": divide,
    "merge": concatenate,
    "reduce": collect,
    "fold": extend,
    "num_partitions": NUM_PARTITIONS,
}
EXPECTED = [list(range(first, 70, NUM_PARTITIONS)) for first in range(NUM_PARTITIONS)]


@pytest.mark.parametrize("executor", ["process", "thread"])
@pytest.mark.parametrize(
    "strategy",
    [
        "simple",
        "push",
        "pre_shuffle_merge",
        "streaming",
        PreShuffleMerge(MergeOptions(FixedFiles(3))),
        Push(keep_map_outputs=True, merge_bytes=10_000),
    ],
)
def test_every_strategy_gives_the_same(strategy: Any, executor: Any) -> None:
    refs = xs.shuffle(INPUTS, **FUNCTIONS, strategy=strategy, executor=executor, memory="1MB")
    assert xs.get(list(refs)) == EXPECTED


@pytest.mark.parametrize("strategy", ["simple", "push", "pre_shuffle_merge", "streaming"])
def test_one_partition_is_a_list_of_one_value(strategy: str) -> None:
    def everything(_: int, numbers: range) -> list[list[int]]:
        return [list(numbers)]

    options = {**FUNCTIONS, "map": everything, "num_partitions": 1}
    assert xs.get(list(xs.shuffle(INPUTS, **options, strategy=strategy))) == [list(range(70))]


@pytest.mark.parametrize("strategy", ["simple", "push", "pre_shuffle_merge", "streaming"])
def test_no_inputs(strategy: str) -> None:
    assert xs.get(list(xs.shuffle([], **FUNCTIONS, strategy=strategy))) == [[]] * NUM_PARTITIONS


def test_nothing_runs_before_a_result_is_asked_for() -> None:
    before = xs.futures.current_engine().stats()["num_tasks"]
    refs = xs.shuffle(INPUTS, **FUNCTIONS)
    assert xs.futures.current_engine().stats()["num_tasks"] == before
    assert xs.get(next(refs)) == EXPECTED[0]


def test_the_example_of_the_documentation() -> None:
    found = doctest.DocTestFinder().find(functions_module.shuffle, "shuffle")
    results = [doctest.DocTestRunner().run(test) for test in found]
    assert sum(result.attempted for result in results) >= 4
    assert sum(result.failed for result in results) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_partitions": 0}, "0 partitions; choose 1 or more"),
        ({"num_partitions": 1.5}, "num_partitions is 1.5; it must be a whole number"),
        ({"strategy": "magic"}, "unknown strategy 'magic'"),
        ({"executor": "gpu"}, "unknown executor 'gpu'"),
        ({"memory": "much"}, "'much' is not a size"),
        ({"strategy": "push", "merge": None}, "needs a function merge; pass merge="),
        ({"strategy": "pre_shuffle_merge", "merge": None}, "needs a function merge; pass merge="),
        ({"strategy": "streaming", "fold": None}, "needs a function fold; pass fold="),
        ({"reduce": None}, "needs a function reduce; pass reduce="),
        ({"map": "by_key"}, "map is 'by_key'; it must be a function"),
        ({"merge": 5}, "merge is 5; it must be a function"),
    ],
)
def test_what_cannot_work_is_refused_at_once(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        xs.shuffle(INPUTS, **{**FUNCTIONS, **changes})


def test_memory_that_no_engine_has_is_refused() -> None:
    with pytest.raises(MemoryLimitError, match="raise memory_limit"):
        list(xs.shuffle(INPUTS, **FUNCTIONS, memory="1TB"))


@pytest.mark.parametrize("num_values", [0, 2, 4])
def test_a_map_of_too_many_or_too_few_values(num_values: int) -> None:
    options = {**FUNCTIONS, "map": lambda _, __: [[]] * num_values}
    with pytest.raises(TaskError, match=f"map of input 0 returned {num_values} values") as caught:
        xs.get(list(xs.shuffle(INPUTS[:1], **options)))
    assert isinstance(caught.value.__cause__, InputError)


def test_a_map_that_returns_no_list() -> None:
    options = {**FUNCTIONS, "map": lambda _, __: None}
    with pytest.raises(TaskError, match="map of input 0 returned None; it must return a") as caught:
        xs.get(list(xs.shuffle(INPUTS[:1], **options)))
    assert isinstance(caught.value.__cause__, InputError)


def test_a_merge_of_too_few_values() -> None:
    options = {**FUNCTIONS, "merge": lambda *blocks: blocks[0][:1]}
    with pytest.raises(TaskError, match="merge returned 1 value; with 3 partitions"):
        xs.get(list(xs.shuffle(INPUTS, **options, strategy="push")))


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_a_merge_that_is_wrong_is_told_where_it_costs_no_result(
    executor: str, caplog: pytest.LogCaptureFixture
) -> None:
    """``pre_shuffle_merge`` forgives; the warning has the error with its traceback, once."""

    def forgets(*_: Any) -> Any:
        raise KeyError("no such slice")

    options = {**FUNCTIONS, "merge": forgets, "executor": executor}
    shuffled = xs.shuffle(INPUTS, **options, strategy="pre_shuffle_merge")
    assert xs.get(list(shuffled)) == EXPECTED
    [record] = caplog.records
    assert (record.name, record.levelname) == ("exoshuffle", "WARNING")
    assert "merges failed, and their inputs are read instead" in record.getMessage()
    assert "no such slice" in record.getMessage()
    assert "in forgets" in caplog.text


def test_a_strategy_of_ones_own_meets_the_same_error() -> None:
    class Own:
        def shuffle(self, *args: Any) -> Any:
            return Push().shuffle(*args)

    options = {**FUNCTIONS, "merge": None, "strategy": Own()}
    with pytest.raises(TaskError, match="needs a function merge"):
        xs.get(list(xs.shuffle(INPUTS, **options)))


@pytest.mark.parametrize(
    ("step", "strategy", "note"),
    [
        ("map", "simple", "this was the map of input 2"),
        ("merge", "push", "this was a merge of 4 blocks"),
        ("reduce", "simple", "this was the reduce of partition 2"),
        ("fold", "streaming", "this was the fold of partition 2"),
    ],
)
def test_an_error_of_a_function_says_where(step: str, strategy: str, note: str) -> None:
    def fails_later(first: Any, *rest: Any) -> Any:
        if first in (0, 1):
            return FUNCTIONS[step](first, *rest)
        if first == 3:
            return FUNCTIONS[step](first, *rest)
        raise ZeroDivisionError("the user's own")

    options = {**FUNCTIONS, step: fails_later, "strategy": strategy}
    with pytest.raises(TaskError, match="the user's own") as caught:
        xs.get(list(xs.shuffle(INPUTS[:4], **options)))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.__cause__.__notes__ == [note]
