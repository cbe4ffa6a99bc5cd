"""Sends to the engine what a task in a worker process prints and logs, line by line, in order.

Guarantee: lines printed before a process dies are out by then, up to ``_AT_ONCE`` lines of a task. Further lines go in
larger pieces, so that a loop that prints does not wait for a message per line. Output that native code or child
processes write to the descriptors is not seen, and goes where the program's output goes.
"""

from __future__ import annotations

import collections
import io
import logging
import threading
import time
from collections.abc import Callable
from typing import BinaryIO, TextIO

#: So many lines of a task are sent one by one.
_AT_ONCE = 1000
#: Later lines are sent this long apart, or in pieces of so many characters.
_APART_SECONDS = 0.1
_PIECE_CHARS = 1 << 16
#: A line that is printed in so many pieces ends there, so that endless dots are seen and take no endless memory.
_MAX_PIECES = 1 << 14
#: How long a thread of the user waits for its turn at the connection; then it leaves its lines to the next sender.
_PATIENCE_SECONDS = 0.05

#: The fields of a record that travel beside its message.
_RECORD_FIELDS = (
    "name",
    "levelno",
    "levelname",
    "pathname",
    "filename",
    "module",
    "lineno",
    "funcName",
    "created",
    "msecs",
    "thread",
    "threadName",
    "process",
    "exc_text",
    "stack_info",
)

#: The name of a stream with lines, or ``log`` with the fields of a record.
Said = tuple[str, "list[str] | dict[str, object]"]


class Speaker:
    """Collects lines and records, and sends them when it may.

    Args:
        send: Sends a list of lines and records; called with ``turn`` held.
        turn: The lock of the connection.
    """

    def __init__(self, send: Callable[[list[Said]], None], turn: threading.RLock) -> None:
        self._send = send
        self._turn = turn
        # Threads of the user add to it, too. Each adds in one step, so nothing is lost.
        self._said: collections.deque[Said] = collections.deque()
        self._size = 0
        self._num_lines = 0
        self._sent_at = 0.0
        self.is_listened_to = False

    def begin(self) -> None:
        """Notes that a task begins."""
        self._num_lines = 0
        self.is_listened_to = True

    def say(self, what: Said, size: int) -> None:
        """Takes a line or record that was printed or logged, and sends it if it is due."""
        self._said.append(what)
        self._size += size
        self._num_lines += 1
        is_due = (
            self._num_lines <= _AT_ONCE
            or self._size >= _PIECE_CHARS
            or time.monotonic() - self._sent_at >= _APART_SECONDS
        )
        if is_due and self._turn.acquire(timeout=_PATIENCE_SECONDS):
            try:
                if self.is_listened_to:
                    self.flush()
            finally:
                self._turn.release()

    def flush(self) -> None:
        """Sends what was collected. The caller holds the turn, or nobody else can have it."""
        if not self._said:
            return
        self._size = 0
        self._sent_at = time.monotonic()
        self._send([self._said.popleft() for _ in range(len(self._said))])


class TaskOutput(io.TextIOBase):
    """Standard output or error of a worker process.

    Args:
        speaker: Sends the lines that are printed while a task runs.
        name: ``stdout`` or ``stderr``.
        plain: Takes what is printed at other times.
    """

    def __init__(self, speaker: Speaker, name: str, plain: TextIO) -> None:
        self._speaker = speaker
        self._name = name
        self._plain = plain
        #: The pieces that were printed of a line that has not ended.
        self._begun: list[str] = []
        self._turn = threading.RLock()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream that this one replaces."""
        return self._plain.encoding

    @property
    def buffer(self) -> BinaryIO:
        """The stream for bytes, which go where the program's bytes go."""
        return self._plain.buffer

    def fileno(self) -> int:
        """Returns the descriptor, for code that writes to it directly."""
        return self._plain.fileno()

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """The error handling of the stream that this one replaces."""
        return self._plain.errors

    def reconfigure(self, **options: object) -> None:
        """Reconfigures the stream that this one replaces."""
        self._plain.reconfigure(**options)  # type: ignore[attr-defined]

    def writable(self) -> bool:
        """Returns True."""
        return True

    def write(self, text: str) -> int:
        """Sends the complete lines, and keeps the rest."""
        if not self._speaker.is_listened_to:
            return self._plain.write(text)
        with self._turn:
            *lines, rest = text.split("\n")
            if lines:
                lines[0] = self._ended() + lines[0]
            if rest:
                self._begun.append(rest)
            if len(self._begun) >= _MAX_PIECES:
                lines.append(self._ended())
        if lines:
            self._speaker.say((self._name, lines), sum(map(len, lines)))
        return len(text)

    def flush(self) -> None:
        """Flushes the replaced stream; a line that has begun stays until it or the task ends."""
        self._plain.flush()

    def end(self) -> None:
        """Sends the line that has begun, since the task is over."""
        line = self._ended()
        if line:
            self._speaker.say((self._name, [line]), len(line))

    def _ended(self) -> str:
        """Returns the line that had begun, and forgets its pieces."""
        line = "".join(self._begun)
        self._begun.clear()
        return line


class RecordSender(logging.Handler):
    """Sends log records to the loggers of the program."""

    def __init__(self, speaker: Speaker, level: int) -> None:
        super().__init__(level)
        self._speaker = speaker

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        if not self._speaker.is_listened_to:
            if logging.lastResort is not None:
                logging.lastResort.handle(record)
            return
        try:
            message = record.getMessage()
            if record.exc_info and not record.exc_text:
                record.exc_text = logging.Formatter().formatException(record.exc_info)
            fields = {name: getattr(record, name) for name in _RECORD_FIELDS}
            self._speaker.say(("log", fields | {"msg": message}), len(message))
        except Exception:  # noqa: BLE001  as handlers do
            self.handleError(record)
