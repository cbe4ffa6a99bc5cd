"""The embedded engine: one Python process, no daemon, tasks on threads over a store with one byte budget."""

from exoshuffle.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]
