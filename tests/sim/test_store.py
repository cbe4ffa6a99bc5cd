"""Memory of a node in virtual time: spilling, restoring, fallback, prefetching, and deadlocks that are proven."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

import exoshuffle as xs
from exoshuffle.engines.sim import (
    Call,
    Cluster,
    Cost,
    Disk,
    Faults,
    Machine,
    ObjectStorage,
    SimEngine,
    Step,
)
from exoshuffle.errors import DeadlockError, OptionsError, TaskError
from exoshuffle.futures import raise_errors

MB = 1_000_000
DISK = Disk(100 * MB, 100 * MB)


def make(num_bytes: int, seconds: float = 0.0):
    return lambda _call: Cost((Step(cpu_seconds=seconds),), num_bytes)


def nothing() -> None: ...


def task(name, *args, **options):
    return xs.remote(nothing, name=name, max_retries=3, **options).remote(*args)


@contextlib.contextmanager
def simulated(
    machine: Machine, models, num_nodes: int = 1, described=None, **options
) -> Iterator[SimEngine]:
    described = described or {}
    cluster = Cluster((machine,) * num_nodes, task_seconds=0, call_seconds=1e-9, **described)
    with xs.init(SimEngine(cluster, models=models, **options)) as engine:
        assert isinstance(engine, SimEngine)
        yield engine


def test_nothing_is_spilled_below_four_fifths():
    with simulated(Machine(1, 100 * MB, DISK), {"make": make(10 * MB)}) as engine:
        refs = [task("make") for _ in range(8)]
        xs.wait(refs, num_ready=8)
        assert engine.stats()["spilled_bytes"] == 0
        assert engine.stats()["peak_bytes"] == 80 * MB


def test_the_oldest_are_spilled_and_one_slice_is_restored_alone():
    models = {"make": make(10 * MB), "read": make(0), "rest": make(0, seconds=10)}
    with simulated(Machine(1, 100 * MB, DISK), models) as engine:
        refs = [task("make", num_returns=10) for _ in range(20)]
        xs.wait(refs, num_ready=20)
        spilled = engine.stats()["spilled_bytes"]
        # 200 MB were made, and 80 to 90 MB of them may stay.
        assert 110 * MB <= spilled <= 130 * MB
        # Spilling goes on for a while.
        xs.wait([task("rest")])
        before = engine.now
        xs.wait([task("read", refs[0][3])])
        assert engine.stats()["restored_bytes"] == MB
        # The slice is one more megabyte in memory, so that a block is written at the same time.
        assert 0.01 <= engine.now - before <= 0.0201
        xs.wait([task("read", refs[19][3])])
        assert engine.stats()["restored_bytes"] == MB


def test_small_blocks_are_written_in_batches():
    models = {"make": make(MB), "large": make(60 * MB)}
    with simulated(Machine(1, 100 * MB, DISK), models) as engine:
        refs = [task("make") for _ in range(80)]
        xs.wait(refs, num_ready=80)
        large = task("large")
        xs.wait([large])
        store = engine.world.places["node-0"].store
        assert store.spilled_bytes == 40 * MB
        assert store.num_spills == 3


def test_a_transfer_from_a_node_that_dies_begins_anew_from_elsewhere():
    slow = Machine(1, 100 * MB, DISK, network_bytes_per_second=MB)
    models = {"make": make(10 * MB), "use": make(0)}
    faults = Faults(node_deaths=[(5.0, "node-1")])
    with simulated(slow, models, num_nodes=3, faults=faults) as engine:
        made = task("make", node="node-1")
        xs.wait([made])
        xs.wait([task("use", made, node="node-0")])
        assert engine.stats()["num_made_again"] == 1
        assert {node.name for node in xs.nodes()} == {"node-0", "node-2"}
        # Made again at 5 s: on the node of its reader at once, or elsewhere and then brought within 10 s.
        assert engine.now != pytest.approx(10, rel=0.01)


def test_writing_takes_the_time_of_the_disk():
    with simulated(Machine(1, 100 * MB, DISK), {"make": make(50 * MB)}) as engine:
        refs = [task("make") for _ in range(21)]
        xs.wait(refs, num_ready=21)
        # At least 19 of 21 blocks had to leave before the last one had room.
        assert engine.now == pytest.approx(19 * 0.5, rel=0.03)


def test_requests_cost_time_beside_bytes():
    slow = Disk(100 * MB, 100 * MB, request_seconds=0.01)
    models = {"make": make(10 * MB), "read": make(0)}
    with simulated(Machine(1, 15 * MB, slow), models) as engine:
        blocks = xs.Refs(task("make", num_returns=10) for _ in range(5))
        xs.wait(list(blocks), num_ready=5)
        before = engine.now
        xs.wait([task("read", blocks.column(2))])
        num_restored = engine.stats()["restored_bytes"] // MB
        assert num_restored >= 4
        assert engine.now - before == pytest.approx(num_restored * (0.01 + 0.01), rel=0.05)


def test_a_result_that_finds_no_room_goes_to_disk():
    models = {"make": make(60 * MB), "use": make(60 * MB, seconds=1)}
    with simulated(Machine(1, 100 * MB, DISK), models) as engine:
        first = task("make")
        xs.wait([first])
        # The argument is pinned while its task runs, so nothing can be spilled for the result.
        xs.wait([task("use", first)])
        assert engine.stats()["fallback_bytes"] == 60 * MB
        # 1 s of CPU, 0.2 s of patience, 0.6 s of the disk.
        assert engine.now == pytest.approx(1.8, rel=0.01)


def test_arguments_of_queued_tasks_are_fetched_while_others_run():
    models = {"make": make(10 * MB), "use": make(0, seconds=0.3)}
    with simulated(Machine(1, 35 * MB, DISK), models) as engine:
        refs = [task("make") for _ in range(12)]
        xs.wait(refs, num_ready=12)
        before = engine.now
        used = [task("use", ref) for ref in refs[:9]]
        xs.wait(used, num_ready=9)
        # One after the other it would be 9 * 0.4 s.
        assert engine.now - before == pytest.approx(9 * 0.3 + 0.1, rel=0.1)


def test_without_fetching_ahead_a_task_has_its_cpu_meanwhile():
    """Four on two CPUs fetch two at a time, and share the disk, before they compute."""
    models = {"make": make(10 * MB), "use": make(0, seconds=0.3), "rest": make(0, seconds=9)}
    described = {"fetches_ahead": False}
    with simulated(Machine(2, 100 * MB, DISK), models, described=described) as engine:
        refs = [task("make") for _ in range(12)]
        xs.wait(refs, num_ready=12)
        xs.wait([task("rest")])
        # The first are on disk; without the others there is room for them.
        assert engine.stats()["spilled_bytes"] == 40 * MB
        del refs[4:]
        before = engine.now
        used = [task("use", ref) for ref in refs]
        xs.wait(used, num_ready=4)
        assert engine.now - before == pytest.approx(2 * (0.2 + 0.3), rel=0.05)


@pytest.mark.parametrize("is_far", [False, True])
def test_disks_may_be_slower_for_other_nodes(is_far: bool):
    disk = Disk(100 * MB, 100 * MB, remote_read_bytes_per_second=25 * MB)
    models = {"make": make(30 * MB), "use": make(0), "rest": make(0, seconds=9)}
    with simulated(Machine(1, 100 * MB, disk), models, 2) as engine:
        refs = [task("make", node="node-0") for _ in range(4)]
        xs.wait(refs, num_ready=4)
        xs.wait([task("rest")])
        # The first is on disk; without the others there is room for it.
        assert engine.stats()["spilled_bytes"] == 60 * MB
        del refs[1:]
        before = engine.now
        xs.wait([task("use", refs[0], node="node-1" if is_far else "node-0")])
        assert engine.now - before == pytest.approx(1.2 if is_far else 0.3, rel=0.05)


def test_each_slice_may_take_time_of_the_node_that_fetches():
    """Two readers of 10 blocks each share what fetches them; bytes take next to nothing."""
    models = {"make": make(MB), "use": make(0)}
    described = {"slice_seconds": 0.01}
    with simulated(Machine(2, 100 * MB), models, 2, described) as engine:
        refs = [task("make", node="node-0") for _ in range(20)]
        xs.wait(refs, num_ready=20)
        before = engine.now
        used = [task("use", *refs[start : start + 10], node="node-1") for start in (0, 10)]
        xs.wait(used, num_ready=2)
        assert engine.now - before == pytest.approx(20 * 0.01, rel=0.05)


def test_what_lies_on_another_node_comes_through_both_networks():
    machine = Machine(1, 100 * MB, DISK, network_bytes_per_second=50 * MB)
    with simulated(machine, {"make": make(10 * MB), "use": make(0)}, num_nodes=2) as engine:
        made = task("make", node="node-0")
        xs.wait([made])
        assert xs.locate(made) == ["node-0"]
        before = engine.now
        xs.wait([task("use", made, node="node-1")])
        assert engine.stats()["network_bytes"] == 10 * MB
        assert engine.now - before == pytest.approx(0.2, rel=0.01)


def test_a_task_goes_where_its_arguments_lie():
    machine = Machine(1, 100 * MB, DISK, network_bytes_per_second=50 * MB)
    with simulated(machine, {"make": make(10 * MB), "use": make(MB)}, num_nodes=3) as engine:
        for name in ("node-2", "node-0", "node-1"):
            made = task("make", node=name)
            xs.wait([made])
            used = task("use", made)
            xs.wait([used])
            assert xs.locate(used) == [name]
        assert engine.stats()["network_bytes"] == 0


def test_memory_is_admitted():
    models = {"work": make(0, seconds=1)}
    with simulated(Machine(8, 100 * MB, DISK), models) as engine:
        refs = [task("work", memory=40 * MB) for _ in range(6)]
        xs.wait(refs, num_ready=6)
        assert engine.now == pytest.approx(3.0, rel=0.01)
        assert engine.stats()["peak_bytes"] == 80 * MB


def test_objects_that_nobody_has_take_no_memory():
    with simulated(Machine(1, 100 * MB, DISK), {"make": make(30 * MB)}) as engine:
        for _ in range(10):
            xs.wait([task("make")])
        assert engine.stats()["spilled_bytes"] == 0
        xs.wait([task("make")])
        assert engine.stats()["used_bytes"] <= 60 * MB


def test_a_deadlock_is_proven_and_named():
    machine = Machine(1, 100 * MB)  # without a disk
    models = {"make": make(60 * MB), "other": make(60 * MB)}
    with simulated(machine, models):
        kept = task("make")
        xs.wait([kept])
        stuck = task("other")
        with pytest.raises(DeadlockError) as caught:
            xs.wait([stuck])
        assert (
            "other 0 waits for 60.0 MB of memory on node-0, where 40.0 MB of 100 MB are free"
            in str(caught.value)
        )


def test_a_wait_with_a_timeout_is_no_deadlock():
    with simulated(Machine(1, 10 * MB), {"make": make(9 * MB), "more": make(9 * MB)}) as engine:
        kept = task("make")
        xs.wait([kept])
        more = task("more")
        assert xs.wait([more], timeout=5) == ([], [more])
        assert engine.now == pytest.approx(5)


def test_a_task_whose_arguments_can_never_be_there_is_refused():
    models = {"make": make(60 * MB), "join": make(0)}
    with simulated(Machine(1, 100 * MB, DISK), models, num_nodes=2):
        blocks = [task("make", node=name) for name in ("node-0", "node-1")]
        joined = task("join", *blocks, memory=50 * MB)
        xs.wait([joined])
        with pytest.raises(TaskError, match=r"50\.0 MB of working memory and 120 MB"):
            raise_errors([joined])


def test_values_of_models_are_refused():
    with simulated(Machine(1, MB), {"make": make(10)}) as engine:
        made = task("make")
        with pytest.raises(OptionsError, match="make, which is modelled and has no value"):
            xs.get(made)
        assert engine.now < 1e-6


def test_a_task_without_a_model_is_refused_before_time_passes():
    with simulated(Machine(1, MB), {"make": make(10)}) as engine:
        with pytest.raises(OptionsError, match=r"task reduce has no cost model.*make"):
            task("reduce")
        assert engine.now == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Cluster(()), "no nodes"),
        (lambda: Disk(0, 1), "read_bytes_per_second is 0"),
        (lambda: Disk(1, 1, remote_read_bytes_per_second=0), "remote_read_bytes_per_second is 0"),
        (lambda: Cluster((Machine(1, 1),), slice_seconds=-1), "slice_seconds is -1"),
        (lambda: ObjectStorage(write_connections=0), "write_connections is 0"),
        (lambda: Disk(1, float("nan")), "write_bytes_per_second is nan"),
        (lambda: Machine(0, 1), "num_cpus is 0"),
        (lambda: Machine(1, 1, network_bytes_per_second=0), "network_bytes_per_second is 0"),
        (lambda: Cluster((Machine(1, 1),), call_seconds=0), "call_seconds is 0"),
    ],
)
def test_descriptions_that_cannot_work_are_refused(wrong, said):
    with pytest.raises(OptionsError, match=said):
        wrong()


def test_models_see_sizes():
    seen = []

    def model(call: Call) -> Cost:
        seen.append(call)
        return Cost((), 100)

    with simulated(Machine(1, MB, DISK), {"make": model, "use": model}):
        made = task("make", num_returns=4)
        xs.wait([task("use", made[1], made[2:4], 7)])
    assert seen == [Call("make", 0, 0, 0, 4), Call("use", 0, 75, 2, 1)]


def test_a_failed_function_is_a_task_error():
    with xs.init(SimEngine(Cluster((Machine(1, MB),)))), pytest.raises(TaskError, match="division"):
        xs.get(xs.remote(lambda: 1 / 0).remote())
