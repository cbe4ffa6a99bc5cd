"""Keeps the memory of workers set apart for a task, so that the task never waits for it once it has its own."""

from __future__ import annotations

from collections.abc import Callable


class Hold:
    """Keeps the memory of workers set apart for a task, from before it takes its own until it has ended."""

    def __init__(self, let_go: Callable[[], None]) -> None:
        self._let_go: Callable[[], None] | None = let_go

    def release(self) -> None:
        """Ends it; may be called again."""
        let_go, self._let_go = self._let_go, None
        if let_go is not None:
            let_go()
