"""Recovery: a chain of tasks that loses a worker or an object halfway, beside the same chain undisturbed.

The original (Wang's dissertation, §4.5.1, Fig 4.14): each task depends on the one before, sleeps, and returns a short
string or 10 MB. The chain takes ten seconds in all. The node of the worker is killed after five. Ownership recovers
within twice the undisturbed time, since objects that were lost with the node are computed again.

Here the store belongs to the driver and not to the worker, so these are two cases:

* *A worker is killed*: the task in the middle kills its own process with SIGKILL halfway through, at its first attempt.
  No object is lost and one task runs twice, whatever the results' size.
* *An object is lost*: half of the tasks are done. Then the result of the last of them is spilled and its bytes on disk
  are damaged (not timed). The results before it are freed, since nobody refers to them; so the next task has all of
  that half run again. Short strings would stay out of the store and could not be lost. So here the small results have
  2,000 bytes, and the engine keeps no more than 1,000 inline.

    python -m benchmarks.experiments.recovery --seconds 3
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import exoshuffle as xs
from benchmarks.experiments.experiment import Finding, engine, in_turn, parser, ratio, show
from benchmarks.experiments.loss import lose
from benchmarks.rounds import spread
from exoshuffle.engines.local import LocalEngine
from exoshuffle.futures.events import TaskFinished

BUDGET_BYTES = 300_000_000
INLINE_BYTES = 1_000
SMALL_BYTES = 2 * INLINE_BYTES
START = 0, pa.py_buffer(b"")


@xs.remote
def run_step(
    seconds: float, result_bytes: int, marker: str | None, before: tuple[int, pa.Buffer]
) -> tuple[int, pa.Buffer]:
    """Runs a task of the chain, and returns its number and its result.

    Args:
        seconds: How long it sleeps.
        result_bytes: Size of its result beside its number.
        marker: A file; the task that creates it kills its own process. None: no task does.
        before: The result of the task before it.
    """
    time.sleep(seconds / 2)
    if marker is not None:
        with contextlib.suppress(FileExistsError):
            Path(marker).touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(seconds / 2)
    return before[0] + 1, pa.py_buffer(bytes(result_bytes))


@dataclass(frozen=True)
class Outcome:
    """The outcome of one chain."""

    seconds: float
    num_repeated: int


@dataclass(frozen=True)
class Chain:
    """A number of tasks, each of which takes the result of the one before."""

    num_tasks: int
    task_seconds: float
    result_bytes: int

    @property
    def num_before(self) -> int:
        """Returns the number of tasks before the middle."""
        return self.num_tasks // 2

    def undisturbed(self, root: Path) -> Outcome:
        """Runs the chain undisturbed."""
        with self._started(root) as run:
            run.tasks(self.num_tasks)
            return run.outcome()

    def worker_killed(self, root: Path) -> Outcome:
        """Runs the chain; the task in the middle ends its worker."""
        with tempfile.TemporaryDirectory() as folder, self._started(root) as run:
            run.tasks(self.num_before)
            run.tasks(1, marker=os.path.join(folder, "killed"))
            run.tasks(self.num_tasks - self.num_before - 1)
            return run.outcome()

    def object_lost(self, root: Path) -> Outcome:
        """Runs the chain; the result of the first half is lost before the second one begins."""
        with self._started(root) as run:
            run.tasks(self.num_before)
            run.lose()
            run.tasks(self.num_tasks - self.num_before)
            return run.outcome()

    @contextlib.contextmanager
    def _started(self, root: Path) -> Iterator[Run]:
        with engine(root, BUDGET_BYTES, inline_bytes=INLINE_BYTES) as started:
            xs.get(run_step.remote(0, 0, None, START))  # a worker starts
            run = Run(self, started)
            yield run
        assert run.result == (self.num_tasks, self.result_bytes)


class Run:
    """A chain on an engine, and its time."""

    def __init__(self, chain: Chain, started: LocalEngine) -> None:
        self._chain = chain
        self._engine = started
        # Not an object that was put: it could not be made again when the first task has to run again.
        self._ref: Any = START
        self._num_repeated = 0
        self._seconds = 0.0
        #: Length of the chain and size of its result, once it is there.
        self.result = (0, 0)
        started.add_observer(self._note)
        self._begun = time.perf_counter()

    def _note(self, event: TaskFinished) -> None:
        self._num_repeated += event.attempt > 1

    def tasks(self, number: int, marker: str | None = None) -> None:
        """Submits some more tasks; see ``run_step``."""
        chain = self._chain
        for _ in range(number):
            self._ref = run_step.remote(chain.task_seconds, chain.result_bytes, marker, self._ref)

    def lose(self) -> None:
        """Loses the current result; this is not timed."""
        xs.wait([self._ref])
        self._seconds += time.perf_counter() - self._begun
        lose(self._engine, [self._ref])
        self._begun = time.perf_counter()

    def outcome(self) -> Outcome:
        """Waits for the end, and returns the outcome."""
        length, result = xs.get(self._ref)
        self._seconds += time.perf_counter() - self._begun
        self.result = length, result.size
        return Outcome(self._seconds, self._num_repeated)


def main() -> None:
    """Runs all chains and prints the table."""
    made = parser("Recovery: a chain that loses a worker or an object halfway.", num_rounds=1)
    made.add_argument("--seconds", type=float, default=3, help="of a chain; the original has 10")
    made.add_argument("--task-ms", type=int, nargs="+", default=[10, 100])
    made.add_argument("--result-mb", type=int, default=10, help="size of the large results")
    options = made.parse_args()
    rows = [
        row
        for result_bytes in (SMALL_BYTES, options.result_mb * 1_000_000)
        for milliseconds in options.task_ms
        for row in _findings(milliseconds / 1000, result_bytes, options)
    ]
    show(
        f"Recovery: a chain of {options.seconds:g} s, disturbed halfway",
        "Wang's dissertation, §4.5.1, Fig 4.14 (Ray with ownership, m5.xlarge, 10 s; the node is lost)",
        rows,
    )


def _findings(
    task_seconds: float, result_bytes: int, options: argparse.Namespace
) -> Iterator[Finding]:
    chain = Chain(max(2, round(options.seconds / task_seconds)), task_seconds, result_bytes)
    ways = {
        "undisturbed": chain.undisturbed,
        "worker killed": chain.worker_killed,
        "object lost": chain.object_lost,
    }
    runs = {name: functools.partial(way, options.root) for name, way in ways.items()}
    results = in_turn(options.rounds, runs)
    undisturbed = _seconds(results.pop("undisturbed"))
    for name, outcomes in results.items():
        repeated = max(one.num_repeated for one in outcomes)
        yield Finding(
            f"{name}: tasks of {task_seconds * 1000:g} ms, results of {result_bytes:,} bytes",
            f"{ratio(_seconds(outcomes), undisturbed)} the time undisturbed "
            f"({spread(undisturbed, 2)} s); {repeated} of {chain.num_tasks} tasks ran again",
            "less than 2x",
        )


def _seconds(outcomes: Sequence[Outcome]) -> list[float]:
    return [one.seconds for one in outcomes]


if __name__ == "__main__":
    main()
