"""The folds of a round: each adds the slices of a partition to its state, and makes the next one.

Source: Wang's dissertation, §3.3.3.1, listing 6.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

from exoshuffle.errors import LargeGroupError
from exoshuffle.futures import Ref, Refs, RemoteFunction
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies.mechanisms.copies import Copied
from exoshuffle.strategies.task_set import SliceStates
from exoshuffle.units import format_bytes


def folded_states(
    run_fold: RemoteFunction,
    states: Sequence[Ref],
    blocks: Refs,
    partitions: range,
    nodes: Sequence[str | None],
    copied: Copied | None,
) -> list[Ref]:
    """Submits folds in the order given, and returns the next states, by partition; copies replace slow ones in it.

    Args:
        run_fold: The fold.
        states: The states before, by partition; none in the first round.
        blocks: The map outputs of the round.
        partitions: The order.
        nodes: The node of each partition; None if any will do.
        copied: Where slow folds get a copy.
    """

    def submit(partition: int, node: str | None) -> Ref:
        ref: Ref = run_fold.options(node=node).remote(
            partition, states[partition] if states else None, blocks.column(partition)
        )
        return ref

    folds = {partition: submit(partition, nodes[partition]) for partition in partitions}
    following = [folds[partition] for partition in sorted(folds)]
    if copied is not None:
        for partition, ref in enumerate(following):
            done = functools.partial(following.__setitem__, partition)
            copied.add(ref, functools.partial(submit, partition), done)
    return following


def are_slices(tasks: object) -> bool:
    """Whether the states of a task set are slices, which are reduced at the end."""
    return isinstance(tasks, SliceStates) and tasks.states_are_slices


def check_states(sizes: Sequence[int], plan: ShufflePlan) -> None:
    """Raises if a state of these sizes, which is slices put together, would not fit into memory.

    Raises:
        LargeGroupError: A state would not fit. In one piece it cannot be divided, though its slices could be.
    """
    partition, largest = max(enumerate(sizes), key=operator.itemgetter(1))
    if largest > plan.max_whole_bytes:
        raise LargeGroupError(
            f"partition {partition} has grown to {format_bytes(largest)}, and the memory limit leaves "
            f"{format_bytes(plan.max_whole_bytes)} for one; strategy='streaming' keeps it in one piece. Choose "
            "another strategy, which divides it, ask for more partitions, or raise memory_limit"
        )
