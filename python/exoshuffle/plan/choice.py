"""Chooses among several strategies by their predicted costs, and says why in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle.plan.cost import Cost, name_of, seconds_text
from exoshuffle.units import counted, format_bytes

#: A strategy other than the first must be predicted to take less than this share of its time: the model is no better.
#: We ran 1 GB within 400 MB by ``push`` and by ``simple`` in turn: the median quotient of their times, and the model's.
#: 64 partitions (slices of 280 kB): 0.96 in 6 pairs, and 1.06. 250 partitions: 1.19 in 3 pairs, and 1.04.
#: 1,000 partitions (18 kB): 1.01 in 5 pairs, and 0.93. 3,000 partitions (6 kB): 0.89 in 5 pairs, and 0.73.
#: Other programs ran, so single quotients went from 0.39 to 2.12: the measurement says little.
WORTH_MERGING = 0.9


def cheapest(costs: Sequence[Cost]) -> Cost:
    """Returns the cost to choose: the first, which moves rows least often, unless another is worth it."""
    best = min(costs, key=lambda cost: cost.seconds)
    return best if best.seconds < WORTH_MERGING * costs[0].seconds else costs[0]


def compared(best: Cost, costs: Sequence[Cost]) -> tuple[Cost, ...]:
    """Returns the best cost, then for each other strategy its best."""
    found: dict[str, Cost] = {}
    for cost in sorted(costs, key=lambda cost: cost.seconds):
        found.setdefault(cost.traffic.strategy, cost)
    found.pop(best.traffic.strategy)
    return (best, *found.values())


def reason(best: Cost, others: Sequence[Cost]) -> str:
    """Returns one sentence with the numbers that decided."""
    traffic = best.traffic
    slices = f"slices of {format_bytes(traffic.total_bytes // traffic.num_slices)}"
    if not others:
        return f"no memory to merge in; {slices}"
    other = min(others, key=lambda cost: cost.seconds)
    found = f"{seconds_text(best.seconds)} predicted, {seconds_text(other.seconds)} for "
    found += name_of(other.traffic)
    if traffic.written_bytes == 0 and traffic.merged_bytes == 0:
        return f"everything stays in memory, so merging would only copy ({found})"
    requests = (
        f"{counted(traffic.num_requests, 'request')} instead of {other.traffic.num_requests:,}"
    )
    return f"{found}: {slices}, {requests}"
