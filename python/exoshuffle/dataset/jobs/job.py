"""The protocol of jobs: a job turns inputs into results, part by part, and hands each part to a sink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from exoshuffle.futures import Ref, RefStream
from exoshuffle.operators.core.sink import Sink
from exoshuffle.plan.plan import ShufflePlan


class Job(Protocol):
    """Makes a result, part by part."""

    @property
    def plan(self) -> ShufflePlan | None:
        """The plan of its shuffle, if the job is one."""
        ...

    def run(self, sink: Sink) -> Iterator[Ref | RefStream]:
        """Yields a ``Ref`` of each part, in order, or a ``RefStream`` if the sink returns one.

        Taking them submits the work.
        """
