"""Recovery: a chain of tasks whose worker is killed halfway, beside the same chain undisturbed.

The original (Wang's dissertation, §4.5.1, Fig 4.14): each task depends on the one before, sleeps, and returns a short
string or 10 MB; ten seconds in all; the node of the worker is killed after five. Ownership recovers within twice the
undisturbed time, since objects that were lost with the node are computed again.

Here the task in the middle kills its own process with SIGKILL halfway through, at its first attempt. The store belongs
to the driver and not to the worker, so no object is lost and one task runs twice, whatever the results' size. The death
of the store itself is the death of the driver here, which is not what the experiment is about.

    python -m benchmarks.engine.recovery --seconds 3
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import exoshuffle as xs
from benchmarks.engine.experiment import Finding, engine, in_turn, parser, ratio, show
from benchmarks.rounds import spread
from exoshuffle.observe.events import TaskFinished

BUDGET_BYTES = 500_000_000


@dataclass(frozen=True)
class Step:
    """What one task does.

    Attributes:
        seconds: How long it sleeps.
        result_bytes: What it returns beside its number.
        marker: A file; whoever creates it kills its own process. None: nobody does.
    """

    seconds: float
    result_bytes: int
    marker: str | None = None

    def run(self, before: tuple[int, pa.Buffer]) -> tuple[int, pa.Buffer]:
        """The number of the task and its result."""
        time.sleep(self.seconds / 2)
        if self.marker is not None:
            with contextlib.suppress(FileExistsError):
                Path(self.marker).touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds / 2)
        return before[0] + 1, pa.py_buffer(bytes(self.result_bytes))


@xs.remote
def run_step(step: Step, before: tuple[int, pa.Buffer]) -> tuple[int, pa.Buffer]:
    """A task of the chain."""
    return step.run(before)


@dataclass(frozen=True)
class Outcome:
    """How one chain went."""

    seconds: float
    num_repeated: int


@dataclass(frozen=True)
class Chain:
    """A number of tasks, each of which takes the result of the one before."""

    num_tasks: int
    step: Step

    def run(self, root: Path, killed: bool) -> Outcome:
        """Runs it and checks its length."""
        repeated: list[TaskFinished] = []

        def note(event: TaskFinished) -> None:
            if event.attempt > 1:
                repeated.append(event)

        with tempfile.TemporaryDirectory() as folder, engine(root, BUDGET_BYTES) as started:
            marker = os.path.join(folder, "killed")
            deadly = Step(self.step.seconds, self.step.result_bytes, marker)
            ref: Any = xs.put((0, pa.py_buffer(b"")))
            xs.get(run_step.remote(Step(0, 0), ref))  # a worker starts
            started.add_observer(note)
            begun = time.perf_counter()
            for index in range(self.num_tasks):
                is_deadly = killed and index == self.num_tasks // 2
                ref = run_step.remote(deadly if is_deadly else self.step, ref)
            length, result = xs.get(ref)
            seconds = time.perf_counter() - begun
        assert (length, result.size) == (self.num_tasks, self.step.result_bytes)
        return Outcome(seconds, len(repeated))


def main() -> None:
    """Runs all chains and prints the table."""
    made = parser("Recovery: a chain with a worker killed halfway.", num_rounds=1)
    made.add_argument("--seconds", type=float, default=3, help="of a chain; the original has 10")
    made.add_argument("--task-ms", type=int, nargs="+", default=[10, 100])
    made.add_argument("--result-mb", type=int, default=10, help="size of the large results")
    options = made.parse_args()
    rows = [
        _finding(milliseconds / 1000, result_bytes, options)
        for result_bytes in (10, options.result_mb * 1_000_000)
        for milliseconds in options.task_ms
    ]
    show(
        f"Recovery: a chain of {options.seconds:g} s, its worker killed halfway",
        "Wang's dissertation, §4.5.1, Fig 4.14 (Ray with ownership, m5.xlarge, 10 s; the node is lost)",
        rows,
    )


def _finding(task_seconds: float, result_bytes: int, options: argparse.Namespace) -> Finding:
    chain = Chain(max(2, round(options.seconds / task_seconds)), Step(task_seconds, result_bytes))
    results = in_turn(
        options.rounds,
        {
            "undisturbed": functools.partial(chain.run, options.root, killed=False),
            "killed": functools.partial(chain.run, options.root, killed=True),
        },
    )
    undisturbed, killed = _seconds(results["undisturbed"]), _seconds(results["killed"])
    repeated = max(one.num_repeated for one in results["killed"])
    return Finding(
        f"tasks of {task_seconds * 1000:g} ms, results of {result_bytes:,} bytes",
        f"{ratio(killed, undisturbed)} the time undisturbed ({spread(undisturbed, 2)} s); "
        f"{repeated} of {chain.num_tasks} tasks ran again",
        "less than 2x",
    )


def _seconds(outcomes: Sequence[Outcome]) -> list[float]:
    return [one.seconds for one in outcomes]


if __name__ == "__main__":
    main()
