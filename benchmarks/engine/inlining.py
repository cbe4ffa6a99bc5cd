"""Inlining: up to which size a value is better sent in the message than put into the shared store.

The original (Oakes, §4.2, Fig 4.4): two actors on two machines; calls that take an object and return one of the same
size. Latency is that of one call and the get of its result; throughput that of a chain of 1000 calls, each of which
takes the result of the one before.

Here the actor is a worker process beside the driver, the two ways are ``inline_bytes`` of the engine (everything, or
nothing), and the value is an Arrow buffer: copied once into the store and mapped from there, or pickled and sent through
a socket, in the way that the engine would choose by itself. There is no network in between, which the original had.

    python -m benchmarks.engine.inlining --chain 200
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import exoshuffle as xs
from benchmarks.engine.experiment import MIB, Finding, engine, in_turn, parser, show
from benchmarks.rounds import spread

KIB = 1024
BUDGET_BYTES = 1000 * MIB
#: More than any value has: nothing goes to the store. Zero: everything does.
WAYS = {"inline": 1 << 40, "store": 0}


@xs.remote
class Echo:
    """Returns what it is given."""

    def echo(self, value: Any) -> Any:
        """The value."""
        return value


@dataclass(frozen=True)
class Times:
    """Seconds by size of the value in KiB: of one call, and of one call in a chain."""

    latency: dict[int, float]
    chained: dict[int, float]


def measure(inline_bytes: int, options: argparse.Namespace) -> Times:
    """All sizes one way."""
    with engine(options.root, BUDGET_BYTES, inline_bytes=inline_bytes):
        actor = Echo.remote()
        _latency(actor, 1, options.calls)  # the worker starts, and imports what it needs
        return Times(
            {size: _latency(actor, size, options.calls) for size in options.kib},
            {size: _chain(actor, size, options.chain) for size in options.kib},
        )


def _latency(actor: Any, size: int, num_calls: int) -> float:
    value = pa.py_buffer(bytes(size * KIB))
    seconds = []
    for _ in range(num_calls):
        started = time.perf_counter()
        returned = xs.get(actor.echo.remote(xs.put(value)))
        seconds.append(time.perf_counter() - started)
        assert returned.size == value.size
    return statistics.median(seconds)


def _chain(actor: Any, size: int, num_calls: int) -> float:
    value = pa.py_buffer(bytes(size * KIB))
    started = time.perf_counter()
    ref = xs.put(value)
    for _ in range(num_calls):
        ref = actor.echo.remote(ref)
    assert xs.get(ref).size == value.size
    return (time.perf_counter() - started) / num_calls


def crossover(inline: Mapping[int, float], store: Mapping[int, float]) -> str:
    """Between which sizes inlining stops to be better, for good."""
    better = [size for size in inline if inline[size] <= store[size]]
    worse = [size for size in inline if not better or size > max(better)]
    if not better:
        return f"below {min(inline)} KiB"
    return f"{max(better)} - {min(worse)} KiB" if worse else f"above {max(better)} KiB"


def main() -> None:
    """Runs both ways in turn and prints the table."""
    made = parser("Inlining: the message or the store.", num_rounds=3)
    made.add_argument("--kib", type=int, nargs="+", default=[1, 10, 50, 100, 250, 500, 1000, 4000])
    made.add_argument("--calls", type=int, default=50, help="for the latency")
    made.add_argument("--chain", type=int, default=200, help="calls; the original has 1000")
    options = made.parse_args()
    contenders = {
        way: functools.partial(measure, inline_bytes, options)
        for way, inline_bytes in WAYS.items()
    }
    results = in_turn(options.rounds, contenders)
    rows = [_row(size, results) for size in options.kib]
    rows += [
        Finding(
            "latency: inlining is better up to",
            _crossovers([run.latency for run in results["inline"]], results, "latency"),
            "~500 KiB",
        ),
    ]
    show(
        "Inlining: one call with a value in and one of the same size out",
        "Oakes, UCB/EECS-2020-119, §4.2, Fig 4.4 (Ray, two m4.xlarge); it sets the default of 100 KiB",
        rows,
    )


if __name__ == "__main__":
    main()
