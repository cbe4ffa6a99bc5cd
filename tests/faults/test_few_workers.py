"""Where libraries that workers share leave no room for several, one runs at a time; those that wait let others run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

import exoshuffle as xs
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.workers import preloading
from exoshuffle.engines.local.workers.home import WORKER_BYTES
from exoshuffle.engines.local.workers.room import WorkersRoom


@pytest.fixture
def _no_room_for_pandas(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(preloading, "pandas_bytes", lambda: 10**9)
    # Beside what this process of many tests has already.
    xs.init(memory_limit=limits.limit_for(200_000_000), num_cpus=2)
    yield
    xs.shutdown()


@xs.remote(executor="process")
def process_id(_: int) -> int:
    time.sleep(0.05)  # long enough for another worker to start
    return os.getpid()


@xs.remote(executor="process")
def with_that_of_another(number: int) -> tuple[int, int]:
    return os.getpid(), xs.get(process_id.remote(number))


@pytest.mark.usefixtures("_no_room_for_pandas")
def test_one_worker_runs_at_a_time() -> None:
    assert len(set(xs.get([process_id.remote(number) for number in range(6)]))) == 1


@pytest.mark.usefixtures("_no_room_for_pandas")
def test_a_worker_starts_beside_one_that_waits() -> None:
    found = xs.get([with_that_of_another.remote(number) for number in range(4)])
    assert all(own != other for own, other in found)


@pytest.mark.parametrize(
    ("shared_bytes", "running"), [(0, 2), (20_000_000, 2), (50_000_000, 1), (10**9, 1)]
)
def test_what_workers_share_counts(
    shared_bytes: int, running: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preloading, "pandas_bytes", lambda: shared_bytes)
    room = WorkersRoom(2, 100_000_000)
    assert min(room.max_running, 2) == room.num_base == running
    assert room.max_workers == 63_000_000 // WORKER_BYTES
    assert room.base_bytes <= 75_000_000


def test_no_worker_has_room_where_memory_is_too_small() -> None:
    assert WorkersRoom(2, 20_000_000).num_base == 0
