"""Generators that are told to wait for who takes their items: they do, and go on wherever somebody else needs it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.tasks.activity import activities
from exoshuffle.futures import RefStream, get, remote, wait
from exoshuffle.futures.options import Executor
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Gate, poll

AHEAD = 3
ITEMS = 20


def numbers(gate: Gate, folder: Path, count: int) -> Iterator[int]:
    """A file for each number that is asked for, once the gate is open."""
    gate.await_opening()
    for number in range(count):
        (folder / str(number)).touch()
        yield number


def all_are_ahead(engine: LocalEngine) -> bool:
    with engine.table.lock:
        return engine._waits.all_are_ahead()


def begin(
    engine: LocalEngine, folder: Path, executor: Executor, count: int = ITEMS, memory: int = 0
) -> RefStream:
    """A generator that is as far ahead as it may be."""
    gate = Gate()
    run = remote(numbers, num_returns="streaming", executor=executor, memory=memory)
    stream = run.remote(gate, folder, count)
    stream.limit_ahead(AHEAD)
    gate.open()
    poll(lambda: (folder / str(AHEAD - 1)).exists() and all_are_ahead(engine))
    return stream


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_it_waits_for_who_takes_its_items(
    roomy_engine: LocalEngine, tmp_path: Path, executor: Executor
) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    stream = begin(roomy_engine, folder, executor)
    assert len(list(folder.iterdir())) == AHEAD
    assert get(next(stream)) == 0
    poll(lambda: (folder / str(AHEAD)).exists() and all_are_ahead(roomy_engine))
    assert len(list(folder.iterdir())) == AHEAD + 1
    # It is nobody's fault: the program may take its time.
    assert activities(roomy_engine.table, roomy_engine._scheduler, roomy_engine._waits) == []
    assert [get(ref) for ref in stream] == list(range(1, ITEMS))


def test_it_gives_its_cpus_to_others(engine: LocalEngine, tmp_path: Path) -> None:
    streams = []
    for number in range(3):
        folder = tmp_path / f"made{number}"
        folder.mkdir()
        streams.append(begin(engine, folder, "thread"))
    assert get(remote(lambda: "run", executor="thread", num_cpus=2).remote()) == "run"
    assert [[get(ref) for ref in stream] for stream in streams] == [list(range(ITEMS))] * 3


def test_it_goes_on_where_somebody_needs_its_memory(engine: LocalEngine, tmp_path: Path) -> None:
    """The task behind it can begin when it has ended, and no item of it is ever taken."""
    memory = 2 * engine.budget_bytes // 3
    stream = begin(engine, tmp_path, "thread", memory=memory)
    other = remote(lambda: "run", executor="thread", memory=memory).remote()
    assert get(other, timeout=PATIENCE_SECONDS) == "run"
    assert [get(ref) for ref in stream] == list(range(ITEMS))


def test_what_is_lost_is_made_again(tmp_path: Path, damage: Callable[[], int]) -> None:
    """A consumer waits for an item that it has taken; it would for ever if the task waited for the next to be taken."""
    spill = tmp_path / "spill"
    spill.mkdir()
    engine = xs.init(memory_limit=limits.limit_for(90_000_000), spill_dirs=str(spill), num_cpus=2)
    assert isinstance(engine, LocalEngine)

    def blocks() -> Iterator[bytes]:
        for number in range(ITEMS):
            yield bytes([number]) * 10_000_000

    stream = remote(blocks, num_returns="streaming", executor="thread").remote()
    stream.limit_ahead(AHEAD)
    first = next(stream)
    poll(lambda: all_are_ahead(engine))
    filler = [xs.put(bytes(10_000_000)) for _ in range(10)]
    del filler
    gc.collect()
    assert damage() > 0
    assert get(first, timeout=PATIENCE_SECONDS) == bytes(10_000_000)
    rest = [get(ref, timeout=PATIENCE_SECONDS)[0] for ref in stream]
    assert rest == list(range(1, ITEMS))
    xs.shutdown()


def test_it_ends_when_nobody_wants_more(engine: LocalEngine, tmp_path: Path) -> None:
    stream = begin(engine, tmp_path, "thread", count=10**9)
    del stream
    gc.collect()
    poll(lambda: not engine._scheduler.now_running())
    assert len(list(tmp_path.glob("[0-9]*"))) == AHEAD


def test_it_is_cancelled_while_it_waits(engine: LocalEngine, tmp_path: Path) -> None:
    stream = begin(engine, tmp_path, "thread", count=10**9)
    assert stream.handle.cancel()
    poll(lambda: not engine._scheduler.now_running())


def test_a_task_limits_its_generator(tmp_path: Path) -> None:
    xs.init(memory_limit=limits.limit_for(200_000_000), spill_dirs=str(tmp_path), num_cpus=2)

    def outer(folder: Path) -> tuple[int, list[int]]:
        gate = Gate()
        run = remote(numbers, num_returns="streaming", executor="thread")
        stream = run.remote(gate, folder, ITEMS)
        stream.limit_ahead(AHEAD)
        gate.open()
        poll((folder / str(AHEAD - 1)).exists)
        first = next(stream)
        wait([first])
        num_made = len(list(folder.glob("[0-9]*")))
        return num_made, [get(first), *(get(ref) for ref in stream)]

    num_made, taken = get(remote(outer).remote(tmp_path), timeout=PATIENCE_SECONDS)
    assert num_made <= AHEAD + 1
    assert taken == list(range(ITEMS))
    xs.shutdown()
