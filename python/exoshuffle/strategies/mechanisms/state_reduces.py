"""Submits the reduces of states: partitions in one piece each, made on the node where they are reduced."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from exoshuffle.futures import Ref, Refs
from exoshuffle.plan.division import Functions
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies.mechanisms.reduce_copies import Home, submitted
from exoshuffle.strategies.mechanisms.reduce_turns import copies_of, in_turn, makes_streams
from exoshuffle.strategies.mechanisms.speculation import Speculation
from exoshuffle.strategies.task_set import functions_bytes, stage


def reduce_states(
    tasks: Functions,
    states: deque[Ref],
    sizes: Sequence[int],
    plan: ShufflePlan,
    nodes: Sequence[str | None],
    speculation: Speculation | None = None,
) -> Iterator[Ref]:
    """Does as ``run_reduces`` with partitions in one piece each; takes the states, so that each ends with its reduce.

    Args:
        tasks: The task set that has put slices together to states.
        states: One state for each partition.
        sizes: Bytes of each state; zeros where nobody knows.
        plan: The plan of the shuffle.
        nodes: The node of each partition, where its state was made; None if any will do.
        speculation: As in ``run_reduces``.
    """
    copies = copies_of(tasks, plan, speculation)
    submit = submitted if copies is None else copies.submit_at(None)
    if makes_streams(tasks):
        nodes = [None] * len(nodes)
    runs: list[Iterator[Ref]] = []
    for node, together in itertools.groupby(range(len(nodes)), key=nodes.__getitem__):
        mine = {partition: sizes[partition] for partition in together}
        of_node = deque(states.popleft() for _ in mine)
        runs.append(_state_reduces(tasks, of_node, mine, plan, Home(node, submit)))
    yield from in_turn(runs, copies)


def _state_reduces(
    tasks: Functions, states: deque[Ref], sizes: Mapping[int, int], plan: ShufflePlan, home: Home
) -> Iterator[Ref]:
    """Submits the reduces of a node, which has states of these partitions, with these sizes."""
    run_reduce = stage(tasks, "reduce", node=home.node)
    more = functions_bytes(tasks, "reduce")
    for partition, num_bytes in sizes.items():
        run = run_reduce.options(memory=plan.reduce_memory(num_bytes) + more)
        yield home.submit(run, partition, Refs([states.popleft()]).column(0))
