"""Files of records side by side: results in order, and Ctrl-C waits for none of them."""

from __future__ import annotations

import os
import signal
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


@pytest.mark.parametrize("failure", [None, ValueError])
def test_nothing_waits_for_files_that_cannot_be_stopped(failure: type[Exception] | None) -> None:
    busy, release, ended = threading.Event(), threading.Event(), threading.Event()
    begun: list[int] = []
    main = threading.main_thread().ident

    def call(index: int) -> None:
        begun.append(index)
        if index == 0 and failure:
            busy.wait(60)
            raise failure
        busy.set()
        if failure is None:
            assert main is not None
            signal.pthread_kill(main, signal.SIGINT)
        release.wait(60)
        ended.set()

    with pytest.raises(failure or KeyboardInterrupt):
        each_file(call, [1] * 100, None)
    assert not ended.is_set()
    release.set()
    assert ended.wait(60)
    assert len(begun) < 100
