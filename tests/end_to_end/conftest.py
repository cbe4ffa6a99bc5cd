"""Fixtures of the end-to-end tests: the command line, engines, a dataset."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from tests.support.commands import check_refused, command, process, world
from tests.support.datasets import dataset
from tests.support.matrix import cut_small

__all__ = ["check_refused", "command", "dataset", "process", "world"]


@pytest.fixture(scope="module")
def matrix_engine() -> Iterator[LocalEngine]:
    """One engine for all tests of a file, whose plans have many maps, so that worker processes are started once."""
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        made = xs.init(num_cpus=2, memory_limit="2GB")
        assert isinstance(made, LocalEngine)
        yield made
        xs.shutdown()
