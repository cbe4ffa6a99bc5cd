"""Tasks that can never have their memory and their arguments at once are refused; those that just can, run."""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.tasks.room import least_bytes
from exoshuffle.errors import MemoryLimitError, TaskError
from exoshuffle.testing.meeting import poll

TIMEOUT = 30.0

on_thread = functools.partial(xs.remote, executor="thread")


def count(*values: Any) -> int:
    """Bytes of all arguments."""
    return sum(sum(map(len, value)) if isinstance(value, list) else len(value) for value in values)


def least(engine: LocalEngine, *wanted: tuple[xs.Ref, int | range | None]) -> int:
    found = [(ref._object, index) for ref, index in wanted]
    return least_bytes(engine.store, found)  # type: ignore[arg-type]


def assert_refused(ref: xs.Ref, *words: str) -> None:
    with pytest.raises(TaskError) as caught:
        xs.get(ref, timeout=TIMEOUT)
    assert caught.value.attempt == 1
    assert isinstance(caught.value.__cause__, MemoryLimitError)
    for word in (*words, "Raise memory_limit to"):
        assert word in str(caught.value)


def slices(*sizes: int) -> list[bytes]:
    return [bytes(size) for size in sizes]


def spill(engine: LocalEngine) -> None:
    """Has all blocks that are in memory written to disk."""
    assert engine.stats()["used_blocks_bytes"] > 0
    engine.budget.reserve(engine.budget.room_bytes).release()
    assert engine.stats()["used_blocks_bytes"] == 0


# --- the limit, exactly ------------------------------------------------------------------------------------------


def test_one_byte_decides(engine: LocalEngine) -> None:
    large = xs.put(bytes(engine.budget_bytes // 2))
    fitting = engine.budget.room_bytes - least(engine, (large, None))
    below = on_thread(count, memory=fitting).remote(large)
    above = on_thread(count, memory=fitting + 1, max_retries=3, name="greedy").remote(large)
    assert_refused(above, "task greedy needs", "of working memory", "for its arguments")
    assert xs.get(below, timeout=TIMEOUT) == engine.budget_bytes // 2


def test_others_go_on_while_one_is_refused(engine: LocalEngine) -> None:
    gate, started = threading.Event(), threading.Event()

    def hold() -> bool:
        started.set()
        return gate.wait(TIMEOUT)

    large = xs.put(bytes(engine.budget_bytes // 2))
    running = on_thread(hold, memory=engine.budget_bytes // 4).remote()
    started.wait(TIMEOUT)
    # At once: not after what holds memory now.
    assert_refused(on_thread(count, memory=engine.budget_bytes * 2 // 3).remote(large))
    small = xs.put(bytes(1_000_000))
    assert xs.get(on_thread(count, memory=1_000_000).remote(small), timeout=TIMEOUT) == 1_000_000
    gate.set()
    assert xs.get(running, timeout=TIMEOUT)
    assert xs.get(on_thread(count).remote(large), timeout=TIMEOUT) == engine.budget_bytes // 2


@pytest.mark.parametrize("on_disk", [True, False])
def test_what_several_arguments_share_counts_once(engine: LocalEngine, on_disk: bool) -> None:
    sizes = [engine.budget_bytes // 10, engine.budget_bytes // 10, engine.budget_bytes // 10]
    ref = on_thread(slices, num_returns=3).remote(*sizes)
    xs.wait([ref])
    if on_disk:
        spill(engine)
    # On disk, pages in which one slice ends and another begins count twice.
    memory = engine.budget.room_bytes - least(engine, (ref, None)) - 65536 * on_disk
    total = sum(sizes)
    run = on_thread(count, memory=memory)
    assert xs.get(run.remote(ref, ref, ref[0], ref[1:3]), timeout=TIMEOUT) == 3 * total
    shared = xs.Refs([ref, ref])
    assert xs.get(run.remote(shared.column(1), ref[0]), timeout=TIMEOUT) == total
    assert_refused(on_thread(count, memory=memory + 200_000).remote(ref, ref))


def test_slices_count_without_the_rest_of_their_block(engine: LocalEngine) -> None:
    half = engine.budget_bytes // 2
    refs = [on_thread(slices, num_returns=2).remote(half, 500_000) for _ in range(3)]
    shared = xs.Refs(refs)
    xs.wait(refs, num_ready=3)
    memory = engine.budget.room_bytes - 2_000_000
    run = on_thread(count, memory=memory)
    assert xs.get(run.remote(refs[0][1]), timeout=TIMEOUT) == 500_000
    assert xs.get(run.remote(shared.column(1)), timeout=TIMEOUT) == 1_500_000
    assert_refused(run.remote(shared.column(0)))
    assert_refused(run.remote(refs[0]))
    assert_refused(run.remote(refs[0][0:2]))


def test_a_block_in_a_file_takes_no_memory(engine: LocalEngine) -> None:
    size = engine.budget_bytes * 12 // 10
    larger_than_all = xs.put(bytes(size))
    _other = xs.put(bytes(engine.budget_bytes // 2))
    spill(engine)
    memory = engine.budget.room_bytes * 9 // 10
    assert xs.get(on_thread(count, memory=memory).remote(larger_than_all), timeout=TIMEOUT) == size


def test_what_workers_have_is_not_there_for_tasks(engine: LocalEngine) -> None:
    before = engine.budget.room_bytes
    hold = engine.pool.hold()
    assert engine.budget.room_bytes == engine.budget_bytes == before - engine.pool.room.base_bytes
    assert_refused(on_thread(count, memory=before - 1).remote())
    assert xs.get(on_thread(count, memory=engine.budget.room_bytes).remote(), timeout=TIMEOUT) == 0
    hold.release()
    assert engine.budget.room_bytes == engine.budget_bytes == before


def test_idle_workers_end_where_their_memory_is_waited_for(engine: LocalEngine) -> None:
    needed = engine.budget_bytes + engine.workers_bytes("process")
    assert xs.get(xs.remote(count).remote(b"abc"), timeout=TIMEOUT) == 3
    assert len(engine.pool._all) == 1
    run = on_thread(count, memory=engine.budget_bytes)
    assert xs.get(run.remote(b"abc"), timeout=TIMEOUT) == 3
    assert not engine.pool._all
    assert not engine.pool.servers.process_ids
    # The next function has a worker again, and its memory.
    assert xs.get(xs.remote(count).remote(b"abc"), timeout=TIMEOUT) == 3
    assert engine.budget_bytes + engine.workers_bytes("process") == needed


def test_an_actor_keeps_its_workers_memory(engine: LocalEngine) -> None:
    class Counter:
        def count(self, *values: bytes) -> int:
            return count(*values)

    before = engine.budget_bytes
    actor = xs.remote(Counter).remote()
    assert xs.get(actor.count.remote(b"abc"), timeout=TIMEOUT) == 3
    assert engine.budget_bytes == before - engine.pool.room.base_bytes
    assert_refused(on_thread(count, memory=before - 1).remote())
    del actor
    poll(lambda: engine.budget_bytes == before)
    assert xs.get(on_thread(count, memory=before - 1).remote(), timeout=TIMEOUT) == 0


def test_an_actor_holds_its_memory_during_calls(engine: LocalEngine) -> None:
    class Counter:
        def count(self, *values: bytes) -> int:
            return count(*values)

    large = xs.put(bytes(engine.budget_bytes // 2))
    actor = on_thread(Counter, memory=engine.budget_bytes * 2 // 3).remote()
    assert_refused(actor.count.remote(large), "task Counter.count needs")
    assert xs.get(actor.count.remote(b"abc"), timeout=TIMEOUT) == 3


# --- what the store takes ----------------------------------------------------------------------------------------


def random_sizes(rng: random.Random) -> list[int]:
    kinds: list[Callable[[], int]] = [
        lambda: 0,
        lambda: rng.randrange(200),
        lambda: 4096 * rng.randrange(4),
        lambda: rng.randrange(300_000),
    ]
    return [rng.choice(kinds)() for _ in range(rng.randrange(1, 30))]


def test_it_is_what_the_store_takes(engine: LocalEngine) -> None:
    """Of slices that are far apart, so that their pages are fewer than those of the block."""
    seed = 7
    rng = random.Random(seed)
    for round_ in range(30):
        sizes = [*random_sizes(rng), 1_000_000]
        block = engine.allocate_block([sum(sizes[:end]) for end in range(len(sizes) + 1)])
        number = block.seal()  # type: ignore[attr-defined]
        ref = xs.put(b"")
        state: Any = ref._object
        state.num_slices = len(sizes)
        state.stored = state.stored._replace(inline=None, block_id=number, pickled=False)
        chosen = sorted(rng.sample(range(len(sizes) - 1), rng.randrange(len(sizes))))
        in_memory = least(engine, *((ref, index) for index in chosen))
        spill(engine)
        slices = engine.store.fetch([(number, index) for index in chosen])
        taken = engine.stats()["used_blocks_bytes"]
        assert in_memory == least(engine, *((ref, index) for index in chosen)) == taken, (
            seed,
            round_,
        )
        del slices
        engine.store.free(number)
        state.stored = None
