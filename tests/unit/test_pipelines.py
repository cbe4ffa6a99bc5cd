"""Policies of pipelines, the simulator and the solver: against brute force, and against each other."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.errors import OptionsError
from exoshuffle.pipelines import (
    Balanced,
    Broad,
    Budgeted,
    Conservative,
    Eager,
    Foresight,
    Pipeline,
    Shared,
    Stage,
    Staged,
    Static,
    optimum,
    picture,
    simulate,
)
from exoshuffle.pipelines.budget import credited, paced_seconds, summed_seconds, tasks_of_each
from exoshuffle.pipelines.world import World

POLICIES = {
    "balanced": lambda _: Balanced(),
    "broad": lambda _: Broad(),
    "budgeted": lambda _: Budgeted(),
    "as written": lambda _: Budgeted(summed_seconds),
    "conservative": lambda _: Conservative(),
    "eager": lambda _: Eager(),
    "foresight": lambda _: Foresight(),
    "shared": Shared,
    "staged": lambda _: Staged(),
    "static": lambda pipeline: Static([1] * len(pipeline.stages)),
}


def drawn(chance: random.Random, most_tasks: int) -> Pipeline:
    """Returns a random pipeline of two to four stages on a few CPUs and GPUs, with memory from little to enough."""
    count = chance.randint(2, 4)
    slots = {"CPU": chance.randint(1, 4), "GPU": chance.randint(1, 2)}
    num_tasks = chance.randint(1, most_tasks)
    stages = tuple(
        Stage(
            f"stage {index}",
            chance.randint(1, 5),
            0 if index == 0 else chance.choice([1, 1, 1, 2]),
            0 if index == count - 1 else chance.choice([1, 1, 2, 3]),
            {"CPU" if index == 0 else chance.choice(["CPU", "GPU"]): 1},
        )
        for index in range(count)
    )
    least = max(stage.makes for stage in stages) + max(stage.takes for stage in stages)
    return Pipeline(stages, num_tasks, slots, chance.randint(least, 12))


def work_of(pipeline: Pipeline) -> list[int]:
    """Returns the number of tasks of each stage, the last of each with what is left."""
    tasks = [pipeline.num_tasks]
    for before, after in itertools.pairwise(pipeline.stages):
        tasks.append(math.ceil(tasks[-1] * before.makes / after.takes))
    return tasks


@given(seed=st.integers(0, 2**32), name=st.sampled_from(sorted(POLICIES)))
def test_every_policy_does_all_the_work_within_the_slots(seed, name):
    pipeline = drawn(random.Random(seed), 8)
    schedule = simulate(pipeline, POLICIES[name](pipeline))
    assert [sum(run.stage == stage for run in schedule.runs) for stage in range(4)][
        : len(pipeline.stages)
    ] == work_of(pipeline)
    for moment in {run.begun for run in schedule.runs}:
        for resource, slots in pipeline.slots.items():
            assert slots >= sum(
                pipeline.stages[run.stage].needs.get(resource, 0)
                for run in schedule.runs
                if run.begun <= moment < run.freed
            )
    assert schedule.spilled or schedule.most_waiting <= pipeline.memory
    assert schedule.seconds == max(run.ended for run in schedule.runs)
    assert all(run.begun < run.ended <= run.freed for run in schedule.runs)


@given(seed=st.integers(0, 2**32))
def test_the_conservative_policy_never_spills_and_no_task_waits_for_room(seed):
    pipeline = drawn(random.Random(seed), 12)
    world = World(pipeline)
    if pipeline.stages[0].makes + world.reserve[0] <= pipeline.memory:
        schedule = simulate(pipeline, Conservative())
        assert schedule.spilled == 0
        assert all(run.freed == run.ended for run in schedule.runs)


@given(seed=st.integers(0, 2**32))
def test_the_balanced_policy_never_spills(seed):
    pipeline = drawn(random.Random(seed), 12)
    world = World(pipeline)
    if pipeline.stages[0].makes + world.reserve[0] <= pipeline.memory:
        assert simulate(pipeline, Balanced()).spilled == 0


@given(seed=st.integers(0, 2**32), name=st.sampled_from(sorted(POLICIES)))
def test_no_schedule_without_spilling_is_shorter_than_the_optimum(seed, name):
    pipeline = drawn(random.Random(seed), 3)
    schedule = simulate(pipeline, POLICIES[name](pipeline))
    best = optimum(pipeline, most_states=1000)
    if best is not None and not schedule.spilled:
        assert best <= schedule.seconds


def shortest(pipeline: Pipeline) -> float:
    """Tries everything, tick by tick, with numbered slots and histories, and none of the solver's reductions.

    A task is (stage, ticks left, partitions that it holds).
    """
    stages, slots = pipeline.stages, pipeline.slots
    best = math.inf

    def explore(now: int, left: int, waiting: list[int], tasks: list[list[int]]) -> None:
        nonlocal best
        if now >= best:
            return
        if not left and not any(waiting) and not tasks:
            best = now
            return
        begin(now, left, waiting, tasks, 0)

    def begin(now: int, left: int, waiting: list[int], tasks: list[list[int]], first: int) -> None:
        for stage in range(len(stages)):
            used = sum(1 for task in tasks if stages[task[0]].needs == stages[stage].needs)
            if used >= slots[next(iter(stages[stage].needs))]:
                continue
            if stage == 0:
                if left:
                    begin(now, left - 1, waiting, [*map(list, tasks), [0, now_ticks(0), 0]], first)
                continue
            own = [list(task) for task in tasks]
            room = list(waiting)
            missing = stages[stage].takes
            before = stage - 1
            fed = (
                left
                or any(task[0] < stage and task[1] for task in own)
                or any(
                    room[index] or any(task[0] == index and not task[1] for task in own)
                    for index in range(before)
                )
            )
            made = room[before] + sum(t[2] for t in own if t[0] == before and not t[1])
            if made == 0 or (made < missing and fed):
                continue
            given_now = min(missing, room[before])
            room[before] -= given_now
            missing -= given_now
            for task in own:
                if missing and task[0] == before and not task[1]:
                    taken = min(missing, task[2])
                    task[2] -= taken
                    missing -= taken
            own.append([stage, now_ticks(stage), 0])
            begin(now, left, room, settled(room, own), first)
        if any(task[1] for task in tasks):
            later = [list(task) for task in tasks]
            for task in later:
                if task[1]:
                    task[1] -= 1
                    if not task[1]:
                        task[2] = stages[task[0]].makes
            room = list(waiting)
            explore(now + 1, left, room, settled(room, later))

    def now_ticks(stage: int) -> int:
        return round(stages[stage].seconds)

    def settled(room: list[int], tasks: list[list[int]]) -> list[list[int]]:
        for stage in reversed(range(len(stages))):
            for task in tasks:
                if task[0] == stage and not task[1]:
                    put = min(task[2], pipeline.memory - sum(room))
                    room[stage] += put
                    task[2] -= put
        return [task for task in tasks if task[1] or task[2]]

    explore(0, pipeline.num_tasks, [0] * len(stages), [])
    return best


@pytest.mark.parametrize("seed", range(40))
def test_the_solver_finds_what_brute_force_finds(seed):
    chance = random.Random(seed)
    makes = chance.choice([1, 2])
    needs = chance.choice([{"CPU": 1}, {"GPU": 1}])
    stages = (
        Stage("a", chance.randint(1, 2), 0, makes),
        Stage("b", chance.randint(1, 2), chance.choice([1, makes]), 0, needs),
    )
    slots = {"CPU": chance.randint(1, 2), "GPU": 1}
    pipeline = Pipeline(stages, 2, slots, chance.randint(1, 2))
    expected = shortest(pipeline)
    if expected == math.inf:
        with pytest.raises(OptionsError, match=r"no schedule keeps to \d partitions"):
            optimum(pipeline)
    else:
        assert optimum(pipeline) == expected


def test_most_random_pipelines_end_about_as_soon_as_they_can():
    chance = random.Random(20)
    ratios = []
    while len(ratios) < 60:
        pipeline = drawn(chance, 6)
        seconds = simulate(pipeline).seconds
        best = optimum(pipeline, most_states=3000, known=seconds)
        if best is not None:
            ratios.append(best / seconds)
    assert statistics.median(ratios) >= 0.95
    assert sorted(ratios)[1] >= 0.8


def fig_2_11(num_tasks: int, memory: int) -> Pipeline:
    """The synthetic pipeline of Luan's dissertation, figure 2.11, with fewer tasks."""
    stages = (
        Stage("load", 5, 0, 5),
        Stage("transform", 0.5),
        Stage("infer", 0.5, 1, 0, {"GPU": 1}),
    )
    return Pipeline(stages, num_tasks, {"CPU": 8, "GPU": 4}, memory)


@pytest.mark.parametrize("memory", [5, 10, 40])
def test_foresight_beats_the_conservative_policy_where_memory_is_scarce(memory):
    pipeline = fig_2_11(16, memory)
    ideal = (16 * 5 + 80 * 0.5) / 8
    own, careful = simulate(pipeline), simulate(pipeline, Conservative())
    assert own.spilled == careful.spilled == 0
    assert own.seconds <= 1.4 * ideal
    assert own.seconds <= careful.seconds
    if memory <= 10:
        assert own.seconds < 0.7 * careful.seconds


@pytest.mark.parametrize("memory", [5, 10, 20, 40, 80, 160, 320])
def test_little_memory_costs_a_tenth_at_most(memory):
    # The solver of the dissertation finds 153 s without a limit of memory.
    schedule = simulate(fig_2_11(160, memory), Balanced())
    assert schedule.seconds <= 1.1 * 153
    assert schedule.spilled == 0
    assert schedule.most_waiting <= memory


def test_stages_share_slots_in_fractions():
    pipeline = Pipeline((Stage("a", 1, 0, 1), Stage("b", 2, 1, 0)), 40, {"CPU": 8}, 8)
    static = min(simulate(pipeline, Static([one, 8 - one])).seconds for one in range(1, 8))
    assert simulate(pipeline).seconds <= 0.95 * static
    assert simulate(pipeline, Static([4, 4])).seconds * 0.78 >= simulate(pipeline).seconds


def test_algorithm_2_by_the_example_of_the_dissertation():
    stages = (
        Stage("load", 1, 0, 1),
        Stage("transform", 12, 1, 2),
        Stage("infer", 2, 1, 0, {"GPU": 1}),
    )
    pipeline = Pipeline(stages, 10, {"CPU": 6, "GPU": 4}, 100)
    world = World(pipeline)
    assert tasks_of_each(pipeline) == [1, 1, 2]
    assert summed_seconds(world, world.start()) == pytest.approx(1 / 6 + 2 + 1)
    assert paced_seconds(world, world.start()) == 2
    busy = world.start()
    for _ in range(6):
        busy = world.begin(busy, 0)
    assert paced_seconds(world, busy) == math.inf


@given(
    budget=st.floats(0, 100),
    elapsed=st.floats(0, 100),
    seconds=st.floats(0.001, 100),
    most=st.floats(0, 100),
)
def test_a_budget_grows_with_time_up_to_its_bound(budget, elapsed, seconds, most):
    first = credited(budget, 3, elapsed, seconds, most)
    assert first <= most
    assert first >= min(budget, most)
    assert credited(budget, 3, 2 * elapsed, seconds, most) >= first
    assert credited(budget, 3, elapsed, math.inf, most) == min(budget, most)


def test_the_picture_has_a_bar_for_each_task_and_the_names_escaped():
    stages = (Stage("<load>", 2, 0, 3), Stage("infer", 1, 1, 0, {"GPU": 1}))
    schedule = simulate(Pipeline(stages, 3, {"CPU": 2, "GPU": 1}, 1), Eager())
    root = ET.fromstring(picture(schedule))  # noqa: S314  we made it
    texts = ["".join(each.itertext()) for each in root.iter() if each.tag.endswith("text")]
    bars = [each for each in root.iter() if each.get("stroke") == "white"]
    assert texts[:2] == ["<load>", "infer"]
    assert {"CPU 1", "CPU 2", "GPU 1"} <= set(texts)
    assert len(bars) == len(schedule.runs) + sum(run.freed > run.ended for run in schedule.runs)


def test_no_tasks_take_no_time():
    schedule = simulate(fig_2_11(0, 5))
    assert (schedule.seconds, schedule.runs) == (0, ())
    assert optimum(fig_2_11(0, 5)) == 0
    assert "<svg" in picture(schedule)


ONE = Stage("one", 1, 0, 0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Stage("a", 0), r"seconds of stage 'a' is 0; it must be a number from 0\.001 on"),
        (lambda: Stage("a", 1, -1), "takes of stage 'a' is -1; it must be a whole number"),
        (lambda: Pipeline((), 1, {"CPU": 1}, 1), "a pipeline has no stage; give at least one"),
        (lambda: Pipeline((ONE,), -1, {"CPU": 1}, 1), "num_tasks is -1"),
        (lambda: Pipeline((ONE,), 1, {"CPU": 1}, 1.5), "memory is 1.5"),
        (lambda: Pipeline((Stage("a", 1),), 1, {"CPU": 1}, 1), "the first takes 0"),
        (lambda: Pipeline((Stage("a", 1, 0),), 1, {"CPU": 1}, 1), "the last makes 0"),
        (
            lambda: simulate(Pipeline((Stage("a", 1, 0, 0, {"GPU": 2}),), 1, {"GPU": 1}, 1)),
            r"a task of stage 'a' needs \{'GPU': 2\}, and there is \{'GPU': 1\}; declare more slots",
        ),
    ],
)
def test_what_cannot_work_is_refused(make, words):
    with pytest.raises(OptionsError, match=words):
        make()
