"""The walk of ARCHITECTURE.md, "One call, walked": the six files that it names are those that a sort goes through."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from examples.engine_in_line.engine import InLineEngine
from exoshuffle import _native

PACKAGE = Path(xs.__file__).parent
PAGE = Path(__file__).parents[2] / "ARCHITECTURE.md"
#: The steps of a map and of a reduce: the file, and the function in it that the step before leads to.
COMMON = [
    ("dataset/ordering.py", "sort"),
    ("dataset/execute.py", "job"),
    ("dataset/jobs/shuffle.py", "run"),
    ("strategies/simple.py", "shuffle"),
]
MAP = [*COMMON, ("operators/core/tasks.py", "map"), ("operators/core/inputs.py", "scatter")]
REDUCE = [*COMMON, ("operators/core/tasks.py", "reduce"), ("operators/sort/finish.py", "__call__")]

Step = tuple[str, str]


class Walk:
    """The functions that a program calls.

    Attributes:
        entered: Functions of the package, when they are called first.
        stacks: By the name of a kernel what called it, the innermost first.
    """

    def __init__(self) -> None:
        self.entered: dict[Step, None] = {}
        self.stacks: dict[str, list[Step]] = {}

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        """See ``sys.setprofile``."""
        if event == "call":
            self.entered.setdefault(_step(frame.f_code))
        elif event == "c_call" and isinstance(getattr(called, "__self__", None), _native.Sorter):
            self.stacks.setdefault(called.__name__, list(_stack(frame)))


def _step(code: CodeType) -> Step:
    return code.co_filename.removeprefix(f"{PACKAGE}/"), code.co_name


def _stack(frame: FrameType | None) -> Iterator[Step]:
    while frame is not None:
        yield _step(frame.f_code)
        frame = frame.f_back


@pytest.fixture
def walk(tmp_path: Path) -> Walk:
    """A sort on an engine that runs tasks where they are submitted: a kernel has the whole call on its stack."""
    pq.write_table(pa.table({"k": list(range(1000))}), tmp_path / "in.parquet")
    xs.init(InLineEngine())
    walk = Walk()
    sys.setprofile(walk)
    try:
        rows = xs.read_parquet(tmp_path / "in.parquet").sort("k", strategy="simple")
        rows.write_parquet(tmp_path / "out")
    finally:
        sys.setprofile(None)
        xs.shutdown()
    return walk


@pytest.mark.parametrize(("kernel", "steps"), [("scatter", MAP), ("sort", REDUCE)])
def test_a_sort_goes_through_these_files_in_this_order(
    kernel: str, steps: list[Step], walk: Walk
) -> None:
    assert [step for step in walk.entered if step in steps] == steps
    # The last step makes the native call itself, and none comes back to a step before it.
    stack = walk.stacks[kernel]
    assert stack[0] == steps[-1]
    files = [file for file, _ in steps]
    on_the_way = [files.index(file) for file, _ in stack if file in files]
    assert on_the_way == sorted(on_the_way, reverse=True)


def test_the_page_names_them() -> None:
    section = PAGE.read_text().partition("## One call, walked")[2].partition("\n### ")[0]
    items = re.split(r"^\d+\. ", section, flags=re.MULTILINE)[1:]
    named = [re.findall(r"`([a-z_/]+\.py)`", item)[0] for item in items]
    assert named == [file for file, _ in MAP]
    assert REDUCE[-1][0] in items[-1]
