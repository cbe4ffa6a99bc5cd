"""Pinning versus LRU: the fate of a program whose objects in use exceed the store.

The original (Oakes, §6.3) has 50 iterations and a store of 100 MiB. Each makes a number of 1 MiB updates and folds them
into a 1 MiB cumulative object. Every iteration starts afresh ("independent") or goes on with the cumulative object of
the one before ("chained"). Its first system pins referenced objects. Its second evicts the objects used longest ago,
referenced or not, and executes the task again when somebody asks.

The counterparts here:

* *Pinned* is our engine as it is, with a budget of 100 MiB. Referenced objects stay, on disk if need be, and go with
  their last reference. (The original does not say where pinned objects went that did not fit.)
* *LRU* our engine cannot be, since it never takes away referenced objects. The driver plays it, over the same tasks on
  the same engine. It keeps references to the 100 objects used last and drops the others, which frees them at once. It
  remembers the call that made each object, to be made again when the object is asked for and gone. The engine under
  it has room enough, so nothing is spilled. It gives up at ``GIVE_UP_TIMES`` as many calls as the program has.
* An update is a SHA-256 over 1 MiB; ten are folded at a time, since the store has no room for 200 at once.

Two results do not depend on the machine: how many calls are made again, and where LRU gives up. The time does: pinned
pays for the disk and LRU for the calls, and calls as cheap as these can cost less than a disk.

    python -m benchmarks.experiments.pinning
"""

from __future__ import annotations

import argparse
import collections
import functools
import hashlib
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import exoshuffle as xs
from benchmarks.experiments.experiment import MIB, Finding, engine, in_turn, parser, ratio, show
from benchmarks.rounds import spread

STORE_OBJECTS = 100
FOLDED_AT_ONCE = 10
GIVE_UP_TIMES = 3

_TOTAL = struct.Struct("<q")
_RECORD = bytes(MIB)


@xs.remote(executor="thread")
def start() -> Any:
    """Returns an empty cumulative object."""
    return _object(0)


@xs.remote(executor="thread")
def update(number: int) -> Any:
    """Returns the result of processing a record of 1 MiB."""
    hashlib.sha256(_RECORD).digest()
    return _object(number)


@xs.remote(executor="thread")
def fold(cumulative: Any, *updates: Any) -> Any:
    """Returns the cumulative object with updates added."""
    return _object(sum(total_of(one) for one in (cumulative, *updates)))


def _object(total: int) -> Any:
    block: Any = xs.allocate_block([0, MIB])
    with memoryview(block) as view:
        view[:] = _RECORD
        _TOTAL.pack_into(view, 0, total)
    return block


def total_of(value: Any) -> int:
    """Returns the number that an object stands for."""
    total: int = _TOTAL.unpack_from(value)[0]
    return total


class GaveUpError(Exception):
    """Too many calls were made again."""


class Objects(Protocol):
    """Makes objects and gets them; the two policies."""

    num_calls: int

    def make(self, function: Any, *args: Any) -> Any:
        """Calls a remote function; its arguments may be results of this method."""

    def get(self, made: Any) -> Any:
        """Returns the value."""


class Pinned:
    """Keeps referenced objects, by the engine's own references."""

    def __init__(self) -> None:
        self.num_calls = 0

    def make(self, function: Any, *args: Any) -> Any:
        """See ``Objects``."""
        self.num_calls += 1
        return function.remote(*args)

    def get(self, made: Any) -> Any:
        """See ``Objects``."""
        return xs.get(made)


@dataclass(frozen=True, eq=False)
class Recipe:
    """The call that makes an object, and makes it again."""

    function: Any
    args: tuple[Any, ...]

    @property
    def inputs(self) -> list[Recipe]:
        """Returns the objects that it needs."""
        return [arg for arg in self.args if isinstance(arg, Recipe)]


class Lru:
    """Keeps only the objects used last; others are made again when they are asked for."""

    def __init__(self, capacity: int, most_calls: int) -> None:
        self.num_calls = 0
        self._capacity = capacity
        self._most_calls = most_calls
        self._refs: collections.OrderedDict[Recipe, xs.Ref] = collections.OrderedDict()

    def make(self, function: Any, *args: Any) -> Any:
        """See ``Objects``."""
        recipe = Recipe(function, args)
        self._ref(recipe)
        return recipe

    def get(self, made: Any) -> Any:
        """See ``Objects``."""
        return xs.get(self._ref(made))

    def _ref(self, wanted: Recipe) -> xs.Ref:
        """Makes the object if it is gone. A loop, not a recursion: a chain can be longer than Python's stack."""
        to_make = [wanted]
        while to_make:
            recipe = to_make[-1]
            gone = [one for one in recipe.inputs if one not in self._refs]
            if recipe in self._refs:
                to_make.pop()
            elif gone:
                to_make.extend(reversed(gone))
            else:
                self._call(recipe)
        self._refs.move_to_end(wanted)
        return self._refs[wanted]

    def _call(self, recipe: Recipe) -> None:
        self.num_calls += 1
        if self.num_calls > self._most_calls:
            raise GaveUpError
        for one in recipe.inputs:
            self._refs.move_to_end(one)
        args = [self._refs[arg] if isinstance(arg, Recipe) else arg for arg in recipe.args]
        self._refs[recipe] = recipe.function.remote(*args)
        while len(self._refs) > self._capacity:
            # An object dropped before it is made would be cancelled; eviction takes objects that were in the store.
            oldest = next(iter(self._refs))
            xs.wait([self._refs[oldest]])
            del self._refs[oldest]


@dataclass(frozen=True)
class Program:
    """The iterative program of the experiment."""

    num_iterations: int
    num_updates: int
    chained: bool

    @property
    def num_calls(self) -> int:
        """Returns the number of its calls if none is made twice."""
        folds = -(-self.num_updates // FOLDED_AT_ONCE)
        starts = 1 if self.chained else self.num_iterations
        return starts + self.num_iterations * (self.num_updates + folds)

    def run(self, objects: Objects) -> None:
        """Runs it, and checks every total."""
        expected = 0
        cumulative = objects.make(start)
        for iteration in range(self.num_iterations):
            if iteration and not self.chained:
                cumulative, expected = objects.make(start), 0
            updates = [objects.make(update, number) for number in range(self.num_updates)]
            for first in range(0, self.num_updates, FOLDED_AT_ONCE):
                some = updates[first : first + FOLDED_AT_ONCE]
                cumulative = objects.make(fold, cumulative, *some)
            expected += sum(range(self.num_updates))
            found = total_of(objects.get(cumulative))
            assert found == expected, f"iteration {iteration}: {found}, not {expected}"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run; ``num_calls`` is None if it gave up."""

    seconds: float
    num_calls: int | None
    spilled_bytes: int


def run_pinned(program: Program, options: argparse.Namespace) -> Outcome:
    """Runs the program on the engine as it is."""
    return _run(program, Pinned(), options, STORE_OBJECTS * MIB)


def run_lru(program: Program, options: argparse.Namespace) -> Outcome:
    """Runs the program over LRU eviction."""
    objects = Lru(STORE_OBJECTS, GIVE_UP_TIMES * program.num_calls)
    return _run(program, objects, options, 2 * STORE_OBJECTS * MIB)


def _run(
    program: Program, objects: Objects, options: argparse.Namespace, budget_bytes: int
) -> Outcome:
    with engine(options.root, budget_bytes) as started:
        begun = time.perf_counter()
        num_calls: int | None
        try:
            program.run(objects)
            num_calls = objects.num_calls
        except GaveUpError:
            num_calls = None
        seconds = time.perf_counter() - begun
        return Outcome(seconds, num_calls, started.stats()["spilled_bytes"])


def findings(program: Program, options: argparse.Namespace, original: str) -> Finding:
    """Returns one point of the figure."""
    results = in_turn(
        options.rounds,
        {
            "pinned": functools.partial(run_pinned, program, options),
            "lru": functools.partial(run_lru, program, options),
        },
    )
    kind = "chained" if program.chained else "independent"
    return Finding(
        f"{program.num_updates} updates, {kind}",
        f"{_pinned(results['pinned'])}\n{_lru(results['lru'], results['pinned'], program)}",
        original,
    )


def _pinned(outcomes: Sequence[Outcome]) -> str:
    seconds = spread([one.seconds for one in outcomes], 2)
    spilled = max(one.spilled_bytes for one in outcomes) / 1e9
    return f"pinned: {seconds} s, no call made again, {spilled:.2f} GB spilled"


def _lru(outcomes: Sequence[Outcome], pinned: Sequence[Outcome], program: Program) -> str:
    again = {one.num_calls for one in outcomes}
    if None in again:
        return f"LRU: gave up at {GIVE_UP_TIMES} times the program's {program.num_calls} calls"
    quotient = ratio([one.seconds for one in outcomes], [one.seconds for one in pinned])
    num_again = max(count for count in again if count is not None) - program.num_calls
    return f"LRU: {quotient} the time, {num_again} calls made again beside {program.num_calls}"


def main() -> None:
    """Runs the points of both figures and prints the table."""
    made = parser("Pinning versus LRU.", num_rounds=1)
    made.add_argument("--iterations", type=int, default=50, help="as the original")
    made.add_argument("--updates", type=int, nargs="+", default=[10, 50, 100, 200])
    options = made.parse_args()
    rows = []
    for chained in (False, True):
        for num_updates in options.updates:
            program = Program(options.iterations, num_updates, chained)
            rows.append(findings(program, options, _original(program)))
    show(
        f"Pinning versus LRU: {options.iterations} iterations, objects of 1 MiB, store of 100 MiB",
        "Oakes, UCB/EECS-2020-119, §6.3, Fig 6.3 (Ray 0.7.7 with and without pinning, 64 cores)",
        rows,
    )


def _original(program: Program) -> str:
    if program.chained:
        return "pinned completes" if program.num_updates < 70 else "LRU fails from 70 updates on"
    if program.num_updates == 200:
        return "LRU: 3.2x the time"
    return "both linear while the updates fit into the store" if program.num_updates < 100 else ""


if __name__ == "__main__":
    main()
