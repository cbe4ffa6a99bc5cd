"""``exoshuffle.shuffle``: a shuffle of the user's own functions, by any strategy.

Values only have to be picklable. The library does not guess from their type how to merge blocks. A merge has to keep
the properties that the reduce relies on, and only the author of the reduce knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from exoshuffle.errors import InputError, Noted, OptionsError, shown
from exoshuffle.futures import Ref, Value
from exoshuffle.futures.callables import check_arguments, check_plain
from exoshuffle.futures.options import Executor, TaskOptions
from exoshuffle.plan.plan import ShufflePlan, check_num_partitions
from exoshuffle.strategies.library import get_strategy
from exoshuffle.strategies.mechanisms.races import num_cpus
from exoshuffle.strategies.strategy import Strategy
from exoshuffle.units import counted, parse_bytes

#: Maps of a round and blocks of a merge, for strategies that have these: while one round runs, another is merged.
ROUND_PER_CPU = 4
MERGE_FACTOR = 4
#: How functions are called, where the number of arguments is known.
_CALLS = {
    "map": ("index", "input"),
    "reduce": ("partition", "slices"),
    "fold": ("partition", "state", "slices"),
}


@dataclass(frozen=True)
class FunctionTasks:
    """The task set of functions; ``shuffle`` says what each has to do.

    Attributes:
        num_partitions: R.
        executor: As in ``TaskOptions``.
        map_function, merge_function, reduce_function, fold_function: None where there is none.
    """

    num_partitions: int
    executor: Executor
    map_function: Callable[[int, Value], Sequence[Value]]
    merge_function: Callable[..., Sequence[Value]] | None = None
    reduce_function: Callable[[int, list[Value]], Value] | None = None
    fold_function: Callable[[int, Value, list[Value]], Value] | None = None

    @property
    def functions(self) -> dict[str, Callable[..., object] | None]:
        """The function that was given for each step, or None."""
        return {
            "map": self.map_function,
            "merge": self.merge_function,
            "reduce": self.reduce_function,
            "fold": self.fold_function,
        }

    def map(self, index: int, split: Value) -> object:
        """See ``TaskSet``."""
        what = f"map of input {index}"
        with Noted(f"this was the {what}"):
            return self._block(self.map_function(index, split), what, self.num_partitions)

    def merge(self, *blocks: Value) -> object:
        """See ``TaskSet``."""
        # The value of an object of one slice is that slice, not a list of one.
        slices = [[block] if self.num_partitions == 1 else list(block) for block in blocks]
        with Noted(f"this was a merge of {counted(len(blocks), 'block')}"):
            return self._block(self._given("merge")(*slices), "merge", len(slices[0]))

    def reduce(self, partition: int, slices: list[Value]) -> object:
        """See ``TaskSet``."""
        with Noted(f"this was the reduce of partition {partition}"):
            return self._given("reduce")(partition, slices)

    def fold(self, partition: int, state: Value, slices: list[Value]) -> object:
        """See ``StreamingTaskSet``."""
        with Noted(f"this was the fold of partition {partition}"):
            return self._given("fold")(partition, state, slices)

    def check(self, step: str) -> None:
        """Checks that there is a function for a step.

        Raises:
            OptionsError: There is none.
        """
        self._given(step)

    def check_function(self, step: str) -> None:
        """Checks that the value that was given for a step, if any, is a function that takes what it gets.

        Raises:
            OptionsError: It is not.
        """
        function = self.functions[step]
        if function is not None and not callable(function):
            raise OptionsError(f"{step} is {shown(function)}; it must be a function")
        if function is not None:
            check_plain(step, function, "return a list")
            if step in _CALLS:
                check_arguments(step, function, _CALLS[step])

    def _given(self, step: str) -> Callable[..., object]:
        function = self.functions[step]
        if function is None:
            raise OptionsError(
                f"this strategy needs a function {step}; pass {step}=, or choose a strategy without it"
            )
        return function

    def _block(self, values: object, what: str, count: int) -> object:
        if not isinstance(values, Iterable):
            raise InputError(
                f"{what} returned {values!r}; it must return a list with a value for each of {count} partitions"
            )
        values = list(values)
        if len(values) != count:
            raise InputError(
                f"{what} returned {counted(len(values), 'value')}; with {counted(count, 'partition')} it must return "
                "as many, one for each partition"
            )
        return values if count > 1 else values[0]


def shuffle(  # noqa: PLR0913  the functions of a shuffle are what it is about
    inputs: Iterable[object],
    *,
    map: Callable[[int, Value], Sequence[Value]],  # noqa: A002  its name in every paper
    num_partitions: int,
    reduce: Callable[[int, list[Value]], Value] | None = None,
    merge: Callable[..., Sequence[Value]] | None = None,
    fold: Callable[[int, Value, list[Value]], Value] | None = None,
    strategy: str | Strategy = "simple",
    executor: Executor = "process",
    memory: int | str = 0,
) -> Iterator[Ref]:
    """Shuffles by functions of your own: every map sends a value to every partition, and every partition has a result.

    >>> import exoshuffle as xs
    >>> def by_remainder(index, numbers):
    ...     return [[n for n in numbers if n % 3 == partition] for partition in range(3)]
    >>> def total(partition, slices):
    ...     return sum(n for numbers in slices for n in numbers)
    >>> sums = xs.shuffle(
    ...     [range(0, 50), range(50, 100)], map=by_remainder, reduce=total, num_partitions=3
    ... )
    >>> xs.get(list(sums))
    [1683, 1617, 1650]

    The functions run as tasks: anywhere, at the same time, and again after a failure. So they must be deterministic and
    free of side effects. Unlike shuffles of datasets, these are not checked for lost or repeated rows: only the
    functions know what a row is. Source: Exoshuffle §3.2, listings 1 and 2.

    Args:
        inputs: One for each map, in a list or one after the other. They travel to the tasks, so pass names of files
            rather than their contents.
        map: ``map(index, input)`` returns ``num_partitions`` values, one for each partition.
        num_partitions: The number of partitions, and of results.
        reduce: ``reduce(partition, slices)`` returns the result of a partition; ``slices`` has its value from every
            map, or merge, in the order of the inputs. All strategies but ``"streaming"`` need it.
        merge: ``merge(*blocks)`` returns one list for several lists, which come in the order of the inputs, value by
            value. The lists are as long as each other: on several nodes ``"push"`` merges the values for the partitions
            of one node. The strategies ``"push"`` and ``"pre_shuffle_merge"`` need it; the latter does
            without merges that fail, and warns of them.
        fold: ``fold(partition, state, slices)`` returns the new state of a partition, without changing ``state``,
            which is None at first. The strategy ``"streaming"`` needs it; the last states are the results.
        strategy: ``"simple"``, ``"push"``, ``"pre_shuffle_merge"``, ``"streaming"``, or an instance, which takes the
            options of its strategy (``Push(merge_bytes=10**8)``).
        executor: As in ``TaskOptions``.
        memory: Working memory of a map, a reduce or a fold, in bytes or as in ``"100MB"``; reserved from the budget.

    Returns:
        The references to the results, partition by partition. Nothing runs before the first is asked for, and a
        reduce is submitted when its reference is asked for.

    Raises:
        OptionsError: A number of partitions, a strategy or an executor cannot work, or a function is missing that the
            strategy needs.

    A map or merge that returns another number of values fails with ``InputError``, which ``get`` raises as the cause of
    a ``TaskError``. Cost: the program holds O(inputs + partitions).
    """
    check_num_partitions(num_partitions)
    if not isinstance(inputs, Iterable):
        raise OptionsError(f"inputs is {inputs!r}; it must be a list, with one item for each map")
    splits = list(inputs)
    memory_bytes = parse_bytes(memory)
    TaskOptions(executor=executor, memory=memory_bytes)
    chosen = get_strategy(strategy)
    tasks = FunctionTasks(num_partitions, executor, map, merge, reduce, fold)
    for step in tasks.functions:
        tasks.check_function(step)
    for step in chosen.steps:
        tasks.check(step)
    plan = _plan(len(splits), num_partitions, memory_bytes)
    return chosen.shuffle(tasks, splits, plan)


def _plan(num_inputs: int, num_partitions: int, memory_bytes: int) -> ShufflePlan:
    """Makes a plan without sizes, which nobody knows."""
    return ShufflePlan(
        strategy="functions",
        why="the numbers are the caller's",
        num_splits=num_inputs,
        num_partitions=num_partitions,
        split_bytes=0,
        partition_bytes=0,
        row_group_bytes=0,
        round_size=ROUND_PER_CPU * num_cpus(),
        merge_factor=MERGE_FACTOR,
        map_memory_bytes=memory_bytes,
        reduce_memory_bytes=memory_bytes,
        peak_bytes=0,
        spilled_bytes=0,
    )
