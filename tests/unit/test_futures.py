"""The futures API on the embedded engine: results, references, errors, nesting, retries, cancelling."""

from __future__ import annotations

import contextlib
import functools
import gc
import subprocess
import sys
import threading
import weakref

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import ClosedError, OptionsError, TaskCancelledError, TaskError
from exoshuffle.futures import raise_errors, slice_bytes, waiting
from exoshuffle.testing.meeting import poll

on_thread = functools.partial(xs.remote, executor="thread")

pytestmark = pytest.mark.usefixtures("engine")


@on_thread
def double(value: int) -> int:
    return 2 * value


@on_thread
def concatenate(*parts: bytes) -> bytes:
    return b"".join(bytes(part) for part in parts)


def big(seed: int, size: int = 1_000_000) -> bytes:
    return bytes([seed % 256]) * size


def test_values_travel() -> None:
    assert xs.get(double.remote(21)) == 42
    assert xs.get([double.remote(i) for i in range(50)]) == [2 * i for i in range(50)]


def test_references_are_resolved() -> None:
    ref = xs.put(1)
    for _ in range(10):
        ref = double.remote(ref)
    assert xs.get(ref) == 1024


def test_a_timeout_is_for_all_together(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts: list[float] = []
    get = LocalEngine.get

    def noted(self: LocalEngine, ref: xs.Ref, timeout: float | None = None) -> object:
        assert timeout is not None
        timeouts.append(timeout)
        return get(self, ref, timeout)

    monkeypatch.setattr(LocalEngine, "get", noted)
    assert xs.get([engine.put(number) for number in range(3)], timeout=60) == [0, 1, 2]
    assert 60 >= timeouts[0] > timeouts[1] > timeouts[2] > 0


def test_keyword_arguments_are_resolved() -> None:
    assert xs.get(double.remote(value=xs.put(4))) == 8


def test_large_values_come_back() -> None:
    refs = [on_thread(big).remote(i) for i in range(8)]
    assert xs.get(refs) == [big(i) for i in range(8)]
    whole = concatenate.remote(*refs)
    assert xs.get(whole) == b"".join(big(i) for i in range(8))


def test_slices() -> None:
    small = on_thread(lambda: ["a", "b", "c"], num_returns=3).remote()
    large = on_thread(lambda: [big(i) for i in range(3)], num_returns=3).remote()
    assert len(small) == len(large) == 3
    assert xs.get(small[1]) == "b"
    assert xs.get(large[2]) == big(2)
    assert xs.get(small) == ["a", "b", "c"]
    assert xs.get(large) == [big(i) for i in range(3)]
    assert xs.get(concatenate.remote(large[0], large[1])) == big(0) + big(1)
    with pytest.raises(IndexError):
        small[3]


def test_columns_and_sequences() -> None:
    split = on_thread(lambda n: [f"{n}{i}" for i in range(4)], num_returns=4)
    refs = xs.Refs(split.remote(n) for n in range(3))
    collect = on_thread(lambda values: list(values))  # noqa: PLW0108  a class would be an actor
    assert xs.get(collect.remote(refs.column(2))) == ["02", "12", "22"]
    assert xs.get(collect.remote(refs)) == [[f"{n}{i}" for i in range(4)] for n in range(3)]


def test_raw_blocks() -> None:
    def fill() -> object:
        block = xs.allocate_block([0, 3, 3, 8])
        with memoryview(block) as view:  # type: ignore[arg-type]
            view[:] = b"abcdefgh"
        return block

    ref = on_thread(fill, num_returns=3).remote()
    assert [bytes(value) for value in xs.get(ref)] == [b"abc", b"", b"defgh"]
    view = memoryview(xs.get(ref[2]))
    assert view.readonly


def test_the_number_of_returns_is_checked() -> None:
    with pytest.raises(TaskError, match="returned 2 values; num_returns is 3"):
        xs.get(on_thread(lambda: [1, 2], num_returns=3).remote())
    with pytest.raises(TaskError, match="block of 1 slice;"):
        xs.get(on_thread(lambda: xs.allocate_block([0, 5]), num_returns=2).remote())


def test_errors_carry_task_attempt_and_cause() -> None:
    def broken() -> None:
        raise ValueError("the reason")

    ref = on_thread(broken, name="fragile").remote()
    with pytest.raises(
        TaskError, match="ValueError: the reason\n  task fragile failed in attempt 1"
    ) as caught:
        xs.get(ref)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(TaskError, match="fragile"):
        xs.get(double.remote(ref))


class Thing:
    """Something to look at."""


def test_an_error_keeps_nothing_of_those_who_raised_and_saw_it() -> None:
    """It lives as long as its object, and would keep all that they had in their variables."""
    things: list[weakref.ref[Thing]] = []

    def note() -> Thing:
        thing = Thing()
        things.append(weakref.ref(thing))
        return thing

    def broken() -> None:
        mine = note()
        raise ValueError(f"{type(mine)} is the reason")

    def ask(ref: xs.Ref) -> None:
        mine = note()
        xs.get(ref)
        del mine

    ref = on_thread(broken).remote()
    xs.wait([ref])
    poll(lambda: things[0]() is None)
    for _ in range(3):
        with contextlib.suppress(TaskError):
            ask(ref)
    assert [thing() for thing in things] == [None] * 4
    with pytest.raises(TaskError, match="is the reason"):
        xs.get(ref)


class FlakyError(Exception):
    """An error that may go away."""

    retryable = True


def test_retries_are_scripted_by_attempt() -> None:
    attempts = []

    def flaky(failures: int) -> int:
        attempts.append(1)
        if len(attempts) <= failures:
            raise FlakyError
        return len(attempts)

    assert xs.get(on_thread(flaky, max_retries=2).remote(2)) == 3
    attempts.clear()
    with pytest.raises(TaskError, match="attempt 2"):
        xs.get(on_thread(flaky, max_retries=1).remote(2))
    attempts.clear()
    with pytest.raises(TaskError, match="attempt 1"):
        xs.get(on_thread(flaky, max_retries=0).remote(1))


def test_nesting_deeper_than_the_workers() -> None:
    def nest(depth: int) -> int:
        return 0 if depth == 0 else 1 + int(xs.get(on_thread(nest).remote(depth - 1)))

    assert xs.get(on_thread(nest).remote(20)) == 20


def test_a_task_that_waits_for_its_disk_lends_its_cpu() -> None:
    written = threading.Event()

    def wait_for_it() -> bool:
        with waiting():
            return written.wait(timeout=30)

    writers = [on_thread(wait_for_it).remote() for _ in range(2)]
    disk = on_thread(written.set).remote()
    assert xs.get(writers) == [True, True]
    assert xs.get(disk) is None
    with waiting():  # outside of a task there is nothing to lend
        assert xs.get(double.remote(4)) == 8


def test_wait_says_what_is_done() -> None:
    gate = threading.Event()
    slow = on_thread(gate.wait).remote()
    quick = double.remote(1)
    ready, pending = xs.wait([slow, quick], num_ready=1)
    assert (ready, pending) == ([quick], [slow])
    assert xs.wait([slow], num_ready=1, timeout=0) == ([], [slow])
    with pytest.raises(TimeoutError):
        xs.get(slow, timeout=0.01)
    gate.set()
    assert xs.get(slow) is True


def test_queued_tasks_can_be_cancelled() -> None:
    gate = threading.Event()
    running = [on_thread(gate.wait).remote() for _ in range(2)]
    queued = double.remote(1)
    dependent = double.remote(queued)
    assert xs.cancel(queued)
    with pytest.raises(TaskCancelledError):
        xs.get(queued)
    with pytest.raises(TaskCancelledError):
        xs.get(dependent)
    gate.set()
    assert xs.get(running) == [True, True]
    assert not xs.cancel(running[0])


def test_the_last_reference_frees(engine: LocalEngine) -> None:
    refs = [xs.put(big(i)) for i in range(10)]
    assert engine.stats()["num_blocks"] == 10
    copy = refs[3]
    del refs
    gc.collect()
    assert engine.stats()["num_blocks"] == 1
    assert xs.get(copy) == big(3)
    del copy
    gc.collect()
    stats = engine.stats()
    assert (stats["num_blocks"], stats["used_blocks_bytes"], stats["num_objects"]) == (0, 0, 0)


def test_arguments_of_unfinished_tasks_live() -> None:
    gate = threading.Event()
    held = on_thread(big).remote(7)
    opened = on_thread(gate.wait).remote()
    result = on_thread(lambda _gate, value: len(value)).remote(opened, held)
    del held
    gc.collect()
    gate.set()
    assert xs.get(result) == 1_000_000


def test_more_than_memory_is_spilled_and_comes_back(engine: LocalEngine) -> None:
    refs = [on_thread(big).remote(i, 5_000_000) for i in range(40)]
    for i, ref in enumerate(refs):
        assert xs.get(ref) == big(i, 5_000_000)
    stats = engine.stats()
    assert stats["spilled_bytes"] >= 100_000_000
    assert stats["peak_bytes"] <= engine.budget_bytes


def test_unknown_options_are_named() -> None:
    with pytest.raises(OptionsError, match="unknown option 'num_gpu'"):
        double.options(num_gpu=1)
    with pytest.raises(OptionsError, match="num_returns is 0"):
        on_thread(num_returns=0)
    with pytest.raises(OptionsError, match="needs 3 CPU; the engine has 2"):
        double.options(num_cpus=3).remote(1)
    with pytest.raises(OptionsError, match=r"declares 1\.00 TB of working memory"):
        double.options(memory=10**12).remote(1)


def test_use_after_close() -> None:
    engine = xs.init(num_cpus=1)
    ref = double.remote(1)
    assert xs.get(ref) == 2
    engine.close()
    engine.close()
    with pytest.raises(ClosedError, match="init"):
        double.remote(1)
    xs.shutdown()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "spark"}, "unknown engine 'spark'"),
        ({"memory_limit": "1MB"}, "the smallest that works"),
        ({"memory_limit": "10TB"}, r"10\.0 TB is more than the .* that this machine has"),
        ({"memory_limit": "1PB"}, "1000 TB is more than the .* that this machine has"),
        ({"memory_limit": "lots"}, "not a size"),
        ({"spill_dirs": "/does/not/exist"}, "/does/not/exist"),
        ({"num_cpus": 0}, "num_cpus is 0"),
    ],
)
def test_bad_init(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        xs.init(**options)  # type: ignore[arg-type]
    xs.shutdown()


def test_workers_import_neither_datasets_nor_the_engine() -> None:
    program = (
        "import sys, exoshuffle.engines.local.workers.worker; "
        "late = {'exoshuffle.dataset', 'exoshuffle.engines.local.engine'}; "
        "sys.exit(bool(late & set(sys.modules)) or not exoshuffle.Dataset "
        "or not exoshuffle.engines.local.LocalEngine)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_observer_that_fails_stops_no_worker(
    engine: LocalEngine, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: object) -> None:
        raise ValueError("no display")

    engine.add_observer(fails)
    run = xs.remote(abs, executor="thread")
    # More tasks than there are workers to lose.
    assert [xs.get(run.remote(number), timeout=30) for number in range(8)] == list(range(8))
    # Observers are told after the result is there.
    poll(lambda: caplog.text.count("an observer failed") == 8)
    engine.remove_observer(fails)


def test_references_of_a_closed_engine_reach_no_other(engine: LocalEngine) -> None:
    """Numbers of blocks begin again: without a check another's bytes would come back."""

    class Keeper:
        def value(self) -> int:
            return 1

    small, large = xs.put(1), on_thread(big, num_returns=1).remote(1)
    refs, keeper = xs.Refs([large]), on_thread(Keeper).remote()
    stream = on_thread(lambda: iter([big(3)]), num_returns="streaming").remote()
    assert len(xs.get(concatenate.remote(large))) == len(xs.get(large))
    assert xs.get(on_thread(len).remote(refs)) == 1
    xs.init(memory_limit=engine.memory_limit, spill_dirs=engine.spill_dirs, num_cpus=2)
    others = [xs.put(big(seed)) for seed in range(5)]
    uses = (
        lambda: xs.get(small),
        lambda: xs.get(large),
        lambda: xs.get(large[0]),
        lambda: xs.wait([small, others[0]], num_ready=1),
        lambda: xs.cancel(large),
        lambda: xs.locate(large),
        lambda: slice_bytes([large]),
        lambda: raise_errors([large]),
        lambda: concatenate.remote(large),
        lambda: concatenate.remote(others[0], large[0]),
        lambda: on_thread(len).remote(refs),
        lambda: on_thread(len).remote(xs.Refs([*others, large]).column(0)),
        lambda: xs.get(xs.remote(len).remote(large)),
        lambda: xs.get(on_thread(lambda inside: xs.get(inside[0])).remote([large])),
        keeper.value.remote,
        lambda: xs.kill(keeper),
        lambda: next(stream),
    )
    for use in uses:
        with pytest.raises(ClosedError):
            use()
    assert xs.get(on_thread(len).remote(xs.Refs([]))) == 0
    assert xs.get(others) == [big(seed) for seed in range(5)]
