"""Random programs over references, with workers and actors killed: no object goes early, and none stays."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.workers.home import reserved_bytes
from tests.faults.fuzz import Program
from tests.faults.leftovers import assert_nothing_is_left
from tests.support.held import assert_closed, held

NUM_STEPS = 150
#: Two that run, some that wait for others, and actors: programs never need more at once.
NUM_WORKERS = 7
#: The memory of blocks when all of these are there, so that much is spilled.
ROOM_BYTES = 26_000_000


def start(spill: Path) -> tuple[LocalEngine, Any]:
    """An engine with room for the workers, and what it is kept small by."""
    budget_bytes = reserved_bytes(NUM_WORKERS) * 4 // 3 + 1_000_000
    engine = xs.init(memory_limit=limits.limit_for(budget_bytes), spill_dirs=str(spill), num_cpus=2)
    assert isinstance(engine, LocalEngine)
    ballast = engine.budget.reserve(budget_bytes - reserved_bytes(NUM_WORKERS) - ROOM_BYTES)
    return engine, ballast


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int) -> None:
    caplog.set_level(logging.INFO)
    before = held()
    engine, ballast = start(tmp_path)
    program = Program(seed)
    program.run(NUM_STEPS)
    del program
    ballast.release()
    assert_nothing_is_left(engine)
    xs.shutdown()
    assert_closed(before)
    assert list(tmp_path.iterdir()) == []
