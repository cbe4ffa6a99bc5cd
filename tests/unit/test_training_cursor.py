"""Training that is killed anywhere and taken up by other ranks, with other batches: each row comes once, in one order.

The orders are scripted, so that thousands of kills take seconds; ``end_to_end/test_training.py`` has real ones.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError, ShuffleCheckError
from exoshuffle.futures import Engine, Ref
from exoshuffle.operators.tensors import Convert
from exoshuffle.training.orders import Begun, BegunParts, FileOrder, Order, Place
from exoshuffle.training.pace import Pace
from exoshuffle.training.run import Batches, Run
from exoshuffle.training.shares import Shares
from exoshuffle.training.state import Cursor, Identity

EPOCHS = 2
ROWS = 40
IDENTITY = Identity(True, 1, ROWS, "0" * 16)


class Scripted(FileOrder):
    """Rows in an order that a seed gives, in parts that have nothing to do with it."""

    def __init__(self, sizes: Sequence[int], *, can_skip: bool = True) -> None:
        self.__dict__.update(node=xs.range(1).node, file_rows=None, sizes=sizes, can_skip=can_skip)

    def begin(self, seed: int, row: int, pace: Pace, engine: Engine) -> Begun:
        del engine
        pace.wait(100)
        order = order_of(seed)
        starts = [sum(self.sizes[:place]) for place in range(len(self.sizes))]
        first = max(place for place, start in enumerate(starts) if start <= row)
        first = first if self.can_skip else 0
        parts = [
            order[start : start + size] for start, size in zip(starts, self.sizes, strict=True)
        ]
        return BegunParts(
            iter([stored(part) for part in parts[first:]]), len(parts), row - starts[first]
        )

    def rows(self, seed: int, start: int, stop: int) -> list[Place]:
        raise NotImplementedError


def order_of(seed: int) -> list[int]:
    return random.Random(seed).sample(range(ROWS), ROWS)


def stored(part: Sequence[int]) -> list[Ref]:
    batch = pa.record_batch({"id": pa.array(part, pa.int64())})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return [xs.put(out.getvalue())]


def run(order: Order, size: int, rank: int, world: int, cursor: Cursor) -> Run:
    shares = Shares(size, rank, world, drop_last=False)
    return Run(Batches(order, ROWS, lambda epoch: epoch, shares, Ids((), (), None)), cursor, EPOCHS)


class Ids(Convert):
    """The values of the column ``id``."""

    def __call__(self, batch: pa.RecordBatch) -> list[int]:
        return batch["id"].to_pylist()


def steps(run: Run) -> Iterator[list[int]]:
    for epoch in run.epochs():
        yield from epoch


@pytest.mark.usefixtures("engine")
class TestCursor:
    @settings(max_examples=60)
    @given(
        lives=st.lists(
            st.tuples(st.integers(1, 8), st.integers(0, 20), st.integers(0, 30), st.booleans()),
            max_size=5,
        ),
        cuts=st.lists(st.integers(0, ROWS), max_size=4),
    )
    def test_no_row_is_lost_or_repeated(
        self, lives: list[tuple[int, int, int, bool]], cuts: list[int]
    ) -> None:
        """Each life has a number of ranks, a batch size above it, and a number of steps; the last one goes on."""
        edges = [0, *sorted(cuts), ROWS]
        sizes = [stop - start for start, stop in itertools.pairwise(edges)]
        cursor, got = Cursor(), []
        for world, more, num_steps, can_skip in [*lives, (1, 6, 10**9, True)]:
            order = Scripted(sizes, can_skip=can_skip)
            ranks = [run(order, world + more, rank, world, cursor) for rank in range(world)]
            of_ranks = [steps(each) for each in ranks]
            for batches in itertools.islice(zip(*of_ranks, strict=True), num_steps):
                got += [row for batch in batches for row in batch]
            states = {json.dumps(IDENTITY.state(1, each.cursor)) for each in ranks}
            for each in of_ranks:
                each.close()
            if num_steps:
                assert len(states) == 1
            _, cursor = IDENTITY.loaded(json.loads(states.pop()), 1)
        assert got == [row for epoch in range(EPOCHS) for row in order_of(epoch)]

    def test_leaving_an_epoch_for_the_next_leaves_out_its_rows(self) -> None:
        got = [next(epoch) for epoch in run(Scripted([15, 25]), 10, 0, 1, Cursor()).epochs()]
        assert got == [order_of(0)[:10], order_of(1)[:10]]

    def test_a_batch_that_cannot_be_made_was_not_handed_over(self) -> None:
        class Failing(Convert):
            def __call__(self, batch: pa.RecordBatch) -> None:
                raise ValueError(f"{batch.num_rows} rows")

        shares = Shares(10, 0, 1, drop_last=False)
        made = Run(
            Batches(Scripted([40]), ROWS, int, shares, Failing((), (), None)), Cursor(0, 7), EPOCHS
        )
        with pytest.raises(ValueError, match="10 rows"):
            list(steps(made))
        assert made.cursor == Cursor(0, 7)

    def test_parts_with_too_few_rows_are_an_error(self) -> None:
        with pytest.raises(ShuffleCheckError, match="epoch 0 has 40 rows, and 39 came out"):
            list(steps(run(Scripted([15, 24]), 10, 0, 1, Cursor())))

    def test_an_iteration_that_was_ended_says_so(self, engine: LocalEngine) -> None:
        del engine
        first = run(Scripted([15, 25]), 10, 0, 1, Cursor())
        batches = steps(first)
        next(batches)
        first.end()
        with pytest.raises(OptionsError, match="ended when another one of the same loader began"):
            next(batches)
