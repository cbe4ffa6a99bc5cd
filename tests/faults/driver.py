"""A program that uses the embedded engine, to be killed and interrupted: ``python -m tests.faults.driver WHAT SPILL``.

It prints a line of JSON when it is ready.
"""

from __future__ import annotations

import atexit
import json
import os
import sys

import psutil

import exoshuffle as xs
from exoshuffle.futures import current_engine
from exoshuffle.testing.programs import Mortal, double
from tests.faults.programs import Spot, Wrapped, payload, stop_running


def wait_in_all_ways() -> None:
    """Spills, and starts an actor, a worker in the middle of a task and one that is idle; waits for ever."""
    kept = [xs.put(Wrapped(payload(number, 10_000_000))) for number in range(30)]
    actor = xs.remote(Mortal).remote()
    xs.get(actor.call.remote())
    spot = Spot()
    task = xs.remote(stop_running).remote(spot, kept[:1])
    pid = spot.process()
    xs.get(xs.remote(double).remote(1))
    tell({"busy": pid, "spilled": current_engine().stats()["spilled_bytes"]})
    xs.get(task)


def start_a_worker() -> None:
    """Waits for a task whose worker is about to start."""
    task = xs.remote(Spot().stop_here).remote()
    tell({})
    xs.get(task)


def run_text_at_exit() -> None:
    """Waits; when it ends, text is run, as imports and new dataclasses do. Python then forgets what ended it."""
    atexit.register(lambda: exec(""))  # noqa: S102  that is what it is about
    start_a_worker()


def print_in_a_worker() -> None:
    """Prints from a worker, whose end is not a clean one."""

    def shout() -> None:
        print("from a worker")  # noqa: T201  the point of it
        os.write(2, b"and this\n")

    xs.get(xs.remote(shout).remote())
    tell({})


def leave() -> None:
    """Ends while a task runs."""
    spot = Spot()
    task = xs.remote(spot.stop_here).remote()
    spot.process()
    tell({})
    del task
    sys.exit(3)


def tell(what: dict[str, int]) -> None:
    children = [child.pid for child in psutil.Process().children(recursive=True)]
    sys.stdout.write(json.dumps({"children": children, **what}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    xs.init(memory_limit="350MB", spill_dirs=sys.argv[2], num_cpus=2)
    {
        "wait": wait_in_all_ways,
        "start": start_a_worker,
        "text": run_text_at_exit,
        "print": print_in_a_worker,
        "leave": leave,
    }[sys.argv[1]]()
