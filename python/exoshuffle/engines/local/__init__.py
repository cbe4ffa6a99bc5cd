"""The embedded engine: one Python process, no daemon, tasks on threads over a store with one byte budget."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exoshuffle.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]


def __getattr__(name: str) -> object:
    """Imports the engine late: worker processes need the modules beside the engine, not the engine."""
    if name == "LocalEngine":
        from exoshuffle.engines.local.engine import LocalEngine

        return LocalEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
