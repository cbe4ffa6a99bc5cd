"""Learns the schemas of users' functions in worker processes: a function that crashes or exits spares the program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from exoshuffle.dataset.jobs.plain_errors import PlainErrors
from exoshuffle.errors import SchemaError, TaskError, WorkerDiedError
from exoshuffle.futures import Engine, get, remote
from exoshuffle.futures.options import CPU, GPU
from exoshuffle.operators.arrow_values import array_of, no_rows
from exoshuffle.operators.sql.relational import take
from exoshuffle.operators.steps.functions import MapBatches
from exoshuffle.operators.steps.needs import Needs
from exoshuffle.operators.steps.rows import LEARNT_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

_Step = TypeVar("_Step", bound=MapBatches)
_Given = TypeVar("_Given")


def totals(engine: Engine) -> dict[str, float]:
    """Returns what all nodes have, by resource."""
    total: dict[str, float] = {}
    for node in engine.nodes():
        for name, amount in node.resources.items():
            total[name] = total.get(name, 0) + amount
    return total


def learnt(
    step: MapBatches,
    schema: pa.Schema,
    needs: Needs | None = None,
    first_rows: Callable[[], pa.Table | None] | None = None,
) -> MapBatches:
    """Returns the step with the schema of its function's results; the task has the function's ``needs``.

    The schema travels with the step: otherwise every task would learn it again.

    Args:
        step: The step.
        schema: Schema of the rows that the function gets.
        needs: The resources of its task. Default: a CPU.
        first_rows: Reads rows for a function that fails without any, as ``reshape(len(batch), -1)`` of NumPy does.

    Raises:
        OptionsError: An argument is no function, or no schema.
        SchemaError: The schema cannot be learnt, has no column, or two of one name.
        TaskError: The function failed.

    Cost: a call of the function in a worker process, unless the schema was given.
    """
    step.check()
    if step.schema is not None:
        return step.resolved(schema)
    needs = needs or Needs()
    try:
        return replace(step, schema=_learn(schema_of, step, schema, needs))
    except (TaskError, SchemaError) as error:
        rows = first_rows() if first_rows is not None and _may_need_rows(error) else None
        if not rows:
            raise
    return learnt_from(step, rows, needs)


def _may_need_rows(error: TaskError | SchemaError) -> bool:
    """Whether a function that failed without rows may do with some: it ended neither its process nor the memory."""
    if isinstance(error, SchemaError):
        return True
    cause = error.__cause__
    return isinstance(cause, Exception) and not isinstance(cause, WorkerDiedError | MemoryError)


def learnt_from(step: _Step, rows: pa.Table, needs: Needs) -> _Step:
    """Returns the step with the schema of what its function makes of some rows; otherwise as ``learnt``."""
    step.check()
    return replace(step, schema=_learn(schema_from, step, rows, needs))


def few_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Returns the first rows of batches: one, and more while they are no more than some megabytes.

    They are a copy: the traceback of a function that fails for them would keep blocks of the store.
    """
    import pyarrow as pa

    parts: list[pa.Table] = []
    left = LEARNT_BYTES
    for batch in filter(len, batches):
        # Dictionaries count with each slice.
        fixed_bytes = batch.slice(0, 0).nbytes
        num_rows = batch.num_rows
        while num_rows and batch.slice(0, num_rows).nbytes - fixed_bytes > left:
            num_rows -= 1
        num_rows = num_rows or (1 if not parts else 0)
        left -= batch.slice(0, num_rows).nbytes - fixed_bytes
        part = pa.Table.from_batches([batch.slice(0, num_rows)])
        parts.append(take(part, array_of(range(num_rows), pa.int64())))
        if num_rows < batch.num_rows or left <= 0:
            break
    return pa.concat_tables(parts) if parts else no_rows(schema)


def _learn(
    task: Callable[[_Step, _Given], pa.Schema | None], step: _Step, given: _Given, needs: Needs
) -> pa.Schema | None:
    amounts = dict(needs.amounts)
    learn = remote(
        # As code, a function that closes over too much is refused before it is copied. As an argument it is stored.
        functools.partial(task, step),
        name="learn the schema",
        executor="process",
        memory=step.memory_bytes,
        num_cpus=amounts.pop(CPU, 0.0),
        num_gpus=amounts.pop(GPU, 0.0),
        resources=amounts,
    )
    with PlainErrors():
        schema: pa.Schema | None = get(learn.remote(given))
    return schema


def schema_of(step: MapBatches, schema: pa.Schema) -> pa.Schema | None:
    """Task: returns the schema of the results of the step's function."""
    return step.resolved(schema).schema


def schema_from(step: MapBatches, rows: pa.Table) -> pa.Schema:
    """Task: returns the schema of what the step's function makes of rows."""
    return step.learnt_from(rows)
