"""How the reduces of several nodes are submitted: in turn, so that all nodes work, and with copies of slow ones."""

from __future__ import annotations

from collections.abc import Iterator

from exoshuffle.futures import Ref
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.strategies.mechanisms.dealing import dealt, max_ahead
from exoshuffle.strategies.mechanisms.races import num_cpus
from exoshuffle.strategies.mechanisms.reduce_copies import ReduceCopies
from exoshuffle.strategies.mechanisms.speculation import Speculation
from exoshuffle.strategies.task_set import ManyResults


def in_turn(runs: list[Iterator[Ref]], copies: ReduceCopies | None) -> Iterator[Ref]:
    """Yields the results of all nodes; their reduces are submitted in turn."""
    if len(runs) == 1:
        refs = runs[0]
    else:
        refs = dealt(runs, None if copies else max_ahead(num_cpus()))
    yield from refs if copies is None else copies.first_results(refs)


def copies_of(
    tasks: object, plan: ShufflePlan, speculation: Speculation | None
) -> ReduceCopies | None:
    """Returns what copies slow reduces; None if nothing does. Results that are streams have no copies."""
    if speculation is None or makes_streams(tasks):
        return None
    return ReduceCopies(speculation, plan.num_partitions - plan.first_partition)


def makes_streams(tasks: object) -> bool:
    """Whether the results of reduces are streams."""
    return isinstance(tasks, ManyResults) and tasks.reduce_returns == "streaming"
