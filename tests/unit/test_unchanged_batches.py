"""Tasks of stages whose functions return their batches as they got them: such a task makes no block."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from exoshuffle.dataset.jobs.stages.tasks import run_stage
from exoshuffle.futures.engine import Engine, set_task_engine
from exoshuffle.operators.core.sinks import BlocksSink
from exoshuffle.operators.steps.columns import Select
from exoshuffle.operators.steps.functions import MapBatches
from exoshuffle.operators.steps.rows import FlatMap, KeepRows
from exoshuffle.operators.steps.skipping import Notes
from exoshuffle.operators.steps.step import Step

TABLE = pa.table({"a": pa.array(range(10), pa.int64()), "b": [[i] for i in range(10)]})


@pytest.fixture(autouse=True)
def task() -> Iterator[None]:
    """The running task, whose blocks are plain memory."""
    made = SimpleNamespace(
        allocate_block=lambda offsets: bytearray(offsets[-1]), budget_bytes=10**9, num_cpus=2
    )
    set_task_engine(cast("Engine", made))
    yield
    set_task_engine(None)


def block_of(table: pa.Table, batch_rows: int) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, batch_rows)
    return sink.getvalue().to_pybytes()


def made_of(*steps: Step, tables: tuple[pa.Table, ...] = (TABLE,)) -> list[object]:
    blocks = [block_of(table, 4) for table in tables]
    return list(run_stage(steps, 0, BlocksSink(1_000_000), *blocks))


def rows_of(made: list[object]) -> pa.Table:
    return pa.concat_tables(pa.ipc.open_stream(cast("bytes", block)).read_all() for block in made)


def same(batch: pa.Table) -> pa.Table:
    return batch


def negative_behind_four(batch: pa.Table) -> pa.Table:
    if batch["a"][0].as_py() < 4:
        return batch
    return batch.set_column(0, "a", pc.negate(batch["a"]))


def failing_behind_four(batch: pa.Table) -> pa.Table:
    if batch["a"][0].as_py() < 4:
        return batch
    raise ValueError("no")


@pytest.mark.parametrize("batch_size", [None, 3, 100])
@pytest.mark.parametrize("tables", [(TABLE,), (TABLE, TABLE.slice(2)), (TABLE.slice(0, 0),)])
def test_batches_that_come_back_as_they_were_make_no_block(
    batch_size: int | None, tables: tuple[pa.Table, ...]
) -> None:
    step = MapBatches(same, TABLE.schema, batch_size=batch_size)
    assert made_of(step, step, tables=tables) == []


def test_rows_before_a_batch_that_changed_are_there() -> None:
    made = made_of(MapBatches(negative_behind_four, TABLE.schema))
    assert rows_of(made)["a"].to_pylist() == [0, 1, 2, 3, -4, -5, -6, -7, -8, -9]
    assert rows_of(made)["b"] == TABLE["b"]


def test_a_copy_counts_as_changed() -> None:
    step = MapBatches(lambda batch: pa.table(batch.to_pydict()), TABLE.schema)
    assert rows_of(made_of(step)).equals(TABLE)


def test_another_schema_is_another_result() -> None:
    schema = TABLE.schema.with_metadata({"of": "the function"})
    made = rows_of(made_of(MapBatches(same, schema)))
    assert made.schema.equals(schema, check_metadata=True)
    assert made.equals(TABLE)


def test_steps_that_make_rows_make_blocks() -> None:
    assert rows_of(made_of(MapBatches(same, TABLE.schema), Select(("a",)))).column_names == ["a"]
    assert rows_of(made_of(FlatMap(lambda row: [row], TABLE.schema))).equals(TABLE)
    kept = rows_of(made_of(KeepRows(lambda row: row["a"] > 3, TABLE.schema)))
    assert kept.equals(TABLE.slice(4))


@pytest.mark.parametrize("size", [4, 10])
def test_a_batch_that_is_skipped_has_not_come_back(size: int) -> None:
    table = TABLE if size == 4 else TABLE.slice(4)
    step = MapBatches(failing_behind_four, TABLE.schema, on_error="skip")
    *made, notes = made_of(step, tables=(table,))
    assert rows_of(made)["a"].to_pylist() == ([0, 1, 2, 3] if size == 4 else [])
    [noted] = cast("list[Notes]", notes)
    assert noted.num_skipped == 6
