"""Narrow steps: work on the rows of a split or a partition one by one, as they stream.

Guarantee: a step keeps the order of rows, and holds a few batches at a time (``batches.chunks_of``). A step that does
not fit its input says so in ``output_schema``, before work starts.

Steps are data, so that they travel to tasks. They say which columns they read, so that no others are read. Steps on
columns are in ``columns.py``, users' functions in ``functions.py``, and steps of samples in ``sample.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from exoshuffle.futures.options import Executor
from exoshuffle.operators.steps.place import Place

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.operators.sql.types import Expression


#: Copies of a large row that a step makes: what comes out, beside what went in. A filter of lines took half a size more
#: than none.
STEP_COPIES = 1


class RowNumbers(NamedTuple):
    """Random numbers of rows, as a step adds them: the column for them, and their seed."""

    column: str
    seed: int


class Step(ABC):
    """Makes rows of rows. The other members describe the step; their values here are those of most steps."""

    @abstractmethod
    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """Returns the schema of the result for rows of ``schema``; raises SchemaError if the step does not fit."""

    @abstractmethod
    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Returns the rows, made as they are asked for."""

    @abstractmethod
    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """Returns the columns of ``schema`` that must be read to make the ``needed`` ones of the output.

        The step can be applied to rows of these columns alone, in the order of ``schema``.
        """

    def at(self, place: Place) -> Step:
        """The step for the rows of a task."""
        del place
        return self

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """Of ``names`` of columns behind the step, those of columns that it only passes on, with their names before.

        Args:
            names: Somebody's names of the columns, and their names behind the step.
        """
        del names
        return {}

    def carrying(self, column: str) -> Step:
        """The step that lets one more column through, which a step before it adds."""
        del column
        return self

    def kept_columns(self, schema: pa.Schema) -> tuple[str, ...] | None:
        """Returns the columns that come out, in their order, if the step only chooses among those of ``schema``.

        None if it does anything else.
        """
        del schema
        return None

    @property
    def numbers(self) -> RowNumbers | None:
        """The numbers that the step adds to rows; None for none."""
        return None

    @property
    def dropped(self) -> tuple[str, ...]:
        """The columns that the step leaves out by name."""
        return ()

    @property
    def condition_sql(self) -> str | None:
        """The condition that is true of all rows that come out; None if the step takes no row out by one."""
        return None

    def computed(self, schema: pa.Schema) -> Mapping[str, Expression] | None:
        """Returns the columns that come out, each as an expression over the columns of the same row.

        Args:
            schema: The schema of the rows; it may lack columns that ``required`` does not name.

        Returns:
            None if the step does anything but compute columns and leave rows out by ``condition_sql``.
        """
        del schema
        return None

    @property
    def is_function(self) -> bool:
        """Whether a user's function makes rows: it runs in worker processes, and its rows are in no file."""
        return False

    @property
    def makes_rows(self) -> bool:
        """Whether rows that come out are others than those that went in, so that no file numbers them."""
        return self.is_function

    @property
    def keeps_all(self) -> bool:
        """Whether all rows come out, with the values of their columns as they were."""
        return False

    @property
    def keeps_each(self) -> bool:
        """Whether each row comes out as one row, in its place, so that files number what comes out."""
        return False

    @property
    def declared_bytes(self) -> int:
        """The memory that a user's function has declared to take."""
        return 0


def apply_steps(
    steps: Iterable[Step], batches: pa.RecordBatchReader, place: Place | None = None
) -> pa.RecordBatchReader:
    """Returns the rows after all steps, made as they are asked for; ``place`` says which rows they are before."""
    place = place or Place.of_part(0)
    for step in steps:
        batches = step.at(place).apply(batches)
        if step.makes_rows:
            # The function returns other rows, which are in no file.
            place = Place.of_part(place.part, place.name)
    return batches


def executor_of(shuffle_executor: Executor, steps: Iterable[Step]) -> Executor:
    """Returns where tasks run: users' Python functions in worker processes, all else on threads."""
    return "process" if any(step.is_function for step in steps) else shuffle_executor


def functions_bytes(steps: Iterable[Step]) -> int:
    """Returns the memory that users' functions among the steps have declared to take, all of them in one task."""
    return sum(step.declared_bytes for step in steps)


def copies_behind(steps: Sequence[Step], copies: int | None) -> int | None:
    """Returns the most copies of a large row at once in steps and in what takes their rows, with the row itself.

    Args:
        steps: Applied to the row.
        copies: The most in what takes the rows; None if that is unknown.
    """
    if copies is None or any(step.is_function for step in steps):
        return None
    return copies + STEP_COPIES * len(steps)


def columns_first(steps: Sequence[Step], schema: pa.Schema) -> tuple[pa.Schema, tuple[Step, ...]]:
    """Returns the columns that are left of ``schema`` by first steps that only choose columns, and the other steps."""
    for number, step in enumerate(steps):
        if step.kept_columns(schema) is None:
            return schema, tuple(steps[number:])
        schema = step.output_schema(schema)
    return schema, ()


def steps_schema(steps: Iterable[Step], schema: pa.Schema) -> pa.Schema:
    """Returns the schema after all steps.

    Raises:
        SchemaError: A step does not fit.
    """
    for step in steps:
        schema = step.output_schema(schema)
    return schema


def required_columns(
    steps: Sequence[Step], schema: pa.Schema, needed: Iterable[str] | None = None
) -> tuple[str, ...]:
    """Returns the columns to read, in the order of the schema; at least one, which carries the number of rows.

    Args:
        steps: The steps.
        schema: The schema of the rows before them.
        needed: Columns wanted after the steps; default: all. Others may still come out.
    """
    columns = columns_before(steps, schema, needed)
    return tuple(name for name in schema.names if name in columns) or tuple(schema.names[:1])


def columns_before(
    steps: Sequence[Step], schema: pa.Schema, needed: Iterable[str] | None = None
) -> frozenset[str]:
    """Returns the columns that ``required_columns`` has to read: none where rows are only counted."""
    schemas = [schema]
    for step in steps:
        schemas.append(step.output_schema(schemas[-1]))
    columns = frozenset(schemas[-1].names if needed is None else needed)
    for step, before in zip(reversed(steps), reversed(schemas[:-1]), strict=True):
        columns = step.required(columns, before)
    return columns
