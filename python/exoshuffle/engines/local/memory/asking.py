"""Asks the engine for help: a store calls this while it waits for others and can spill nothing more.

Why a file of its own, which imports nothing: a program may end while it has a batch in the store's memory. The batch
keeps the store, the store this function, and a function all names of its file. Among the names of the engine's file are
those of other modules. So these outlived Python's last look for garbage, and DuckDB wrote 43 lines about what was left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import weakref
    from typing import Protocol

    class Helper(Protocol):
        """An engine, which has the store; so the store has no strong reference to it."""

        def help_store(self, num_bytes: int, quiet_seconds: float) -> None:
            """Makes room, or raises an error if nobody can; see ``Helpless``."""


def ask(engine: weakref.ref[Helper], num_bytes: int, quiet_seconds: float) -> None:
    """Asks the engine for help, if it is still there."""
    found = engine()
    if found is not None:
        found.help_store(num_bytes, quiet_seconds)
