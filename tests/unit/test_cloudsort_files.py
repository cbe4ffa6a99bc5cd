"""Files of records side by side: results in order, and Ctrl-C waits for none of them."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from exoshuffle.cloudsort.files import each_file


@pytest.fixture(autouse=True)
def _two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def test_results_are_in_order() -> None:
    later = threading.Event()

    def call(index: int) -> int:
        if index == 1:
            later.set()
        return index if later.wait(60) else -1

    results = each_file(call, [1] * 10, None)
    assert results == list(range(10))


def test_a_failure_waits_for_no_other_file() -> None:
    busy, release, ended = threading.Event(), threading.Event(), threading.Event()
    begun: list[int] = []

    def call(index: int) -> None:
        begun.append(index)
        if index == 0:
            busy.wait(60)
            raise ValueError("disk is full")
        busy.set()
        release.wait(60)
        ended.set()

    with pytest.raises(ValueError, match="disk is full"):
        each_file(call, [1] * 100, None)
    assert not ended.is_set()
    release.set()
    assert ended.wait(60)
    assert len(begun) < 100


def _waits(thread_id: int) -> bool:
    """Whether a thread has nothing to do but to wait for files."""
    return sys._current_frames()[thread_id].f_code.co_name in ("wait", "_next")


def test_an_interrupt_waits_for_no_file() -> None:
    release, ended = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def call(index: int) -> None:
        if index == 1:
            while not _waits(main):
                os.sched_yield()
            # On this thread, so that it does not cut short what the main thread waits for: as if it came just before.
            signal.raise_signal(signal.SIGINT)
        release.wait(20)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        each_file(call, [1, 1], None)
    assert not ended.is_set()
    release.set()
    assert ended.wait(60)
