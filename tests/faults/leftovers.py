"""A program that has dropped everything leaves nothing behind."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.objects.state import ObjectState
from exoshuffle.engines.local.workers.home import WORKER_BYTES
from exoshuffle.engines.local.workers.processes import WorkerProcess
from exoshuffle.testing.meeting import poll
from tests.support.held import assert_closed, held


@contextlib.contextmanager
def checked_engine(budget_bytes: int, spill: Path) -> Iterator[LocalEngine]:
    """An engine of two CPUs; afterwards nothing is left, by the engine, by its workers or by its end."""
    before = held()
    limit = limits.limit_for(budget_bytes)
    made = xs.init(memory_limit=limit, spill_dirs=str(spill), num_cpus=2)
    assert isinstance(made, LocalEngine)
    yield made
    try:
        assert_nothing_is_left(made)
    finally:
        xs.shutdown()
    assert_closed(before)
    assert list(spill.iterdir()) == []


def assert_nothing_is_left(engine: LocalEngine) -> None:
    """No object, no block, no memory but that of workers, and nothing that a worker would hold."""
    poll(lambda: counts(engine) == (0, 0))
    poll(lambda: not any(map(holds_something, engine.pool._all)))
    poll(lambda: engine.stats()["reserved_bytes"] == worker_bytes(engine))
    poll(lambda: known_objects(engine) == [])


def holds_something(worker: WorkerProcess) -> bool:
    """Whether anything is kept for a worker: because it said so, or because it runs a task that nobody waits for."""
    requests = worker._requests
    return bool(worker._lent or requests._blocks or requests._streams)


def counts(engine: LocalEngine) -> tuple[int, int]:
    """Objects in the store, and blocks."""
    gc.collect()
    stats = engine.stats()
    return stats["num_objects"], stats["num_blocks"]


def worker_bytes(engine: LocalEngine) -> int:
    """The bytes that are reserved for workers."""
    others = sum(worker._reservation is not None for worker in engine.pool._all)
    return engine.pool.apart.bytes + others * WORKER_BYTES


def known_objects(engine: LocalEngine) -> list[ObjectState]:
    """All objects that this process remembers."""
    gc.collect()
    # References that went while the engine was busy are counted when it is asked for something.
    engine.stats()
    return [each for each in gc.get_objects() if isinstance(each, ObjectState)]
