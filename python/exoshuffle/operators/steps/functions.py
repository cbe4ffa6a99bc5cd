"""The step that hands rows to a user's function, and the checks of its results.

Guarantee: an exception of the function passes through as it is, with a note that names its batch. The results fit the
promised schema, or are refused by name.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from exoshuffle.arguments import repeated
from exoshuffle.errors import Noted, OptionsError, SchemaError, differing, shown
from exoshuffle.futures.callables import check_plain
from exoshuffle.futures.engine import note_function
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import no_rows
from exoshuffle.operators.batch_sizes import cut
from exoshuffle.operators.batches import streamed, tables_of
from exoshuffle.operators.sql.by_schema import BySchema
from exoshuffle.operators.steps.classes import UserClass
from exoshuffle.operators.steps.place import Place
from exoshuffle.operators.steps.skipping import PATH, Notes, OnError, Origin, SkippingErrors
from exoshuffle.operators.steps.step import Step
from exoshuffle.operators.steps.unchanged import Unchanged
from exoshuffle.operators.steps.values import typed_array
from exoshuffle.units import counted

if TYPE_CHECKING:
    import pyarrow as pa

#: The remedy for a function that yields.
ONE_TABLE = "return one table, for example pyarrow.concat_tables(list_of_tables)"


@dataclass(frozen=True)
class MapBatches(Step):
    """Hands each batch to a user's function.

    Exceptions of the function pass through, with a note that names its batch (Python 3.11 and later show it).

    Attributes:
        function: From a ``pyarrow.Table`` to a table, a record batch or a dictionary of columns.
        schema: The schema of its results; None until it is ``resolved``.
        place: The place of the rows, for the note; known in the task.
        memory_bytes: Memory that it declares to take beside its rows and its result.
        batch_size: Rows of each batch but the last of a task; None for as they come.
        on_error: The way to treat a batch, or a row, for which the function fails.
        notes: Gets what is skipped; known in the task.
        unchanged: Gets what comes back as it was; known in the task, None if nobody asks.
        call: The method that the user called, for messages.
    """

    function: Callable[[pa.Table], object]
    schema: pa.Schema | None = None
    place: str = ""
    memory_bytes: int = 0
    batch_size: int | None = None
    on_error: OnError = "raise"
    notes: Notes | None = None
    unchanged: Unchanged | None = None
    call: str = "map_batches"

    def check(self) -> None:
        """Raises ``OptionsError`` unless the function is one, and the schema is one or None."""
        import pyarrow as pa

        if isinstance(self.function, UserClass):
            self.function.check()
        elif not callable(self.function):
            raise OptionsError(f"{self.call} needs a function, and got {shown(self.function)}")
        check_plain(self.call, self.function, ONE_TABLE)
        if self.schema is not None and not isinstance(self.schema, pa.Schema):
            raise OptionsError(
                f"schema is {shown(self.schema)}; give a pyarrow.Schema, or leave it out to have it learnt"
            )

    def resolved(self, schema: pa.Schema) -> MapBatches:
        """Returns the step with its schema; calls the function to learn it, if it is not known.

        Raises:
            OptionsError: See ``check``.
            SchemaError: The schema cannot be learnt, has no column, or two of one name.
        """
        self.check()
        resolved = self.output_schema(schema)
        self._check_names(resolved)
        return replace(self, schema=resolved)

    @property
    def is_class(self) -> bool:
        """Whether the function is a class, of which an object has to be made first."""
        return isinstance(self.function, UserClass)

    @property
    def name(self) -> str:
        """The name of the function or class, for people."""
        return _name(self.function)

    def started(self) -> MapBatches:
        """Returns the step with an object of its class in the place of the class."""
        if not isinstance(self.function, UserClass):
            return self
        return replace(self, function=self.function.made())

    def noting(self, notes: Notes) -> MapBatches:
        """Returns the step that notes what it skips."""
        return replace(self, notes=notes)

    @property
    def may_keep_batches(self) -> bool:
        """Whether the function could return its batches as it got them; steps that derive from this one make others."""
        return type(self) is MapBatches

    def watched(self, unchanged: Unchanged) -> MapBatches:
        """Returns the step that notes what comes back as it was."""
        return replace(self, unchanged=unchanged)

    def at(self, place: Place) -> MapBatches:
        """See ``Step``."""
        return replace(self, place=place.name)

    @property
    def is_function(self) -> bool:
        """See ``Step``."""
        return True

    @property
    def declared_bytes(self) -> int:
        """See ``Step``."""
        return self.memory_bytes

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``: without a schema, returns that of the function's result for a table without rows."""
        if self.schema is not None:
            return self.schema
        batch = "without rows, to learn the schema; give schema= if it needs rows"
        return self._schema_of(no_rows(schema), batch)

    def learnt_from(self, rows: pa.Table) -> pa.Schema:
        """Returns the schema of the function's result for a batch of these rows; if it may skip some, for one of them.

        Raises:
            SchemaError: The schema cannot be learnt, has no column, or two of one name.
        """
        batch = rows.slice(0, self.batch_size).combine_chunks()
        batches, told = [batch], "of the first rows, to learn the schema"
        if self.on_error == "skip":
            batches += [batch.slice(row, 1) for row in range(batch.num_rows)]
        for each in batches[:-1]:
            with contextlib.suppress(Exception):
                return self._named_schema_of(each, told)
        return self._named_schema_of(batches[-1], told)

    def _named_schema_of(self, table: pa.Table, batch: str) -> pa.Schema:
        schema = self._schema_of(table, batch)
        self._check_names(schema)
        return schema

    def _schema_of(self, table: pa.Table, batch: str) -> pa.Schema:
        """Returns the result's schema. A column of nulls alone is taken to have the type that it had before."""
        import pyarrow as pa

        made = _as_table(self.call, self._call(table, batch), None)
        before = {field.name: field.type for field in table.schema}
        fields, unclear = [], []
        for field in made.schema:
            if not pa.types.is_null(field.type):
                fields.append(field)
            elif field.name in before:
                fields.append(field.with_type(before[field.name]))
            else:
                unclear.append(field.name)
        if unclear:
            names = ", ".join(map(repr, unclear[:3])) + ", …" * (len(unclear) > 3)
            of = "the first rows" if table.num_rows else "a table without rows"
            raise SchemaError(
                f"{self.call}: for {of} {_name(self.function)} returned {names} without a type; give schema= where a "
                "type cannot be told without values"
            )
        return pa.schema(fields, made.schema.metadata)

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``: a function may read any column."""
        del needed
        return frozenset(schema.names)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        schema = self.output_schema(batches.schema)
        sized = batches if self.batch_size is None else cut(batches, self.batch_size)
        made = self._made if self.on_error == "raise" else self._made_or_skipped
        return streamed(schema, made(sized, schema))

    def _made(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
        for number, table in enumerate(tables_of(batches), 1):
            yield self.made_of(table, schema, number)

    def _made_or_skipped(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> Iterator[pa.Table]:
        notes = self.notes or Notes(self.name)
        for number, table in enumerate(tables_of(batches), 1):
            made = []
            origin = Origin(notes.num_rows, table.num_rows, _first_path(table))
            notes.num_rows += table.num_rows
            with SkippingErrors("skipped", notes, origin):
                made.append(self.made_of(table, schema, number))
            yield from made

    def made_of(self, table: pa.Table, schema: pa.Schema, number: int = 1) -> pa.Table:
        """Calls the function with the batch of this number; the result must have this schema."""
        of = f", {self.place}" if self.place else ""
        if self.unchanged is not None:
            self.unchanged.give(table)
        result = self._call(table, f"number {number} of {counted(table.num_rows, 'row')}{of}")
        if self.unchanged is not None:
            self.unchanged.take(table, result)
        made = _as_table(self.call, result, schema, number)
        return conformed(made, schema, number, self.call)

    def _call(self, table: pa.Table, batch: str) -> object:
        note_function(_name(self.function))
        with Noted(f"{self.call} called {_name(self.function)} with the batch {batch}"):
            return self.function(table)

    def _check_names(self, schema: pa.Schema) -> None:
        if not schema.names:
            raise SchemaError(
                f"{self.call} would leave no column, and so no rows; return at least one column"
            )
        twice = repeated(schema.names)
        if twice:
            raise SchemaError(
                f"{self.call} would give two columns the name {twice[0]!r}; names must differ"
            )


def _as_table(call: str, result: object, schema: pa.Schema | None, number: int = 0) -> pa.Table:
    """Returns a user function's result for batch ``number`` as a table.

    ``schema`` gives lists in a dictionary their types; ``call`` is the method that the user called.
    """
    import pyarrow as pa

    if isinstance(result, pa.Table):
        return result
    if isinstance(result, pa.RecordBatch):
        return pa.Table.from_batches([result])
    if not isinstance(result, Mapping):
        if inspect.iscoroutine(result):
            result.close()  # else Python warns that it was never awaited
        raise SchemaError(
            f"{call}: the function returned {type(result).__name__}; return a pyarrow Table, a RecordBatch or a "
            "dictionary of columns"
        )
    types = {} if schema is None else {field.name: field.type for field in schema}
    columns = {}
    for name, values in result.items():
        if not isinstance(name, str):
            raise _no_columns(
                call, number, f"a column is named {name!r}; give columns text as names"
            )
        try:
            columns[name] = typed_array(_iterable(values), types.get(name))
        except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
            raise _not_of_type(call, number, name, types.get(name), values, error) from error
    try:
        return pa.table(columns)
    except (pa.ArrowException, TypeError) as error:
        raise _no_columns(call, number, str(error)) from error


def _iterable(values: object) -> object:
    """Returns values as they are; refuses a text, which would be a column of its characters, and a dictionary."""
    if isinstance(values, str | bytes | Mapping):
        raise TypeError("it is one value")
    return values


def _not_of_type(
    call: str, number: int, name: str, kind: pa.DataType | None, values: object, error: Exception
) -> SchemaError:
    if kind is not None:
        return SchemaError(
            f"{call}: batch {number} came back with values in {name!r} that are not {kind}: {error}"
        )
    of = f"{name!r} is {type(values).__name__}, of which no column can be made ({error})"
    return _no_columns(call, number, f"{of}; give a list or an array with a value for each row")


def _no_columns(call: str, number: int, why: str) -> SchemaError:
    of = f" of batch {number}" if number else ""
    return SchemaError(
        f"{call}: the function returned a dictionary{of} that is not one of columns: {why}"
    )


def conformed(
    table: pa.Table, schema: pa.Schema, number: int, call: str = "map_batches"
) -> pa.Table:
    """Returns the table if it is as expected of batch ``number``; ``call`` is the method that the user called.

    Most come with the schema itself, and need no look at each column. With such looks, a function that returns batches
    of 8 columns as they are spent a third of its time in them.
    """
    import pyarrow as pa

    if not table.schema.equals(schema, check_metadata=True):
        _check_types(table, schema, number, call)
        table = pa.Table.from_arrays(table.columns, schema=schema)
    for index in _never_null(schema):
        if table.column(index).null_count:
            name = schema.names[index]
            raise SchemaError(
                f"{call}: batch {number} came back with nulls in {name!r}, which the schema does not allow"
            )
    return table


def _check_types(table: pa.Table, schema: pa.Schema, number: int, call: str) -> None:
    if table.schema.names != schema.names or table.schema.types != schema.types:
        found, expected = differing(_columns(table.schema), _columns(schema))
        raise SchemaError(
            f"{call}: batch {number} came back with {found}; expected were {expected}"
        )


#: The numbers of a schema's columns that must have no nulls.
_never_null = BySchema(
    lambda schema: [number for number, field in enumerate(schema) if not field.nullable], 32
)


def _first_path(table: pa.Table) -> str | None:
    paths = table.column(PATH) if table.schema.names.count(PATH) == 1 else None
    path = paths[0].as_py() if paths else None
    return path if isinstance(path, str) else None


def _columns(schema: pa.Schema) -> list[str]:
    return [f"{field.name}: {field.type}" for field in schema]


def _name(function: Callable[..., object]) -> str:
    called = function.cls if isinstance(function, UserClass) else function
    return getattr(called, "__qualname__", None) or repr(function)
