"""The protocol of sinks, which take the rows of a partition, as tasks see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

from exoshuffle import _native
from exoshuffle.operators.steps.step import Step


class Sink(Protocol):
    """Takes the rows of a partition (``_native.Rows``) and makes one or several results of a task from them."""

    @property
    def num_returns(self) -> int | Literal["streaming"]:
        """1, or ``"streaming"`` if it yields several results; as in ``TaskOptions``."""
        ...

    @property
    def keeps_partitions(self) -> bool:
        """Whether a partition whose rows are only handed on has to stay one result: somebody counts on its file."""
        ...

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """The steps that it, and the sinks behind it, apply to rows before taking them."""
        ...

    @property
    def row_copies(self) -> int | None:
        """The most copies of a large row at once while it is taken, with the row itself; None if that is unknown."""
        ...

    def __call__(self, partition: int, rows: _native.Rows) -> Iterator[object]:
        """Takes the partition and yields the results of the task: one, unless ``num_returns`` says otherwise."""

    def within(self, partition: int) -> Sink:
        """Returns the sink for the parts of a partition, which take its place."""


def handed(sink: Sink, results: Iterator[object]) -> object:
    """Returns what a task with the results of a sink returns: the only result, or a generator of them.

    The last result comes only after ``results`` has ended, with its checks at the end: no single result is unchecked.
    """
    if sink.num_returns == "streaming":
        return _held_back(results)
    (result,) = results
    return result


def _held_back(results: Iterator[object]) -> Iterator[object]:
    last = next(results)
    for result in results:
        yield last
        last = result
    yield last
