"""What takes the rows of a partition, as tasks see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Protocol

from exoshuffle.operators.steps.step import Step


class Sink(Protocol):
    """Takes the rows of a partition (``_native.Rows``) and makes the result of a task from them, or its results."""

    @property
    def num_returns(self) -> int | Literal["streaming"]:
        """1, or how a task says that it yields several results; as in ``TaskOptions``."""
        ...

    @property
    def keeps_partitions(self) -> bool:
        """Whether a partition has to stay one result where rows are only handed on: somebody counts on its file."""
        ...

    def __call__(self, partition: int, rows: Any) -> Iterator[Any]:
        """Takes the partition and yields the results of the task; one, unless it says otherwise."""

    def within(self, partition: int) -> Sink:
        """The sink for the parts of a partition, in whose place they come."""


def sink_steps(sink: Sink) -> tuple[Step, ...]:
    """What a sink, and those behind it, do to rows before they take them."""
    behind = getattr(sink, "sink", None)
    steps: tuple[Step, ...] = getattr(sink, "steps", ())
    return steps if behind is None else (*steps, *sink_steps(behind))


def handed(sink: Sink, results: Iterator[Any]) -> Any:
    """What a task returns whose results are those of a sink: the one that there is, or a generator of them.

    The last one comes when ``results`` has ended, with what is checked at the end: a single one never comes unchecked.
    """
    if sink.num_returns == "streaming":
        return _held_back(results)
    (result,) = results
    return result


def _held_back(results: Iterator[Any]) -> Iterator[Any]:
    last = next(results)
    for result in results:
        yield last
        last = result
    yield last
