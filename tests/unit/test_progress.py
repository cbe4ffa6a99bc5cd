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
from exoshuffle.observe import asked, progress
from exoshuffle.observe.asked import progress_of_program
from exoshuffle.observe.progress import LINE_SECONDS, NotebookProgress, Progress

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


def test_work_that_is_soon_done_shows_nothing(clock: Clock, terminal: tuple[int, int]) -> None:
    with os.fdopen(terminal[1], "w") as stream:
        for seconds in (0.9, 1.1):
            shown = Progress("check", stream, after_seconds=1.0)
            shown.begin(400 * MB)
            clock.now += seconds
            shown.advance(seconds * 100 * MB)
            shown.stop()
    told = _told(terminal[0]).decode()
    assert "110.0/400.0 MB" in told
    assert "90.0/400.0 MB" not in told


def test_a_notebook_shows_one_line_and_takes_it_away(clock: Clock) -> None:
    log = io.StringIO()
    shown = NotebookProgress("sort", log)
    shown.begin(400 * MB)
    for _ in range(4):
        clock.now += 0.3
        shown.advance(50 * MB)
    shown.stop()
    shown.stop()
    _, first, second, blank, end = log.getvalue().split("\r")
    assert first == "sort: 50.0 MB of 400 MB, 167 MB/s, 2 s left"
    assert second.startswith("sort: 150 MB of 400 MB")
    assert (blank.strip(), end) == ("", "")
    assert len(blank) == len(second.rstrip()) < len(first) == len(second)


#: A program with a shuffle, and what it is to say before.
PROGRAM = """
import sys
import exoshuffle as xs
from exoshuffle.observe import asked
asked.AFTER_SECONDS = 0.0
with xs.init({options}):
    rows = xs.range(2000).sort("id", descending=True)
    assert rows.{result}
"""


@pytest.mark.parametrize(
    ("result", "options", "variable", "is_shown"),
    [
        ("to_arrow()", "", None, True),
        ("distinct().count()", "", None, True),
        ("to_arrow()", "progress=False", None, False),
        ("to_arrow()", "", "0", False),
        ("to_arrow()", "progress=True", "0", True),
    ],
)
def test_a_program_shows_it_on_a_terminal(
    result: str,
    options: str,
    variable: str | None,
    is_shown: bool,
    terminal: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if variable is not None:
        monkeypatch.setenv("EXOSHUFFLE_PROGRESS", variable)
    program = [sys.executable, "-c", PROGRAM.format(options=options, result=result)]
    subprocess.run(program, stderr=terminal[1], timeout=60, check=True)
    os.close(terminal[1])
    assert (b"kB" in _told(terminal[0])) == is_shown


@pytest.mark.parametrize("variable", [None, "1"])
def test_a_pipe_has_lines_only_where_asked(
    variable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("EXOSHUFFLE_PROGRESS", variable)
    lines = "from exoshuffle.observe import progress\nprogress.LINE_SECONDS = 0.0\n"
    program = lines + PROGRAM.format(options="", result="to_arrow()")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, check=True
    )
    assert (b"to_arrow: " in done.stderr) == (variable == "1")


def test_a_notebook_is_told_by_its_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for shell, kind in (
        (None, type(None)),
        (SimpleNamespace(), type(None)),
        (SimpleNamespace(kernel=1), NotebookProgress),
    ):
        module = SimpleNamespace(get_ipython=lambda shell=shell: shell)
        monkeypatch.setitem(asked.sys.modules, "IPython", module)
        assert type(progress_of_program("sort")) is kind


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
