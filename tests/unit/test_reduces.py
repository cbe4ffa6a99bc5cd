"""Large partitions are found, divided as the task set says, and their results come in their place."""

from __future__ import annotations

import dataclasses
import itertools
import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import TaskError
from exoshuffle.futures import Refs, SliceRef, TaskOptions
from exoshuffle.operators.join.finish import pieces_of
from exoshuffle.plan.division import MAX_LEVEL, Division, Large, Pieces, Reshuffle, Streamed, Whole
from exoshuffle.strategies import (
    FixedFiles,
    MergeOptions,
    PreShuffleMerge,
    Push,
    ShufflePlan,
    Simple,
    Strategy,
)
from exoshuffle.strategies.mechanisms.partition_sizes import maps_of
from exoshuffle.strategies.mechanisms.reduces import run_reduces
from exoshuffle.strategies.task_set import stage
from exoshuffle.testing import failing
from exoshuffle.testing.meeting import poll
from exoshuffle.testing.programs import LabelTasks
from exoshuffle.testing.shuffles import small_plan
from tests.unit.stepped import stepped

#: Bytes of a partition that is not large: some tens of pickled numbers.
LARGE = 300


def plan_of(num_splits: int, num_partitions: int) -> ShufflePlan:
    """A plan with the sizes of pickled numbers."""
    return dataclasses.replace(
        small_plan(num_splits, num_partitions),
        split_bytes=200,
        row_group_bytes=0,
        max_partition_bytes=LARGE,
        max_whole_bytes=10 * LARGE,
    )


def large(sizes: Sequence[int], **changes: Any) -> Large:
    return dataclasses.replace(Large(0, Refs([]), tuple(sizes), plan_of(len(sizes), 1)), **changes)


class Numbers:
    """Numbers below 1,000 by their thousandths, then by hundreds of these, and so on; equal ones never part."""

    executor = "thread"

    def __init__(self, width: int, num_partitions: int, how: str = "again") -> None:
        self.width, self.num_partitions, self.how = width, num_partitions, how
        #: How often large partitions had been divided, and how often in vain.
        self.divided: list[tuple[int, int]] = []
        self.checked: list[int] = []

    def map(self, index: int, numbers: Any) -> list[list[int]]:
        """A list of numbers, or lists of slices."""
        flat = [n for part in numbers for n in (part if isinstance(part, list) else [part])]
        del index
        return [
            [n for n in flat if n % (self.width * self.num_partitions) // self.width == r]
            for r in range(self.num_partitions)
        ]

    def merge(self, *blocks: list[list[int]]) -> list[list[int]]:
        return [list(itertools.chain(*slices)) for slices in zip(*blocks, strict=True)]

    def reduce(self, partition: int, slices: list[list[int]]) -> tuple[str, list[int]]:
        del partition
        return "reduced", sorted(itertools.chain(*slices))

    def stream(self, partition: int, runs: list[list[SliceRef]]) -> tuple[str, list[int]]:
        del partition
        return "streamed", sorted(n for run in runs for part in xs.get(run) for n in part)

    def sample(self, index: int, slices: list[list[int]], num_rows: int) -> bytes:
        del index, slices
        return bytes([num_rows > 0])

    def assigned(self, samples: Sequence[bytes], num_partitions: int) -> Numbers:
        assert set(samples) <= {b"\1"}
        parts = Parts(max(1, self.width // num_partitions), num_partitions)
        parts.divided, parts.checked = self.divided, self.checked
        return parts

    def check(self, read: list[int]) -> None:
        assert sum(read) > 0
        self.checked.append(sum(read))

    def divide(self, part: Large) -> Division:
        assert part.num_bytes > LARGE
        self.divided.append((part.level, part.stuck))
        if self.how == "pieces":
            return Pieces(self, part.runs(LARGE))
        if self.how == "stream":
            return Streamed(self, part.runs(LARGE))
        return Whole() if part.is_indivisible else Reshuffle(self, is_sampled=self.how == "sampled")


class Parts(Numbers):
    """Numbers of a partition; maps say how many they have read."""

    def map(self, index: int, numbers: Any) -> list[Any]:
        return [*super().map(index, numbers), sum(map(len, numbers))]


def shuffled(strategy: Strategy, tasks: Numbers, splits: list[list[int]]) -> list[Any]:
    plan = plan_of(len(splits), tasks.num_partitions)
    results: list[Any] = xs.get(list(strategy.shuffle(tasks, splits, plan)))
    return results


ALL = [
    pytest.param(Simple(), id="simple"),
    pytest.param(Push(), id="push"),
    pytest.param(PreShuffleMerge(MergeOptions(FixedFiles(2), percent=100)), id="pre-shuffle-merge"),
]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("how", ["again", "sampled", "pieces", "stream"])
def test_results_come_in_the_place_of_the_partition(strategy: Strategy, how: str) -> None:
    draw = random.Random(7)
    splits = [[draw.randrange(512) for _ in range(100)] for _ in range(6)]
    results = shuffled(strategy, Numbers(128, 4, how), splits)
    numbers = [n for _, part in results for n in part]
    assert sorted(numbers) == sorted(n for split in splits for n in split)
    if how in ("again", "sampled"):
        assert numbers == sorted(numbers)
        assert len(results) > 4
    else:
        # Whatever took the place of a partition, those behind it come later.
        assert [n // 128 for n in numbers] == sorted(n // 128 for n in numbers)
        assert {what for what, _ in results} == {"streamed" if how == "stream" else "reduced"}


class Told(Numbers):
    """Notes what it is told about blocks, beside what they hold."""

    def __init__(self, num_partitions: int) -> None:
        super().__init__(1, num_partitions, "pieces")
        self.told: list[tuple[list[int], list[int]]] = []

    def divide(self, part: Large) -> Division:
        slices = xs.get(part.slices(range(len(part.sizes))))
        self.told += [
            (list(maps), sorted({n // self.num_partitions for n in numbers}))
            for maps, numbers in zip(part.maps, slices, strict=True)
        ]
        return super().divide(part)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "strategy",
    [
        *ALL,
        pytest.param(Push(merge_bytes=500), id="push, merged by bytes"),
        pytest.param(PreShuffleMerge(MergeOptions(FixedFiles(2), percent=0)), id="given up"),
    ],
)
def test_divisions_are_told_of_which_maps_blocks_are(strategy: Strategy) -> None:
    tasks = Told(2)
    splits = [[2 * index, 2 * index + 1] * 100 for index in range(7)]
    shuffled(strategy, tasks, splits)
    assert [maps for maps, _ in tasks.told] == [held for _, held in tasks.told]
    assert [index for maps, _ in tasks.told for index in maps] == [*range(7), *range(7)]


def test_divisions_are_told_nothing_where_blocks_are_not_those_of_allmaps_of() -> None:
    assert maps_of([2, 1], plan_of(3, 1)) == (range(2), range(2, 3))
    assert maps_of([1, 1], plan_of(3, 1)) == ()
    assert maps_of([], plan_of(0, 1)) == ()


@pytest.mark.usefixtures("engine")
def test_one_value_is_given_up_after_two_levels() -> None:
    tasks = Numbers(128, 4)
    results = shuffled(Simple(), tasks, [[5] * 200, [5] * 200, [400]])
    assert [part for _, part in results if part] == [[5] * 400, [400]]
    assert tasks.divided == [(0, 0), (1, 1), (2, 2)]
    assert tasks.checked == [400, 400], "what the maps of each division have read"


@pytest.mark.usefixtures("engine")
def test_what_was_divided_once_is_not_given_up() -> None:
    """A level that was of use begins the count anew."""
    tasks = Numbers(128, 4)
    splits = [list(range(128)) * 4, [5] * 200, [6] * 200]
    results = shuffled(Simple(), tasks, splits)
    assert sorted(n for _, part in results for n in part) == sorted(
        n for split in splits for n in split
    )
    assert tasks.divided[:2] == [(0, 0), (1, 0)]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("outcome", ["raise", "die"])
def test_every_task_of_a_division_fails_once(outcome: Any) -> None:
    splits = [list(range(i, 512, 3)) for i in range(3)]
    calls = [("map", number) for number in (3, 5)] + [("sample", 0), ("reduce", 1)]
    with failing({(*call, 1): outcome for call in calls}) as engine:
        results = shuffled(Simple(), Numbers(128, 4, "sampled"), splits)
        assert engine.attempts() == dict.fromkeys(calls, 2)
    assert [n for _, part in results for n in part] == list(range(512))


def test_who_cannot_divide_waits_for_nothing() -> None:
    with stepped() as engine:
        blocks = Refs(
            [engine.submit(LabelTasks(2).map, (0, [1]), {}, TaskOptions(num_returns=2, name="map"))]
        )
        assert len(list(run_reduces(LabelTasks(2), blocks, plan_of(1, 2)))) == 2
        assert engine.now == 0


@pytest.mark.usefixtures("engine")
def test_a_map_that_fails_is_the_error() -> None:
    with pytest.raises(TaskError, match="map"):
        shuffled(Simple(), Numbers(128, 4), [[1], [None]])  # type: ignore[list-item]


class Slow(Numbers):
    """The first map waits; it is told whether that was in vain."""

    def __init__(self) -> None:
        super().__init__(128, 4)
        self.gate, self.began = threading.Event(), threading.Event()
        self.waited: list[bool] = []

    def map(self, index: int, numbers: Any) -> list[list[int]]:
        if index == 0:
            self.began.set()
            self.waited.append(self.gate.wait(30))
        else:
            self.began.wait(30)
        return super().map(index, numbers)


@pytest.mark.usefixtures("engine")
def test_a_map_that_fails_is_the_error_while_others_run() -> None:
    tasks = Slow()
    with pytest.raises(TaskError, match="map"):
        shuffled(Simple(), tasks, [[1], [None]])  # type: ignore[list-item]
    assert tasks.waited == [], "the slow map was waited for"
    tasks.gate.set()
    poll(lambda: tasks.waited == [True])


def test_reduces_have_memory_for_what_is_larger_than_planned(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no less than planned where it is smaller; also where it cannot be divided."""
    asked: dict[int, int] = {}
    submit = engine.submit

    def noted(fn: Any, args: Any, kwargs: Any, options: TaskOptions) -> Any:
        if options.name == "reduce":
            asked[args[0]] = options.memory
        return submit(fn, args, kwargs, options)

    monkeypatch.setattr(engine, "submit", noted)
    plan = dataclasses.replace(plan_of(1, 4), large_partition_bytes=40, reduce_percent=300)
    tasks = Numbers(128, 4, "pieces")
    numbers = [*range(5), *range(128, 198), *[256] * 500]
    blocks = Refs([stage(tasks, "map", num_returns=4).remote(0, numbers)])
    xs.get(list(run_reduces(tasks, blocks, plan)))
    small, medium, large_one, none = xs.slice_bytes(blocks)[0]
    assert none <= small < 40 < medium < LARGE < large_one
    assert asked[1] == plan.reduce_memory(medium) > plan.reduce_memory(small)
    assert asked[3] == plan.reduce_memory_bytes


@given(st.lists(st.integers(0, 100), min_size=1), st.integers(1, 150))
def test_runs_divide_the_slices(sizes: list[int], limit: int) -> None:
    runs = large(sizes).runs(limit)
    assert [index for run in runs for index in run] == list(range(len(sizes)))
    assert all(run and (len(run) == 1 or sum(sizes[i] for i in run) <= limit) for run in runs)
    # As few as can be: no run has room for the slice behind it.
    for run, following in itertools.pairwise(runs):
        assert sum(sizes[i] for i in run) + sizes[following.start] > limit


def test_what_does_not_divide_is_given_up() -> None:
    assert not large([1], level=1, stuck=1).is_indivisible
    assert large([1], level=2, stuck=2).is_indivisible
    assert large([1], level=MAX_LEVEL).is_indivisible


@given(
    st.lists(st.integers(0, 3 * LARGE), min_size=1, max_size=12),
    st.lists(st.integers(0, 3 * LARGE), min_size=1, max_size=12),
    st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]),
)
def test_pieces_of_a_join_hold_every_pair_of_slices_once(
    left: list[int], right: list[int], how: str
) -> None:
    pieces = pieces_of(how, len(left), large([*left, *right]))
    pairs = [
        (i, j) for piece in pieces for i in piece for j in piece if i < len(left) and j >= len(left)
    ]
    if pieces:
        wanted = [(i, len(left) + j) for i in range(len(left)) for j in range(len(right))]
        assert sorted(pairs) == wanted
        # A side that must be seen whole is in every piece; only the others are cut.
        for piece in pieces:
            assert how not in ("left", "semi", "anti") or sum(i >= len(left) for i in piece) == len(
                right
            )
            assert how != "right" or sum(i < len(left) for i in piece) == len(left)
    assert how != "full" or not pieces
    assert how != "inner" or pieces


def test_sizes_are_those_of_spilled_blocks_too(engine: LocalEngine) -> None:
    def fill() -> Any:
        return xs.allocate_block([0, 1_000, 1_000, 30_000_000])

    refs = [
        xs.remote(fill, num_returns=3, executor="thread", name="fill").remote() for _ in range(6)
    ]
    xs.wait(refs, num_ready=6)
    assert engine.stats()["spilled_bytes"] > 0
    restored = engine.stats()["restored_bytes"]
    assert xs.slice_bytes(refs) == [[1_000, 0, 29_999_000]] * 6
    assert engine.stats()["restored_bytes"] == restored
