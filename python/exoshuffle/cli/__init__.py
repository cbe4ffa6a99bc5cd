"""The ``exoshuffle`` command."""

from exoshuffle.cli.main import main

__all__ = ["main"]
