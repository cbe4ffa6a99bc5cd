"""Spill files damaged on disk: values are computed again from their lineage, or the loss is named; never wrong rows."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import BlockLostError, CorruptBlockError
from exoshuffle.futures import ActorHandle, Ref
from exoshuffle.futures.options import Executor
from exoshuffle.strategies import Around, PlannedStrategy, Push, ShufflePlan, Simple, TaskSet
from exoshuffle.testing.meeting import Counter, await_count, helper, poll

on_thread = functools.partial(xs.remote, executor="thread")

#: Twenty blocks of this size are more than the budget of the small engine.
BLOCK_BYTES = 5_000_000
NUM_BLOCKS = 20


@on_thread
def make(seed: int) -> bytes:
    return bytes([seed]) * BLOCK_BYTES


@on_thread
def increment(block: bytes) -> bytes:
    return bytes([block[0] + 1]) * BLOCK_BYTES


def spilled(
    engine: LocalEngine, refs: Sequence[Ref], num_blocks: int = NUM_BLOCKS
) -> Sequence[Ref]:
    """The same references, once so much is made after them that all of their blocks are on disk."""
    xs.wait(refs, num_ready=len(refs))
    filler = [xs.put(bytes(BLOCK_BYTES)) for _ in range(num_blocks)]
    del filler
    gc.collect()
    assert engine.stats()["spilled_bytes"] >= len(refs) * BLOCK_BYTES
    return refs


def test_damaged_values_are_computed_again(engine: LocalEngine, damage: Callable[[], int]) -> None:
    refs = spilled(engine, [make.remote(seed) for seed in range(NUM_BLOCKS)])
    assert damage() > 0
    for seed, ref in enumerate(refs):
        assert xs.get(ref) == bytes([seed]) * BLOCK_BYTES
    assert engine.stats()["num_recovered"] >= NUM_BLOCKS


def test_freed_arguments_are_computed_again_too(
    engine: LocalEngine, damage: Callable[[], int]
) -> None:
    refs = spilled(
        engine, [increment.remote(increment.remote(make.remote(seed))) for seed in range(3)]
    )
    assert damage() > 0
    for seed, ref in enumerate(refs):
        assert xs.get(ref) == bytes([seed + 2]) * BLOCK_BYTES
    assert engine.stats()["num_recovered"] == 9


def test_damaged_arguments_of_tasks_are_computed_again(
    engine: LocalEngine, damage: Callable[[], int]
) -> None:
    refs = spilled(engine, [make.remote(seed) for seed in range(NUM_BLOCKS)])
    assert damage() > 0
    sums = [increment.remote(ref) for ref in refs]
    del refs
    for seed, ref in enumerate(sums):
        assert xs.get(ref) == bytes([seed + 1]) * BLOCK_BYTES


def test_slices_are_checked_one_by_one(engine: LocalEngine, damage: Callable[[], int]) -> None:
    def halves(seed: int) -> list[bytes]:
        return [bytes([seed + i]) * (BLOCK_BYTES // 2) for i in range(2)]

    refs = spilled(engine, [on_thread(halves, num_returns=2).remote(seed) for seed in range(4)])
    assert damage() > 0
    assert [xs.get(ref[1])[0] for ref in refs] == [1, 2, 3, 4]
    assert engine.stats()["num_recovered"] == 4


@pytest.mark.parametrize("executor", ["process", "thread"])
@pytest.mark.parametrize("nested", [False, True])
def test_what_was_made_of_a_large_value_is_made_again(
    roomy_engine: LocalEngine, executor: str, nested: bool
) -> None:
    """The value lies in the store, where nobody has a reference to it; it is not lost itself."""

    def repeated(data: bytes) -> bytes:
        return data * 4

    def outer(data: bytes) -> Ref:
        made: Ref = xs.remote(repeated, executor=executor).remote(data)
        return made

    run = xs.remote(outer if nested else repeated, executor=executor)
    ref = run.remote(b"x" * (BLOCK_BYTES // 4))
    made: Any = xs.get(ref) if nested else ref
    xs.wait([made])
    lose(roomy_engine, made)
    assert xs.get(made) == b"x" * BLOCK_BYTES
    assert roomy_engine.stats()["num_recovered"] == 1
    del ref, made
    assert roomy_engine.stats()["num_objects"] == 0


def produced(first: bytes, going_on: ActorHandle | None = None) -> Iterator[bytes]:
    """Three blocks; the end after somebody has counted."""
    for number in range(3):
        yield bytes([first[0] + number]) * BLOCK_BYTES
    if going_on is not None:
        await_count(going_on, 1)


def lose(engine: LocalEngine, ref: Any) -> None:
    engine.table.lose(CorruptBlockError("damaged", ref._object.stored.block_id))


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_items_are_made_again_when_nobody_has_the_stream(
    roomy_engine: LocalEngine, executor: Executor
) -> None:
    stream = xs.remote(produced, num_returns="streaming", executor=executor).remote(b"\1")
    refs = list(stream)
    del stream
    gc.collect()
    lose(roomy_engine, refs[0])
    lose(roomy_engine, refs[2])
    assert [item[0] for item in xs.get(refs)] == [1, 2, 3]
    del refs
    assert roomy_engine.stats()["num_objects"] == 0


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_items_that_the_generator_is_past_are_made_again(
    roomy_engine: LocalEngine, executor: Executor
) -> None:
    going_on = helper(Counter)
    run = xs.remote(produced, num_returns="streaming", executor=executor)
    stream = run.remote(b"\1", going_on)
    refs = [next(stream) for _ in range(3)]
    xs.wait(refs, num_ready=3)
    lose(roomy_engine, refs[1])
    xs.get(going_on.add.remote())
    assert [item[0] for item in xs.get(refs)] == [1, 2, 3]
    assert stream.next() is None


def test_freed_arguments_of_generators_are_computed_again(roomy_engine: LocalEngine) -> None:
    stream = on_thread(produced, num_returns="streaming").remote(increment.remote(make.remote(1)))
    refs = list(stream)
    gc.collect()
    lose(roomy_engine, refs[1])
    assert [item[0] for item in xs.get(refs)] == [2, 3, 4]
    assert roomy_engine.stats()["num_recovered"] == 3


def test_every_item_may_be_lost_once_more_than_a_task_may_fail(roomy_engine: LocalEngine) -> None:
    refs = list(on_thread(produced, num_returns="streaming", max_retries=1).remote(b"\1"))
    for number, ref in enumerate([*refs, refs[0]]):
        lose(roomy_engine, ref)
        assert xs.get(ref)[0] == 1 + number % 3
        task = refs[0]._object.task
        poll(lambda task=task: task.stream is None or task.stream.ended)  # type: ignore[misc]
    lose(roomy_engine, refs[0])
    with pytest.raises(BlockLostError, match="5 attempts were made"):
        xs.get(refs[0])


def test_items_of_a_cancelled_generator_are_lost_by_name(roomy_engine: LocalEngine) -> None:
    stream = xs.remote(produced, num_returns="streaming").remote(b"\1", helper(Counter))
    first = next(stream)
    xs.wait([first])
    assert xs.cancel(stream)
    lose(roomy_engine, first)
    with pytest.raises(BlockLostError, match="its bytes are lost and its task was cancelled"):
        xs.get(first)


@pytest.mark.parametrize("how", ["value", "item"])
def test_objects_of_actors_are_lost_by_name(
    engine: LocalEngine, damage: Callable[[], int], how: str
) -> None:
    class Maker:
        def value(self, seed: int) -> bytes:
            return bytes([seed]) * BLOCK_BYTES

        def item(self, seed: int) -> Iterator[bytes]:
            yield bytes([seed]) * BLOCK_BYTES

    maker = xs.remote(Maker, executor="thread", name="maker").remote()
    streaming = maker.item.options(num_returns="streaming")
    made = [
        maker.value.remote(n) if how == "value" else next(streaming.remote(n)) for n in range(4)
    ]
    refs = spilled(engine, made)
    assert damage() > 0
    why = "its bytes are lost and actor maker made it, whose calls are not repeated"
    with pytest.raises(BlockLostError, match=why):
        xs.get(refs[0])
    with pytest.raises(BlockLostError, match=why):
        xs.get(increment.remote(refs[1]))
    # The actor goes on, and what is in memory is whole.
    assert xs.get(maker.value.remote(9)) == bytes([9]) * BLOCK_BYTES


def test_objects_that_were_put_are_lost_by_name(
    engine: LocalEngine, damage: Callable[[], int]
) -> None:
    refs = spilled(engine, [xs.put(bytes([seed]) * BLOCK_BYTES) for seed in range(4)])
    assert damage() > 0
    with pytest.raises(BlockLostError, match="it was put, not computed"):
        xs.get(refs[0])
    with pytest.raises(BlockLostError, match="it was put, not computed"):
        xs.get(increment.remote(refs[1]))


def test_values_that_came_back_are_lost_and_made_with_their_source(
    roomy_engine: LocalEngine, damage: Callable[[], int]
) -> None:
    """A worker returned what it got, so the value is where it was, and so is the loss."""

    def table(value: int) -> pa.Table:
        return pa.table({"value": pa.array([value] * (BLOCK_BYTES // 8), pa.int64())})

    same = xs.remote(lambda value: value)
    backs = [same.remote(same.remote(on_thread(table).remote(value))) for value in range(4)]
    backs = [*backs, same.remote(xs.put(table(4)))]
    sums = xs.remote(lambda *tables: [one["value"][0].as_py() for one in tables])
    spilled(roomy_engine, backs, 2 * NUM_BLOCKS)
    assert damage() > 0
    assert xs.get(backs[0])["value"][0].as_py() == 0
    assert xs.get(sums.remote(backs[1], backs[0], backs[2][0])) == [1, 0, 2]
    column = xs.remote(lambda tables: [one.num_rows for one in tables])
    assert xs.get(column.remote(xs.Refs([backs[3]]))) == [BLOCK_BYTES // 8]
    with pytest.raises(BlockLostError, match="it was put, not computed"):
        xs.get(column.remote(xs.Refs(backs)))
    with pytest.raises(BlockLostError, match="it was put, not computed"):
        xs.get(backs[4])
    with pytest.raises(BlockLostError, match="it was put, not computed"):
        xs.get(sums.remote(backs[0], backs[4]))
    assert roomy_engine.stats()["num_recovered"] == 4


def test_a_disk_that_never_keeps_anything_is_named(
    engine: LocalEngine, damage: Callable[[], int]
) -> None:
    (ref,) = spilled(engine, [make.options(max_retries=2).remote(7)])
    for _ in range(2):
        assert damage() > 0
        assert xs.get(ref) == bytes([7]) * BLOCK_BYTES
        spilled(engine, [ref])
    assert damage() > 0
    with pytest.raises(BlockLostError, match="3 attempts were made"):
        xs.get(ref)


class DamagedHalfway(Around):
    """A strategy whose spilled blocks are damaged when the first reduce has finished."""

    def __init__(self, strategy: PlannedStrategy, damage: Callable[[], int]) -> None:
        self.strategy = strategy
        self.damage = damage
        self.num_damaged = 0

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        reduces = self.strategy.shuffle(tasks, splits, plan)
        first = next(reduces)
        xs.wait([first])
        self.num_damaged = self.damage()
        yield first
        yield from reduces


@pytest.mark.parametrize(
    "strategy",
    [Simple(), Push(), Push(keep_map_outputs=True)],
    ids=["simple", "push*", "push"],
)
def test_a_sort_survives_damage(
    engine: LocalEngine,
    records: Path,
    check_sorted: Callable[[Path], None],
    damage: Callable[[], int],
    strategy: PlannedStrategy,
) -> None:
    damaged = DamagedHalfway(strategy, damage)
    output = records.parent / "output"
    xs.read_records(records).sort(strategy=damaged).write_records(output)
    assert damaged.num_damaged > 0
    assert engine.stats()["num_recovered"] > 0
    check_sorted(output)


class DamagedBefore:
    """A strategy before whose maps all that is spilled is damaged: what an earlier shuffle made."""

    def __init__(self, damage: Callable[[], int]) -> None:
        self.damage = damage
        self.num_damaged = 0

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        self.num_damaged = self.damage()
        yield from Simple().shuffle(tasks, splits, plan)


def test_blocks_of_a_large_result_survive_damage(
    engine: LocalEngine, tmp_path: Path, damage: Callable[[], int]
) -> None:
    """A partition of a join is many blocks, some on disk: the generator that made them runs again."""
    rows = 3_500
    table = pa.table({"k": pa.array([1] * rows), "a": pa.array(range(rows))})
    pq.write_table(table, tmp_path / "in.parquet")
    source = xs.read_parquet(tmp_path / "in.parquet")
    pairs = source.join(source.rename({"a": "b"}), on="k", num_partitions=2)
    damaged = DamagedBefore(damage)
    made = pairs.group_by("a", strategy=damaged).agg(n="count", total=("b", "sum")).to_arrow()
    assert damaged.num_damaged > 0
    assert engine.stats()["num_recovered"] > 0
    assert made.num_rows == rows
    assert set(made["n"].to_pylist()) == {rows}
    assert set(made["total"].to_pylist()) == {rows * (rows - 1) // 2}
