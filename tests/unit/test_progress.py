"""Progress: plain lines for logs, a bar on a terminal, the same numbers in both."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.futures.events import TaskFinished
from exoshuffle.observe import progress
from exoshuffle.observe.progress import LINE_SECONDS, Progress

MB = 1_000_000


class Clock:
    """Time that passes when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def _finished(name: str) -> TaskFinished:
    return TaskFinished(name, attempt=1, seconds=1.0)


def test_plain_lines_come_now_and_then(clock: Clock) -> None:
    log = io.StringIO()
    shown = Progress("check", log)
    shown.begin(400 * MB)
    clock.now += LINE_SECONDS - 1
    shown.advance(50 * MB)
    assert log.getvalue() == ""
    clock.now += 1
    shown.advance(50 * MB)
    assert log.getvalue() == "check: 100 MB of 400 MB, 10.0 MB/s, 30 s left\n"
    shown.advance(100 * MB)
    clock.now += LINE_SECONDS
    shown.advance(100 * MB)
    assert log.getvalue().splitlines()[1:] == ["check: 300 MB of 400 MB, 15.0 MB/s, 7 s left"]
    shown.stop()
    assert len(log.getvalue().splitlines()) == 2


def test_other_work_begins_at_nothing(clock: Clock) -> None:
    log = io.StringIO()
    shown = Progress("join", log)
    for total in (80 * MB, 40 * MB):
        shown.start(total, 1, 1)
        clock.now += LINE_SECONDS
        shown(_finished("map"))
    assert [line.split(",")[0] for line in log.getvalue().splitlines()] == [
        "join: 40.0 MB of 80.0 MB",
        "join: 20.0 MB of 40.0 MB",
    ]


def test_maps_and_reduces_are_half_of_a_shuffle_each(clock: Clock) -> None:
    log = io.StringIO()
    shown = Progress("sort", log)
    shown.start(80 * MB, 4, 2)
    for name in ("map", "sample", "map", "reduce", "merge"):
        clock.now += LINE_SECONDS
        shown(_finished(name))
    done = [line.split(" of ")[0] for line in log.getvalue().splitlines()]
    assert done == ["sort: 10.0 MB", "sort: 20.0 MB", "sort: 40.0 MB"]


def _told(descriptor: int) -> bytes:
    """All that a terminal was sent whose programs have ended."""
    told = b""
    while True:
        try:
            told += os.read(descriptor, 1 << 16)
        except OSError:  # how a terminal ends
            return told


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch):
    """Both ends of one; the program's end is closed by whoever uses it."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    ours, theirs = os.openpty()
    yield ours, theirs
    os.close(ours)


def test_a_terminal_shows_a_bar(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    with os.fdopen(theirs, "w") as stream:
        shown = Progress("check", stream)
        shown.begin(400 * MB)
        shown.advance(100 * MB)
        shown.stop()
        shown.stop()
    told = _told(ours).decode()
    assert "check" in told
    assert "100.0/400.0 MB" in told
    assert "━" in told


def test_other_work_takes_the_place_of_a_bar(terminal: tuple[int, int]) -> None:
    before = threading.enumerate()
    with os.fdopen(terminal[1], "w") as stream:
        shown = Progress("check", stream)
        shown.begin(400 * MB)
        shown.begin(200 * MB)
        shown.advance(100 * MB)
        shown.stop()
    # Those that draw are told to end, and may need a moment.
    for thread in threading.enumerate():
        if thread not in before:
            thread.join(timeout=10)
            assert not thread.is_alive()
    assert "100.0/200.0 MB" in _told(terminal[0]).decode()


@pytest.mark.parametrize("name", ["gensort", "valsort"])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_commands_for_records_show_it(
    name: str, options: list[str], terminal: tuple[int, int], tmp_path: Path
) -> None:
    gensort(tmp_path / "in", 20_000, partitions=2)
    of_command = {"gensort": ["2MB", tmp_path / "out"], "valsort": [tmp_path / "in"]}
    program = [sys.executable, "-c", "from exoshuffle.cli import main; main()", name]
    arguments = [*program, *map(str, of_command[name]), *options]
    done = subprocess.run(
        arguments, stdout=subprocess.PIPE, stderr=terminal[1], timeout=60, check=False
    )
    os.close(terminal[1])
    told = _told(terminal[0]).decode()
    assert name in told
    assert "2.0/2.0 MB" in told
    assert name.encode() not in done.stdout


class Recorded(Progress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__("", io.StringIO())
        self.told: list[tuple[str, float]] = []

    def begin(self, total_bytes: int) -> None:
        self.told.append(("begin", total_bytes))

    def advance(self, num_bytes: float) -> None:
        self.told.append(("advance", num_bytes))

    def stop(self) -> None:
        self.told.append(("stop", 0))


def test_every_file_of_records_is_told(tmp_path: Path) -> None:
    made, checked = Recorded(), Recorded()
    gensort(tmp_path / "in", 3000, partitions=3, progress=made)
    valsort(tmp_path / "in", progress=checked)
    advances = [("advance", 100_000)] * 3
    assert made.told == checked.told == [("begin", 300_000), *advances, ("stop", 0)]
