"""An engine on a Ray that runs in this process already: it is used as it is, and left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray
from pyarrow import parquet

import exoshuffle as xs
from exoshuffle.errors import ClosedError, OptionsError, TaskCancelledError, TaskError
from exoshuffle.futures import ActorHandle
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Counter, await_count, helper
from tests.support.endings import SCHEMA, WAYS, Ends

pytestmark = pytest.mark.usefixtures("node")


def test_the_ray_of_this_process_is_used_and_left() -> None:
    engine = xs.init(engine="ray")
    ref = xs.put("kept")
    engine.close()
    assert ray.is_initialized()
    with pytest.raises(ClosedError, match="init"):
        xs.put(1)
    xs.init(engine="ray")
    assert xs.get(ref) == "kept"
    xs.shutdown()
    assert ray.is_initialized()


@pytest.mark.parametrize(
    "option",
    [
        {"memory_limit": "1GB"},
        {"spill_dirs": "/tmp"},  # noqa: S108  not used
        {"num_cpus": 2},
        {"num_gpus": 1},
        {"resources": {"disk": 1}},
        {"object_store_memory": "1GB"},
    ],
    ids=str,
)
def test_a_ray_that_runs_cannot_be_changed(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(OptionsError, match=rf"{name} is .* leave {name} out"):
        xs.init(engine="ray", **option)
    xs.shutdown()


@pytest.mark.parametrize("option", [{"num_cpus": 1e-6}, {"num_gpus": 1.5}], ids=str)
def test_what_ray_cannot_give(option: dict[str, float]) -> None:
    xs.init(engine="ray")
    with pytest.raises(OptionsError):
        xs.remote(abs, **option).remote(1)
    xs.shutdown()


def test_what_was_just_submitted_can_be_cancelled() -> None:
    """Ray itself would end this program."""
    xs.init(engine="ray")
    last = xs.remote(lambda value: value, num_cpus=0.1)
    cancellations = helper(Counter)
    for number in range(1, 9):
        slow = xs.remote(await_count).remote(cancellations, number)
        others = [last.remote(value) for value in range(100)]
        cancelled = last.remote(slow)
        dependent = last.remote(cancelled)
        assert xs.cancel(cancelled)
        xs.get(cancellations.add.remote())
        with pytest.raises(TaskCancelledError):
            xs.get(dependent, timeout=PATIENCE_SECONDS)
        assert xs.get(others) == list(range(100))
    xs.shutdown()


def test_tasks_are_cancelled_on_the_thread_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled on another, a task whose result comes meanwhile ends this program, now and then."""
    xs.init(engine="ray")
    cancellations, cancel = helper(Counter), ray.cancel
    threads = []

    def note_thread(*args: Any, **options: Any) -> None:
        threads.append(threading.get_ident())
        cancel(*args, **options)

    monkeypatch.setattr(ray, "cancel", note_thread)
    ref = xs.remote(await_count).remote(cancellations, 1)
    stream = xs.remote(_items, num_returns="streaming").remote(cancellations)
    assert xs.get(next(stream)) == 0
    assert xs.cancel(ref)
    assert xs.cancel(stream)
    thread_of_ray: Future[int] = Future()
    nothing = ray.put(None)
    nothing._on_completed(lambda _: thread_of_ray.set_result(threading.get_ident()))
    assert threads == 2 * [thread_of_ray.result(PATIENCE_SECONDS)]
    assert threads[0] != threading.get_ident()
    xs.shutdown()


def _items(cancellations: ActorHandle) -> Iterator[int]:
    yield 0
    await_count(cancellations, 1)


def test_workers_use_freed_memory_again() -> None:
    """Of what the C library gives and gets back, as for the results of DuckDB."""
    num_bytes = 8_000_000

    def touched_pages() -> int:
        import ctypes
        import resource

        library = ctypes.CDLL(None)
        library.malloc.restype = ctypes.c_void_p
        library.free.argtypes = [ctypes.c_void_p]
        before = 0
        for _ in range(11):
            block = library.malloc(num_bytes)
            ctypes.memset(block, 1, num_bytes)
            library.free(block)
            before = before or resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    xs.init(engine="ray")
    assert xs.get(xs.remote(touched_pages).remote()) < num_bytes // 4096 // 2
    xs.shutdown()


@pytest.mark.parametrize("way", WAYS)
def test_functions_that_end_their_process(tmp_path: Path, way: str) -> None:
    xs.init(engine="ray")
    parquet.write_table(pa.table({"a": range(100)}), tmp_path / "in.parquet")
    rows = xs.read_parquet(tmp_path / "in.parquet")
    with pytest.raises(TaskError):
        rows.map_batches(Ends(way, with_rows=False))
    with pytest.raises(TaskError):
        rows.map_batches(Ends(way, with_rows=True), schema=SCHEMA).sort("a").explain()
    assert rows.sort("a").to_arrow()["a"].to_pylist() == [*range(100)]
    xs.shutdown()
