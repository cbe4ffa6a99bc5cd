"""Inlining: up to which size a value is better sent in the message than put into the shared store.

The original (Oakes, §4.2, Fig 4.4) has two actors on two machines; calls take an object and return one of the same
size. Latency is that of one call and the get of its result. Throughput is that of a chain of 1000 calls, each of which
takes the result of the one before.

Here the actor is a worker process beside the driver, and the two ways are values of the engine's ``inline_bytes``:
everything is inline, or nothing. The value is an Arrow buffer. Inline, its bytes are pickled and go through a socket;
in the store, they are copied into it once and mapped from there. The network of the original is missing.

    python -m benchmarks.experiments.inlining --chain 200
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import exoshuffle as xs
from benchmarks.experiments.experiment import MIB, Finding, engine, in_turn, parser, show
from benchmarks.rounds import spread

KIB = 1024
BUDGET_BYTES = 1000 * MIB
#: Values of ``inline_bytes``: larger than any value, or smaller.
WAYS = {"inline": 1 << 40, "store": 0}

#: Seconds by measurement (latency or chain) and size of the value in KiB.
Times = dict[tuple[str, int], float]


class Echo:
    """Returns its argument."""

    def echo(self, value: Any) -> Any:
        """Returns the value."""
        return value


def measure(inline_bytes: int, options: argparse.Namespace) -> Times:
    """Measures all sizes one way."""
    times: Times = {}
    with engine(options.root, BUDGET_BYTES, inline_bytes=inline_bytes):
        actor = xs.remote(Echo).remote()
        latency(actor, pa.py_buffer(b"x"), 10)  # the worker starts, and imports its modules
        for size in options.kib:
            value = pa.py_buffer(bytes(size * KIB))
            times["latency", size] = latency(actor, value, options.calls)
            times["chain", size] = chain(actor, value, options.chain)
    return times


def latency(actor: Any, value: pa.Buffer, num_calls: int) -> float:
    """Returns the seconds of one call, from the value to the value: the median of some calls."""
    seconds = []
    for _ in range(num_calls):
        started = time.perf_counter()
        returned = xs.get(actor.echo.remote(xs.put(value)))
        seconds.append(time.perf_counter() - started)
        assert returned.equals(value)
    return statistics.median(seconds)


def chain(actor: Any, value: pa.Buffer, num_calls: int) -> float:
    """Returns the seconds per call of a chain, all submitted at once."""
    started = time.perf_counter()
    ref = xs.put(value)
    for _ in range(num_calls):
        ref = actor.echo.remote(ref)
    assert xs.get(ref).equals(value)
    return (time.perf_counter() - started) / num_calls


def crossover(inline: Mapping[int, float], store: Mapping[int, float]) -> str:
    """Returns the sizes in KiB between which inlining ceases to be the better way, for good."""
    better = max((size for size in inline if inline[size] <= store[size]), default=None)
    if better is None:
        return f"below {min(inline)} KiB"
    worse = min((size for size in inline if size > better), default=None)
    return f"above {better} KiB" if worse is None else f"between {better} and {worse} KiB"


def main() -> None:
    """Runs both ways in turn and prints the table."""
    made = parser("Inlining: the message or the store.", num_rounds=3)
    made.add_argument("--kib", type=int, nargs="+", default=[1, 10, 50, 100, 250, 500, 1000, 4000])
    made.add_argument("--calls", type=int, default=30, help="for the latency")
    made.add_argument("--chain", type=int, default=100, help="calls; the original has 1000")
    options = made.parse_args()
    contenders = {
        way: functools.partial(measure, inline_bytes, options) for way, inline_bytes in WAYS.items()
    }
    results = in_turn(options.rounds, contenders)
    rows = []
    for what, original in (("latency", "~500 KiB"), ("chain", "~100 KiB")):
        rows += [_row(what, size, results) for size in options.kib]
        rows.append(_crossover_row(what, options.kib, results, original))
    show(
        "Inlining: a call with a value in and one of the same size out",
        "Oakes, UCB/EECS-2020-119, §4.2, Fig 4.4 (Ray on two m4.xlarge), whose default is 100 KiB",
        rows,
    )


def _row(what: str, size: int, results: Mapping[str, Sequence[Times]]) -> Finding:
    milliseconds = {
        way: spread([run[what, size] * 1e3 for run in runs], 2) for way, runs in results.items()
    }
    ours = ", ".join(f"{way} {text} ms" for way, text in milliseconds.items())
    return Finding(f"{what}, {size} KiB", ours)


def _crossover_row(
    what: str, sizes: Sequence[int], results: Mapping[str, Sequence[Times]], original: str
) -> Finding:
    inline, store = (
        {size: statistics.median(run[what, size] for run in results[way]) for size in sizes}
        for way in WAYS
    )
    return Finding(f"{what}: inlining is better up to", crossover(inline, store), original)


if __name__ == "__main__":
    main()
