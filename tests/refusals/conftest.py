"""Fixtures of the refusals: the command line and a directory to run it in, a dataset."""

from __future__ import annotations

from tests.support.commands import check_refused, command, process, world
from tests.support.datasets import dataset

__all__ = ["check_refused", "command", "dataset", "process", "world"]
