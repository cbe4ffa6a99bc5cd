"""Few rows that one query computes, in several streams: for tests of its results."""

from __future__ import annotations

import collections

import pytest

from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.jobs import leaves, one_query
from exoshuffle.dataset.tree.strategies import with_strategy
from exoshuffle.futures import Ref, RefStream
from exoshuffle.operators.core.sink import Sink

#: Runs a query; None if it failed, and rows are computed in another way.
part_of = one_query.OneQueryJob._part


def counted_queries(patch: pytest.MonkeyPatch) -> collections.Counter[str]:
    """However few rows there are, one query computes them; counts the queries that have ended, by their outcome."""
    patch.setattr(one_query, "MIN_BYTES", 0)
    patch.setattr(leaves, "STREAM_BYTES", 1)
    patch.setattr(leaves, "SPLIT_BYTES", 5_000)
    counted: collections.Counter[str] = collections.Counter()

    def counting(job: one_query.OneQueryJob, sink: Sink) -> Ref | RefStream | None:
        part = part_of(job, sink)
        counted["failed" if part is None else "query"] += 1
        return part

    patch.setattr(one_query.OneQueryJob, "_part", counting)
    return counted


def as_shuffled(rows: Dataset) -> Dataset:
    """The same rows, made by shuffles."""
    return Dataset(with_strategy(rows.node, "simple"))
