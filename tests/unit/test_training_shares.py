"""Shares of global batches: all ranks together get every row once, in the same number of steps."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.training.shares import Shares


def batches(sizes: list[int]) -> list[pa.RecordBatch]:
    """Batches of these sizes, whose rows are numbered through."""
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    return [
        pa.record_batch({"id": pa.array(range(start, start + size), pa.int64())})
        for start, size in zip(starts, sizes, strict=True)
    ]


@given(
    sizes=st.lists(st.integers(0, 30), max_size=8),
    world=st.integers(1, 8),
    more=st.integers(0, 25),
    drop_last=st.booleans(),
)
def test_ranks_together_get_each_row_once(
    sizes: list[int], world: int, more: int, drop_last: bool
) -> None:
    size, total = world + more, sum(sizes)
    shares = [
        list(Shares(size, rank, world, drop_last).of(batches(sizes))) for rank in range(world)
    ]
    steps = total // size if drop_last else -(-total // size)
    assert [len(found) for found in shares] == [steps] * world
    for step, of_ranks in enumerate(zip(*shares, strict=True)):
        rows = [row for share in of_ranks for row in share.rows["id"].to_pylist()]
        assert rows == list(range(step * size, min((step + 1) * size, total)))
        assert {share.num_rows for share in of_ranks} == {len(rows)}
        counts = [share.rows.num_rows for share in of_ranks]
        assert max(counts) - min(counts) <= 1


def test_a_share_in_one_batch_is_not_copied() -> None:
    (batch,) = batches([100])
    for share in Shares(10, 1, 2, drop_last=False).of([batch]):
        assert share.rows["id"].buffers()[1].address == batch["id"].buffers()[1].address
