"""Looks after every test what has come that this process did not hold before: that is a leak, and fails the test.

Why hooks and not a fixture: fixtures of a module are made before those of a function and end after them. And pytest
lets go of what fixtures returned when all have ended. So a fixture would take each engine for left behind.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from exoshuffle.futures import session
from tests.support.held import Held, come_since, held, spill_files_below

#: Its node stays from test to test, and has threads, processes, sockets and shared memory in and beside this process as
#: it pleases. Files that have our name are looked at there too.
_RAY_TESTS = Path(__file__).parents[1] / "ray"


class LeakCheck:
    """A plugin of pytest."""

    def __init__(self) -> None:
        self._before: Held | None = None
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        """Nothing comes or goes between tests: it is looked once after each."""
        if self._before is None:
            self._before = held()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        """Notes who has failed: the traceback holds what the test held, and the cause is another."""
        if call.excinfo is not None:
            self._failed.add(item.nodeid)
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, Any, Any]:
        """Looks when all fixtures have ended that end with this test."""
        before, self._before = self._before, None
        results: dict[str, object] = getattr(item, "funcargs", {})
        folder = results.get("tmp_path")
        # Now, because the folder goes when the test has passed.
        named = spill_files_below(folder) if isinstance(folder, Path) else frozenset()
        result = yield
        if before is None or item.nodeid in self._failed:
            return result
        results.clear()
        left, now = come_since(before, functools.partial(_is_leak, item))
        # An open engine's own things are not in ``now``, nor is what looks like them.
        self._before = before | now
        assert not left | named, f"left behind: {', '.join(sorted(left | named))}"
        goes_on = nextitem is not None and nextitem.path == item.path
        if not goes_on:
            # Collections to come need not look at what is there by now: late in a run each took 0.14 s.
            gc.freeze()
        is_shared = goes_on and item.get_closest_marker("shares_engine") is not None
        assert session._engine is None or is_shared, "an engine was left open"
        return result


def _is_leak(item: pytest.Item, name: str) -> bool:
    """Whether a thing may not stay after a test."""
    kept = [mark.args[0] for mark in item.iter_markers("keeps")]
    is_on_ray = _RAY_TESTS in item.path.parents
    return not any(word in name for word in kept) and ("exoshuffle" in name or not is_on_ray)
