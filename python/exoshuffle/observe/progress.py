"""Progress in bytes, with rate and ETA: a bar on a terminal, one line in a notebook, lines now and then elsewhere.

In a shuffle every byte is worked on twice, in a map and in a reduce; progress counts half of the byte for each.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from exoshuffle.futures.events import TaskFinished
from exoshuffle.units import format_bytes

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from exoshuffle.futures import Engine

#: Plain lines are this far apart, so that a log of an hour has a few hundred.
LINE_SECONDS = 10.0
#: A line in a notebook is written again so often.
NOTEBOOK_SECONDS = 0.5


class Progress:
    """Shows how far some work has come; also an observer of a shuffle's tasks.

    Args:
        label: The name of the work.
        stream: Where to show the progress; default: standard error.
        after_seconds: Work that is done sooner shows nothing.
    """

    def __init__(
        self, label: str, stream: TextIO | None = None, after_seconds: float = 0.0
    ) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._after_seconds = after_seconds
        self._lock = threading.Lock()
        self._done_bytes = 0.0
        self._total_bytes = 0
        self._step_bytes: dict[str, float] = {}
        self._started = self._shown = time.monotonic()
        self._bar: tuple[RichProgress, TaskID] | None = None

    def start(self, total_bytes: int, num_maps: int, num_reduces: int) -> None:
        """Begins a planned shuffle."""
        self._step_bytes = {
            "map": total_bytes / 2 / max(num_maps, 1),
            "reduce": total_bytes / 2 / max(num_reduces, 1),
        }
        self.begin(total_bytes)

    def begin(self, total_bytes: int) -> None:
        """Begins work of known size, in place of earlier work, as the second shuffle of a program follows the first."""
        self.stop()
        with self._lock:
            self._done_bytes = 0.0
            self._total_bytes = total_bytes
            self._started = self._shown = time.monotonic()
            if not self._after_seconds and self._stream.isatty():
                self._start_bar()

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
        from rich.progress import Progress as RichProgress

        bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(file=self._stream),
            transient=True,
        )
        self._bar = bar, bar.add_task(self._label, total=self._total_bytes)
        bar.start()

    def __call__(self, event: TaskFinished) -> None:
        """Counts a task that finished; see ``Observer``."""
        step = self._step_bytes.get(event.name)
        if step is not None:
            self.advance(step)

    def advance(self, num_bytes: float) -> None:
        """Counts so many more bytes as done; any thread may call it."""
        with self._lock:
            self._done_bytes += num_bytes
            if time.monotonic() - self._started >= self._after_seconds:
                self._show()

    def _show(self) -> None:
        """Shows what is done; called with the lock held."""
        if self._bar is None and self._stream.isatty():
            self._start_bar()
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, completed=self._done_bytes)
        elif time.monotonic() - self._shown >= LINE_SECONDS:
            self._say(f"{self._line()}\n")

    def _say(self, text: str) -> None:
        self._shown = time.monotonic()
        # If the reader has gone, such as a ``head`` behind a pipe, the work goes on.
        with contextlib.suppress(BrokenPipeError):
            print(text, end="", file=self._stream, flush=True)

    def _line(self) -> str:
        seconds = time.monotonic() - self._started
        rate = self._done_bytes / max(seconds, 1e-9)
        left = (self._total_bytes - self._done_bytes) / max(rate, 1.0)
        return (
            f"{self._label}: {format_bytes(self._done_bytes)} of {format_bytes(self._total_bytes)}, "
            f"{format_bytes(rate)}/s, {left:.0f} s left"
        )

    def stop(self) -> None:
        """Ends the display: the work is over, or failed."""
        with self._lock:
            if self._bar is not None:
                self._bar[0].stop()
                self._bar = None


class NotebookProgress(Progress):
    """Progress as one line, which is written again in its place, and is gone at the end.

    Notebooks know carriage returns, but no other commands of terminals.
    """

    #: Characters of the line that is there now.
    _width = 0

    def _show(self) -> None:
        if not self._width or time.monotonic() - self._shown >= NOTEBOOK_SECONDS:
            self._write(self._line())

    def stop(self) -> None:
        """See ``Progress``."""
        with self._lock:
            if self._width:
                self._write("")
                self._say("\r")

    def _write(self, line: str) -> None:
        self._say(f"\r{line.ljust(self._width)}")
        self._width = len(line)


@contextlib.contextmanager
def observed(engine: Engine, progress: Progress | None) -> Iterator[None]:
    """Tells ``progress`` of every finished task."""
    if progress is None:
        yield
        return
    engine.add_observer(progress)
    try:
        yield
    finally:
        engine.remove_observer(progress)
        progress.stop()
