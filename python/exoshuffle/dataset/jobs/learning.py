"""Learns the schemas of users' functions in worker processes: a function that crashes or exits spares the program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from exoshuffle.dataset.jobs.plain_errors import PlainErrors
from exoshuffle.futures import get, remote
from exoshuffle.operators.steps.functions import MapBatches

if TYPE_CHECKING:
    import pyarrow as pa


def learnt(step: MapBatches, schema: pa.Schema) -> MapBatches:
    """Returns the step with the schema of its function's results.

    The schema travels with the step: otherwise every task would learn it again.

    Raises:
        OptionsError: An argument is no function, or no schema.
        SchemaError: The schema cannot be learnt, has no column, or two of one name.
        TaskError: The function failed.

    Cost: a call of the function in a worker process, unless the schema was given.
    """
    step.check()
    if step.schema is not None:
        return step.resolved(schema)
    learn = remote(schema_of, name="learn the schema", executor="process", memory=step.memory_bytes)
    with PlainErrors():
        return replace(step, schema=get(learn.remote(step, schema)))


def schema_of(step: MapBatches, schema: pa.Schema) -> pa.Schema | None:
    """Task: returns the schema of the results of the step's function."""
    return step.resolved(schema).schema
