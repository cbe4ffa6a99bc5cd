"""Files of records side by side: results in order, and nobody waits for the end of a long file in vain."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from exoshuffle import _native
from exoshuffle.cloudsort.files import each_file


@pytest.fixture(autouse=True)
def _two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.fixture
def endless(tmp_path: Path) -> str:
    """1 TB of nothing, which would take minutes to check."""
    file = tmp_path / "endless"
    file.touch()
    os.truncate(file, 10**12)
    return str(file)


def test_results_are_in_order() -> None:
    later = threading.Event()

    def call(index: int, _stop: _native.Stop) -> int:
        if index == 1:
            later.set()
        return index if later.wait(60) else -1

    results = each_file(call, [1] * 10, None)
    assert results == list(range(10))


@pytest.mark.timeout(60)
def test_a_failure_ends_the_others(endless: str) -> None:
    busy = threading.Event()
    begun: list[int] = []

    def call(index: int, stop: _native.Stop) -> None:
        begun.append(index)
        if index == 0:
            busy.wait(60)
            raise ValueError("disk is full")
        busy.set()
        _native.valsort_file(endless, 100, 10, stop)

    with pytest.raises(ValueError, match="disk is full"):
        each_file(call, [1] * 100, None)
    assert len(begun) < 100


def _waits(thread_id: int) -> bool:
    """Whether a thread has nothing to do but to wait for files."""
    return sys._current_frames()[thread_id].f_code.co_name in ("wait", "_next")


@pytest.mark.timeout(60)
def test_an_interrupt_ends_all(endless: str) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def call(index: int, stop: _native.Stop) -> None:
        if index == 1:
            while not _waits(main):
                os.sched_yield()
            # On this thread, so that it does not cut short what the main thread waits for: as if it came just before.
            signal.raise_signal(signal.SIGINT)
        _native.valsort_file(endless, 100, 10, stop)

    with pytest.raises(KeyboardInterrupt):
        each_file(call, [1, 1], None)
