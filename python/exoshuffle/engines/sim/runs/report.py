"""The report of a simulation: stages, utilisation, bytes by device, requests, objects of the program, and the bill."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exoshuffle.units import format_bytes


@dataclass(frozen=True)
class Stage:
    """The tasks of one name.

    Attributes:
        name: The name.
        num_tasks: How many there were.
        start, end: When the first began and the last ended, in seconds.
        mean_seconds: How long one took on average, with its waits.
    """

    name: str
    num_tasks: int
    start: float
    end: float
    mean_seconds: float


@dataclass(frozen=True)
class Line:
    """The use of one device of one node over time, in shares of what it can.

    Attributes:
        node: The node.
        device: ``CPU``, ``disk``, ``in`` or ``out``.
        shares: One for each piece of time.
    """

    node: str
    device: str
    shares: Sequence[float]


@dataclass(frozen=True)
class Report:
    """The outcome of a simulation; all times are in seconds.

    Attributes:
        strategy: The name of the strategy.
        seconds: How long it took.
        bound_seconds: By device: what it would take alone, if it were busy all the time.
        stages: By task.
        utilisation: Mean use of each device, as a share.
        num_bytes: Bytes by device and way.
        num_requests: Requests by device and way.
        num_objects: Objects and tasks that the program asked for; it holds memory for each.
        costs: The price of each part; empty without prices.
        currency: Of the costs.
        trace_hash: Of all that happened.
        lines: Use over time.
        piece_seconds: The length of a piece of time.
    """

    strategy: str
    seconds: float
    bound_seconds: Mapping[str, float]
    stages: Sequence[Stage]
    utilisation: Mapping[str, float]
    num_bytes: Mapping[str, int]
    num_requests: Mapping[str, int]
    num_objects: int
    costs: Mapping[str, float]
    currency: str
    trace_hash: str
    lines: Sequence[Line] = ()
    piece_seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """Returns all but the lines, for JSON."""
        found = dataclasses.asdict(dataclasses.replace(self, lines=()))
        del found["lines"], found["piece_seconds"]
        return found

    def __str__(self) -> str:
        rows = [
            ("strategy", self.strategy),
            ("time", f"{self.seconds:,.1f} s"),
            *((f"  {stage.name}", _told(stage)) for stage in self.stages),
            ("bounds", ", ".join(f"{name} {s:,.1f} s" for name, s in self.bound_seconds.items())),
            (
                "busy",
                ", ".join(
                    f"{name} {100 * share:.0f} %" for name, share in self.utilisation.items()
                ),
            ),
            *((name, format_bytes(count)) for name, count in self.num_bytes.items() if count),
            *((name, f"{count:,}") for name, count in self.num_requests.items() if count),
            ("objects of the program", f"{self.num_objects:,}"),
        ]
        if self.costs:
            parts = ", ".join(f"{name} {cost:,.4f}" for name, cost in self.costs.items())
            rows.append(("cost", f"{sum(self.costs.values()):,.4f} {self.currency} ({parts})"))
        rows.append(("trace", self.trace_hash))
        return "\n".join(f"{name:<24}{value}" for name, value in rows)


def _told(stage: Stage) -> str:
    return f"{stage.num_tasks:,} tasks from {stage.start:,.1f} to {stage.end:,.1f} s, {stage.mean_seconds:,.2f} s each"
