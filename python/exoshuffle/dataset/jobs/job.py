"""Jobs: what turns inputs into results, part by part, each ending in a sink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from exoshuffle.operators.core.sink import Sink
from exoshuffle.plan.plan import ShufflePlan


class Job(Protocol):
    """Makes a result, part by part."""

    @property
    def plan(self) -> ShufflePlan | None:
        """The plan of its shuffle, if it is one."""
        ...

    def run(self, sink: Sink) -> Iterator[Any]:
        """A ``Ref``, or a ``RefStream`` if that is how the sink returns, of each part, in order.

        Work is submitted as they are taken.
        """
