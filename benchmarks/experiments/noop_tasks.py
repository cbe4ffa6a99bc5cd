"""Tasks that do nothing, through one engine: how many a second, and how long one takes alone.

Each engine gets a process of its own, which needs only that engine and prints JSON: ``noop`` runs this for all.

    python -m benchmarks.experiments.noop_tasks thread 10000
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.peers.job import NOT_INSTALLED

NUM_CPUS = 2
#: Tasks before the clock starts: workers start and import their modules.
NUM_WARM_UP = 200

#: Functions that submit a task, and that get one result or a list of them.
Functions = tuple[Callable[[], Any], Callable[[Any], Any]]


def noop() -> None:
    """Does nothing."""


def through_exoshuffle(executor: str) -> Functions:
    """Returns the functions of our engine, on threads or in worker processes."""
    import exoshuffle as xs

    xs.init(num_cpus=NUM_CPUS)
    return xs.remote(noop, executor=executor).remote, xs.get


def through_ray() -> Functions:
    """Returns the functions of Ray, on a one-machine cluster of its own."""
    import ray

    ray.init("local", num_cpus=NUM_CPUS, include_dashboard=False, log_to_driver=False)
    return ray.remote(noop).remote, ray.get


ENGINES: dict[str, Callable[[], Functions]] = {
    "thread": lambda: through_exoshuffle("thread"),
    "process": lambda: through_exoshuffle("process"),
    "ray": through_ray,
}


def measure(
    submit: Callable[[], Any], get: Callable[[Any], Any], num_tasks: int
) -> dict[str, float]:
    """Returns tasks per second, all submitted at once, and the median of the seconds of one alone."""
    get([submit() for _ in range(NUM_WARM_UP)])
    started = time.perf_counter()
    get([submit() for _ in range(num_tasks)])
    per_second = num_tasks / (time.perf_counter() - started)
    alone = []
    for _ in range(max(1, num_tasks // 10)):
        started = time.perf_counter()
        get(submit())
        alone.append(time.perf_counter() - started)
    return {"per_second": per_second, "latency": statistics.median(alone)}


def main() -> None:
    """Runs the engine of the command line, confined to two CPUs."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:NUM_CPUS])
    try:
        submit, get = ENGINES[sys.argv[1]]()
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_INSTALLED)
    print(json.dumps(measure(submit, get, int(sys.argv[2]))))


if __name__ == "__main__":
    main()
