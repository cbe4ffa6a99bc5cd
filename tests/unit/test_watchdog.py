"""The watchdog warns once per interval without a finished task: what runs, and what the rest waits for."""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.tasks.activity import activities
from exoshuffle.errors import OptionsError
from exoshuffle.futures.events import TaskFinished
from exoshuffle.observe.activity import Activity, Frame, telling_frame
from exoshuffle.observe.watchdog import Watchdog
from exoshuffle.units import format_bytes
from tests.support.limits import small_memory_limit

FINISHED = TaskFinished("map", 1, 0.1)
STUCK = Activity("map", None, 2, 300.0, 77, Frame("job.py", 12, "stuck"))


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class World:
    """A watchdog with a clock and the activities that the test gives it."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.clock = Clock()
        self.found: list[Activity] = []
        self.watchdog = Watchdog(lambda: self.found, 60, self.clock)
        self._caplog = caplog

    def warnings_after(self, seconds: float) -> list[str]:
        """The message when it looks so much later."""
        self._caplog.clear()
        self.clock.now += seconds
        self.watchdog.look()
        assert all(one.levelno == logging.WARNING for one in self._caplog.records)
        return [one.getMessage() for one in self._caplog.records if one.name == "exoshuffle"]


@pytest.fixture
def world(caplog: pytest.LogCaptureFixture) -> World:
    return World(caplog)


def test_it_warns_once_per_interval(world: World) -> None:
    world.found = [STUCK, *[Activity("reduce", "arguments: 1 of map")] * 5]
    assert world.warnings_after(59) == []
    [warning] = world.warnings_after(1)
    assert warning.splitlines() == [
        "no task has finished for 60 s",
        "  map (attempt 2) runs for 300 s in process 77, in stuck (job.py:12)",
        "  5 times: reduce waits for arguments: 1 of map",
    ]
    assert world.warnings_after(59) == []
    assert world.warnings_after(1)[0].startswith("no task has finished for 120 s")


def test_a_task_that_finishes_begins_the_interval_anew(world: World) -> None:
    world.found = [STUCK]
    assert world.warnings_after(59) == []
    world.watchdog(FINISHED)
    assert world.warnings_after(59) == []
    assert world.warnings_after(1)


def test_a_task_that_finishes_while_it_looks_is_no_reason_either(world: World) -> None:
    """To find out what all tasks do takes a while, too."""

    def found() -> list[Activity]:
        world.clock.now += 1
        world.watchdog(FINISHED)
        return [STUCK]

    world.watchdog = Watchdog(found, 60, world.clock)
    assert world.warnings_after(60) == []
    assert world.warnings_after(58) == []


def test_an_idle_engine_and_a_task_that_has_begun_are_no_reason(world: World) -> None:
    assert world.warnings_after(100) == []
    world.found = [STUCK]
    assert world.warnings_after(59) == []
    world.found = [Activity("map", None, 1, 30.0)]
    assert world.warnings_after(100) == []
    world.found = [Activity("map", "memory: 2 GB")]
    assert world.warnings_after(100)


def test_a_warning_is_not_longer_than_a_screen(world: World) -> None:
    world.found = [Activity(f"task-{number}", "a CPU") for number in range(1000)]
    [warning] = world.warnings_after(60)
    assert len(warning.splitlines()) == 18
    assert warning.endswith("and 984 more")


def test_the_frame_that_tells_most_is_the_users() -> None:
    own = Frame(xs.__file__, 3, "run")
    library = Frame(threading.__file__, 5, "wait")
    user = Frame("/home/me/job.py", 12, "stuck")
    assert telling_frame([library, user, own]) == user
    assert telling_frame([library, own]) == library
    assert telling_frame([]) is None


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_intervals_that_are_none(seconds: float) -> None:
    with pytest.raises(OptionsError, match=f"stall_seconds is {seconds}"):
        xs.init(stall_seconds=seconds)


# --- what the local engine tells ---------------------------------------------------------------------------------


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()  # so that a failed test ends


def told(engine: LocalEngine, is_enough: Callable[[list[Activity]], bool]) -> list[Activity]:
    """The news of the engine once there is enough: a task that is submitted gets to where it waits a moment later."""
    deadline = time.monotonic() + 30
    for _ in itertools.count():
        found = activities(engine.table, engine._scheduler, engine._waits)
        if is_enough(found):
            return found
        assert time.monotonic() < deadline, found
    raise AssertionError


def reasons(found: list[Activity]) -> dict[str, str | None]:
    return {one.name: one.waits_for for one in found}


def test_threads(engine: LocalEngine, gate: threading.Event) -> None:
    started = threading.Event()

    def hold() -> None:
        started.set()
        gate.wait()

    def follow(value: object) -> None:
        del value

    def submit(name: str, **options: object) -> xs.remote:
        return xs.remote(hold, executor="thread", name=name, **options).remote

    half = engine.budget_bytes * 6 // 10
    refs = [submit("first", memory=half)(), submit("large", memory=half)()]
    started.wait()
    told(engine, lambda found: reasons(found).get("large") == f"memory: {format_bytes(half)}")
    started.clear()
    refs += [submit("second")()]
    started.wait()
    refs += [submit("third")(), xs.remote(follow, executor="thread").remote(refs[0])]
    found = told(engine, lambda found: len(found) == 5)
    said = reasons(found)
    assert [name for name, reason in said.items() if reason is None] == ["first", "second"]
    assert (said["third"], said["follow"]) == ("a CPU", "arguments: 1 of first")
    where = found[0].where
    assert where is not None
    line = hold.__code__.co_firstlineno + 2
    assert where == Frame(__file__, line, "hold")
    assert found[0].process == os.getpid()
    gate.set()
    xs.wait(refs, num_ready=len(refs))
    assert told(engine, lambda found: not found) == []


def test_declared_resources_and_actors(tmp_path: Path, gate: threading.Event) -> None:
    class Slow:
        def work(self) -> None:
            gate.wait()

    engine = xs.init(
        num_cpus=4,
        memory_limit=small_memory_limit(),
        spill_dirs=str(tmp_path),
        resources={"disk": 1},
    )
    assert isinstance(engine, LocalEngine)
    write = xs.remote(gate.wait, executor="thread", resources={"disk": 1})
    refs = [write.options(name=f"write-{number}").remote() for number in range(2)]
    actor = xs.remote(Slow).options(executor="thread").remote()
    refs += [actor.work.options(name=f"work-{number}").remote() for number in range(2)]
    said = reasons(told(engine, lambda found: len(found) == 4 and found[1].waits_for is None))
    assert said["write-1"] == "a resource: disk"
    assert said["work-1"] == "actor Slow"
    gate.set()
    xs.wait(refs, num_ready=4)
    xs.shutdown()


def test_arguments_that_do_not_fit_beside_the_memory_of_others(
    engine: LocalEngine, gate: threading.Event
) -> None:
    large = xs.put(bytes(engine.budget_bytes // 2))
    # Spills what was put, so that it takes memory to come back.
    holding = xs.remote(gate.wait, executor="thread", memory=engine.budget_bytes * 2 // 3).remote()
    told(engine, lambda found: [one.waits_for for one in found] == [None])
    size = xs.remote(len, executor="thread").remote(large)
    told(engine, lambda found: reasons(found).get("len") == "memory for its arguments")
    gate.set()
    assert xs.get([holding, size]) == [True, engine.budget_bytes // 2]


def test_worker_processes(engine: LocalEngine, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def stuck(path: str) -> str:
        with open(path) as opened:
            return opened.read()

    ref = xs.remote(stuck).remote(str(pipe))
    with pipe.open("w") as opened:  # returns when the function has opened its end
        # It may just be on its way to the worker, or from one line to the next.
        line = stuck.__code__.co_firstlineno + 2
        [found] = told(
            engine, lambda found: bool(found and found[0].where and found[0].where.line == line)
        )
        opened.write("done")
    assert found.process not in (None, os.getpid())
    assert found.where is not None
    assert (found.where.file, found.where.function) == (__file__, "stuck")
    assert xs.get(ref) == "done"


def test_it_is_on_by_default_and_can_be_turned_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, gate: threading.Event
) -> None:
    def names() -> list[str]:
        return [thread.name for thread in threading.enumerate()]

    for seconds, is_on in [(60.0, True), (None, False)]:
        options = {} if is_on else {"stall_seconds": seconds}
        xs.init(memory_limit=small_memory_limit(), spill_dirs=str(tmp_path), **options)
        assert ("exoshuffle-watchdog" in names()) == is_on
        xs.shutdown()
    assert "exoshuffle-watchdog" not in names()

    warned = threading.Event()
    handler = logging.Handler()
    handler.emit = lambda _: warned.set()  # type: ignore[method-assign]
    logging.getLogger("exoshuffle").addHandler(handler)
    xs.init(memory_limit=small_memory_limit(), spill_dirs=str(tmp_path), stall_seconds=0.05)
    ref = xs.remote(gate.wait, executor="thread").remote()
    assert warned.wait(30)
    gate.set()
    xs.get(ref)
    xs.shutdown()
    logging.getLogger("exoshuffle").removeHandler(handler)
    assert "no task has finished" in caplog.text
