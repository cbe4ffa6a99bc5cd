"""What is printed and logged while a task runs in a worker process: goes to the engine, line by line, in order.

Guarantee: what was printed before a process dies is out by then, up to ``_AT_ONCE`` lines of a task; further ones go in
larger pieces, so that a loop that prints does not wait for a message per line. What native code or child processes
write to the descriptors is not seen, and goes where the program's goes.
"""

from __future__ import annotations

import collections
import io
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

#: Lines of a task that are sent one by one.
_AT_ONCE = 1000
#: From then on, this long apart, or in pieces of so many characters.
_APART_SECONDS = 0.1
_PIECE_CHARS = 1 << 16
#: A line that is printed in so many pieces ends there: dots without end are seen, and take no memory without end.
_MAX_PIECES = 1 << 14
#: How long a thread of the user waits for its turn at the connection before it leaves its lines to the next who has it.
_PATIENCE_SECONDS = 0.05

#: Of a record what travels beside its message.
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


class Speaker:
    """Collects what is said, and sends it when it may.

    Args:
        send: Sends a list of what was said; called with ``turn`` held.
        turn: Of the connection.
    """

    def __init__(self, send: Callable[[list[Any]], None], turn: Any) -> None:
        self._send = send
        self._turn = turn
        # Of threads of the user, too: in one step each, it loses nothing.
        self._said: collections.deque[Any] = collections.deque()
        self._size = 0
        self._num_lines = 0
        self._sent_at = 0.0
        self.is_listened_to = False

    def begin(self) -> None:
        """A task begins."""
        self._num_lines = 0
        self.is_listened_to = True

    def say(self, what: Any, size: int) -> None:
        """Something was printed or logged."""
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
        """Sends what is there. The turn is held, or nobody else can have it."""
        if not self._said:
            return
        self._size = 0
        self._sent_at = time.monotonic()
        self._send([self._said.popleft() for _ in range(len(self._said))])


class TaskOutput(io.TextIOBase):
    """Standard output or error of a worker process.

    Args:
        speaker: Who sends what is printed while a task runs.
        name: ``stdout`` or ``stderr``.
        plain: Where it goes at other times.
    """

    def __init__(self, speaker: Speaker, name: str, plain: TextIO) -> None:
        self._speaker = speaker
        self._name = name
        self._plain = plain
        #: What was printed of a line that has not ended, piece by piece.
        self._begun: list[str] = []
        self._turn = threading.RLock()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """As that of the stream in whose place it is."""
        return self._plain.encoding

    @property
    def buffer(self) -> Any:
        """For bytes, which go where the program's go."""
        return self._plain.buffer

    def fileno(self) -> int:
        """The descriptor, for what writes there by itself."""
        return self._plain.fileno()

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """As that of the stream in whose place it is."""
        return self._plain.errors

    def reconfigure(self, **options: Any) -> None:
        """Of the stream in whose place it is."""
        self._plain.reconfigure(**options)  # type: ignore[attr-defined]

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, text: str) -> int:
        """Says the lines that are complete."""
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
        """What has begun stays until its line ends, or the task."""
        self._plain.flush()

    def end(self) -> None:
        """The task is over: says what it has begun."""
        line = self._ended()
        if line:
            self._speaker.say((self._name, [line]), len(line))

    def _ended(self) -> str:
        """What has begun, which is over now."""
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
