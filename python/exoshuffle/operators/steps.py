"""Narrow steps: what is done to the rows of a split or a partition one by one, as they stream.

Guarantee: a step keeps the order of rows, and holds a few batches at a time (``batches.chunks_of``). Columns that are
only passed through keep their exact type and are not copied, except by a filter, which copies what it keeps. A step
that does not fit its input says so in ``output_schema``, before work starts.

Steps are data, so that they travel to tasks, and say which columns they read, so that no others are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from exoshuffle.errors import SchemaError
from exoshuffle.operators.batches import chunks_of, movable, streamed, tables_of
from exoshuffle.operators.expressions import (
    Expression,
    column,
    evaluate,
    parse_expression,
)

if TYPE_CHECKING:
    import pyarrow as pa


class Step(Protocol):
    """Makes rows of rows."""

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of what is made of rows of ``schema``; raises SchemaError if the step does not fit."""

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """The rows, made as they are asked for."""

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """The columns of ``schema`` that must be read so that the ``needed`` ones of the output can be made.

        The step can be applied to rows of these columns alone, in the order of ``schema``.
        """


@dataclass(frozen=True)
class Select:
    """Keeps columns and adds computed ones, in this order.

    Attributes:
        columns: Names of columns to keep.
        expressions: Names and SQL expressions of new ones.
    """

    columns: tuple[str, ...]
    expressions: tuple[tuple[str, str], ...] = ()

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        return _schema_of(self._parsed(schema), schema)

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``: everything that it selects."""
        del needed
        return frozenset(
            name for expression in self._parsed(schema).values() for name in expression.columns
        )

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        return _computed(self._parsed(batches.schema), batches)

    def _parsed(self, schema: pa.Schema) -> dict[str, Expression]:
        names = [*self.columns, *(name for name, _ in self.expressions)]
        if not names:
            raise SchemaError("select needs at least one column")
        _refuse_duplicates("select", names)
        parsed = {name: column(name, schema) for name in self.columns}
        return parsed | {name: parse_expression(text, schema) for name, text in self.expressions}


@dataclass(frozen=True)
class WithColumns:
    """Adds computed columns at the end, or replaces columns of these names where they are.

    All expressions see the columns as they were before.

    Attributes:
        expressions: Names and SQL expressions.
    """

    expressions: tuple[tuple[str, str], ...]

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        return _schema_of(self._parsed(schema), schema)

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``: columns that are replaced, too, since they hold the place of the new ones."""
        read = {
            name for _, text in self.expressions for name in parse_expression(text, schema).columns
        }
        return frozenset(name for name in schema.names if name in needed | read)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        return _computed(self._parsed(batches.schema), batches)

    def _parsed(self, schema: pa.Schema) -> dict[str, Expression]:
        _refuse_duplicates("with_columns", [name for name, _ in self.expressions])
        kept = {name: column(name, schema) for name in schema.names}
        return kept | {name: parse_expression(text, schema) for name, text in self.expressions}


@dataclass(frozen=True)
class Filter:
    """Keeps rows for which a condition is true; null is not.

    Attributes:
        condition: An SQL expression that is true or false.
    """

    condition: str

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        self._parsed(schema)
        return schema

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        return needed | frozenset(self._parsed(schema).columns)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        condition = self._parsed(batches.schema)

        def kept(table: pa.Table) -> pa.Table:
            [mask] = evaluate((condition,), table)
            return movable(table).filter(mask).cast(table.schema)

        return streamed(batches.schema, map(kept, chunks_of(batches)))

    def _parsed(self, schema: pa.Schema) -> Expression:
        import pyarrow as pa

        condition = parse_expression(self.condition, schema)
        if not pa.types.is_boolean(condition.type):
            raise SchemaError(
                f"filter {self.condition!r} is {condition.type}; it must be true or false, so compare it with something"
            )
        return condition


@dataclass(frozen=True)
class Drop:
    """Leaves columns out.

    Attributes:
        columns: Their names.
    """

    columns: tuple[str, ...]

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        for name in self.columns:
            column(name, schema)
        if set(self.columns) >= set(schema.names):
            raise SchemaError("drop leaves no column; keep at least one")
        return self._without(schema)

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del schema
        return needed

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        schema = self._without(batches.schema)
        return streamed(schema, (table.select(schema.names) for table in tables_of(batches)))

    def _without(self, schema: pa.Schema) -> pa.Schema:
        import pyarrow as pa

        kept = [field for field in schema if field.name not in self.columns]
        return pa.schema(kept, schema.metadata)


@dataclass(frozen=True)
class Rename:
    """Gives columns other names.

    Attributes:
        names: Old and new name of each.
    """

    names: tuple[tuple[str, str], ...]

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        _refuse_duplicates("rename", [old for old, _ in self.names])
        for old, _ in self.names:
            column(old, schema)
        renamed = self._renamed(schema)
        _refuse_duplicates("rename", renamed.names)
        return renamed

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        names = dict(self.names)
        return frozenset(old for old in schema.names if names.get(old, old) in needed)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        schema = self._renamed(batches.schema)
        return streamed(
            schema, (table.rename_columns(schema.names) for table in tables_of(batches))
        )

    def _renamed(self, schema: pa.Schema) -> pa.Schema:
        import pyarrow as pa

        names = dict(self.names)
        fields = [field.with_name(names.get(field.name, field.name)) for field in schema]
        return pa.schema(fields, schema.metadata)


@dataclass(frozen=True)
class MapBatches:
    """Hands each batch to a user's function.

    Exceptions of the function pass through, with a note of the batch that it had (Python 3.11 and later show it).

    Attributes:
        function: From a ``pyarrow.Table`` to a table, a record batch or a dictionary of columns.
        schema: Of what it returns; default: of what it returns for a table without rows, in every task again.
    """

    function: Callable[[pa.Table], Any]
    schema: pa.Schema | None = None

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        import pyarrow as pa

        if self.schema is not None:
            return self.schema
        made = _as_table(
            self._call(schema.empty_table(), "without rows, to learn the schema"), None
        )
        if any(pa.types.is_null(field.type) for field in made.schema):
            raise SchemaError(
                f"map_batches: for a table without rows {_name(self.function)} returned {_columns(made.schema)}; "
                "give schema= where a type cannot be told without values"
            )
        return made.schema

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``: a function may read any column."""
        del needed
        return frozenset(schema.names)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        schema = self.output_schema(batches.schema)

        def made() -> Iterator[pa.Table]:
            for number, table in enumerate(tables_of(batches), 1):
                result = self._call(table, f"number {number} of {table.num_rows} rows")
                yield _conformed(_as_table(result, schema), schema, number)

        return streamed(schema, made())

    def _call(self, table: pa.Table, batch: str) -> Any:
        try:
            return self.function(table)
        except Exception as error:
            _add_note(error, f"map_batches called {_name(self.function)} with the batch {batch}")
            raise


def apply_steps(steps: Iterable[Step], batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The rows after all steps, made as they are asked for."""
    for step in steps:
        batches = step.apply(batches)
    return batches


def steps_schema(steps: Iterable[Step], schema: pa.Schema) -> pa.Schema:
    """The schema after all steps.

    Raises:
        SchemaError: A step does not fit.
    """
    for step in steps:
        schema = step.output_schema(schema)
    return schema


def required_columns(
    steps: Sequence[Step], schema: pa.Schema, needed: Iterable[str] | None = None
) -> tuple[str, ...]:
    """The columns that have to be read, in the order of the schema; at least one, which carries the number of rows.

    Args:
        steps: What is done to the rows.
        schema: Of the rows before.
        needed: Columns wanted after the steps; default: all. Others may still come out.
    """
    schemas = [schema]
    for step in steps:
        schemas.append(step.output_schema(schemas[-1]))
    columns = frozenset(schemas[-1].names if needed is None else needed)
    for step, before in zip(reversed(steps), reversed(schemas[:-1]), strict=True):
        columns = step.required(columns, before)
    return tuple(name for name in schema.names if name in columns) or tuple(schema.names[:1])


def _schema_of(parsed: Mapping[str, Expression], schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    fields = [
        schema.field(expression.text).with_name(name)
        if expression.is_column
        else pa.field(name, expression.type)
        for name, expression in parsed.items()
    ]
    return pa.schema(fields, schema.metadata)


def _computed(
    parsed: Mapping[str, Expression], batches: pa.RecordBatchReader
) -> pa.RecordBatchReader:
    import pyarrow as pa

    schema = _schema_of(parsed, batches.schema)
    expressions = tuple(parsed.values())
    made = (
        pa.Table.from_arrays(evaluate(expressions, table), schema=schema)
        for table in chunks_of(batches)
    )
    return streamed(schema, made)


def _refuse_duplicates(operation: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(
            f"{operation} would give two columns the name {twice[0]!r}; names must differ"
        )


def _as_table(result: Any, schema: pa.Schema | None) -> pa.Table:
    """What a user's function returned, as a table; ``schema`` gives lists in a dictionary their types."""
    import pyarrow as pa

    if isinstance(result, pa.Table):
        return result
    if isinstance(result, pa.RecordBatch):
        return pa.Table.from_batches([result])
    if not isinstance(result, Mapping):
        raise SchemaError(
            f"map_batches: the function returned {type(result).__name__}; return a pyarrow Table, a RecordBatch or a "
            "dictionary of columns"
        )
    types = {} if schema is None else {field.name: field.type for field in schema}
    try:
        return pa.table(
            {name: _as_array(values, types.get(name)) for name, values in result.items()}
        )
    except (pa.ArrowException, TypeError) as error:
        raise SchemaError(
            f"map_batches: the function returned a dictionary that is not one of columns: {error}"
        ) from error


def _as_array(values: Any, kind: pa.DataType | None) -> Any:
    import pyarrow as pa

    return values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values, kind)


def _conformed(table: pa.Table, schema: pa.Schema, number: int) -> pa.Table:
    """The table, if it is what was expected of batch ``number``."""
    import pyarrow as pa

    if table.schema.names != schema.names or table.schema.types != schema.types:
        raise SchemaError(
            f"map_batches: batch {number} came back with {_columns(table.schema)}; expected were {_columns(schema)}"
        )
    for field, values in zip(schema, table.columns, strict=True):
        if values.null_count and not field.nullable:
            raise SchemaError(
                f"map_batches: batch {number} came back with nulls in {field.name!r}, which the schema does not allow"
            )
    return pa.Table.from_arrays(table.columns, schema=schema)


def _columns(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{field.name}: {field.type}" for field in schema) + ")"


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _add_note(error: BaseException, note: str) -> None:
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        # Where newer versions of Python keep them, so that notes travel to those.
        error.__notes__ = [*getattr(error, "__notes__", []), note]  # type: ignore[attr-defined]
