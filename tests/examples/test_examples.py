"""The examples run, and the engine among them keeps the laws that the documentation says it keeps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import exoshuffle as xs
from examples import strategy_two_level
from examples.engine_in_line import __main__ as sorting_in_line
from examples.engine_in_line.engine import InLineEngine
from exoshuffle.futures import Engine
from exoshuffle.testing import (
    ActorConformance,
    ErrorConformance,
    LifecycleConformance,
    ReferenceConformance,
    ResourceConformance,
    ShuffleConformance,
    SliceConformance,
    StreamConformance,
    TaskConformance,
    assert_every_row_arrives,
)

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def engine() -> Iterator[Engine]:
    yield xs.init(InLineEngine(2, num_gpus=1, resources={"token": 1}))
    xs.shutdown()


class TestInLine(
    TaskConformance,
    ReferenceConformance,
    SliceConformance,
    StreamConformance,
    ActorConformance,
    ErrorConformance,
    ResourceConformance,
    ShuffleConformance,
    LifecycleConformance,
):
    executors = ("process",)

    @pytest.mark.skip(
        reason="functions run in the program's own thread, where an interrupt may be the user's"
    )
    def test_an_interrupt_that_a_function_raises_is_its_error(self, executor: str) -> None: ...


@pytest.mark.parametrize("example", [sorting_in_line, strategy_two_level])
def test_examples_run(example: ModuleType) -> None:
    """In programs of their own, as users run them: their memory limits hold for what the suite has resident, too."""
    command = [sys.executable, "-m", example.__name__]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert "sorted" in done.stdout


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("num_partitions", [1, 2, 5, 7])
def test_two_levels_keep_every_row_in_order(num_partitions: int) -> None:
    assert_every_row_arrives(strategy_two_level.TwoLevel(), 6, num_partitions)


def test_a_model_runs_over_the_pages_of_documents() -> None:
    command = [sys.executable, "-m", "examples.batch_inference"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert "LanguageModel [1 CPU; 0 to 2 at once]" in done.stdout
    assert "damaged.txt: UnicodeDecodeError" in done.stdout
    assert "600 pages read" in done.stdout
