"""The steps that hand rows one by one to a user's function, which yields any number of rows for each, or keeps rows.

Guarantee: no more results are held than make a table of some megabytes, however many a function yields for one row. A
video may have more frames than memory has room for. Rows that are kept have the values that they had.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from exoshuffle.errors import Noted, OptionsError, SchemaError, differing, shown
from exoshuffle.futures.callables import check_not_async
from exoshuffle.futures.engine import note_function
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import array_of, no_rows
from exoshuffle.operators.batches import streamed
from exoshuffle.operators.sql.relational import take
from exoshuffle.operators.steps.functions import MapBatches, conformed
from exoshuffle.operators.steps.glancing import glanced_bytes
from exoshuffle.operators.steps.skipping import Notes, Origin, SkippingErrors
from exoshuffle.operators.steps.values import typed_array

if TYPE_CHECKING:
    import pyarrow as pa

#: Results become a table when there are so many of them, or by the size of those before, so many bytes. They do so
#: earlier if their values are that large at a glance. Without that, rows of 4 MB behind short ones were held 4,096 at
#: a time.
FIRST_ROWS, TABLE_BYTES, MOST_ROWS = 16, 4_000_000, 4096
#: Rows that are made Python objects at once.
READ_ROWS = 64
#: Rows, and results, by which the schema of a function is learnt; fewer, if they are that many bytes. Sixteen rows of
#: 10 MB had 470 MB resident within 300, and no end.
LEARNT_ROWS, LEARNT_BYTES = 16, 4_000_000

#: The place of a row, and the row that a function made of it.
Result = tuple[Origin, Mapping[str, object]]


@dataclass(frozen=True)
class FlatMap(MapBatches):
    """Hands each row, as a dictionary, to a function that returns rows, or yields them.

    Attributes:
        call: The method that the user called, for messages.
    """

    call: str = "flat_map"

    @property
    def first_rows(self) -> int:
        """The number of results in the first table; later ones go by the size of those before."""
        return FIRST_ROWS

    def check(self) -> None:
        """Raises ``OptionsError`` unless the function is one."""
        if not callable(self.function):
            raise OptionsError(f"{self.call} needs a function, and got {shown(self.function)}")
        check_not_async(self.call, self.function)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        schema = self.output_schema(batches.schema)
        notes = self.notes or Notes(self.name)
        results = self._results(batches, notes, schema.names)
        return streamed(schema, self._tables(results, notes, schema))

    def learnt_from(self, rows: pa.Table) -> pa.Schema:
        """Returns the schema of what the function makes of these rows; theirs, if it makes none.

        Columns keep their types where these hold the values. Others have the types that Arrow gives the values.

        Raises:
            SchemaError: The values of a column have no type, or several.
        """
        import pyarrow as pa

        results = self._results(rows.to_batches(), Notes(self.name), None)
        made = _first(results)
        if not made:
            return rows.schema
        fields = []
        for name in made[0]:
            values = [row.get(name) for row in made]
            index = rows.schema.get_field_index(name)
            if index >= 0 and _are(values, rows.schema.field(index).type):
                fields.append(rows.schema.field(index))
                continue
            try:
                kind = typed_array(values, None).type
            except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
                raise SchemaError(
                    f"{self.call}: the first rows came back with values in {name!r} that have no type in common: "
                    f"{error}; give schema="
                ) from error
            if pa.types.is_null(kind):
                raise SchemaError(
                    f"{self.call}: the first rows came back with nothing but None in {name!r}; give schema="
                )
            fields.append(pa.field(str(name), kind))
        return pa.schema(fields)

    def _results(
        self, batches: Iterable[pa.RecordBatch], notes: Notes, names: Sequence[str] | None
    ) -> Iterator[Result]:
        function = cast(
            "Callable[[dict[str, object]], Iterable[Mapping[str, object]]]", self.function
        )
        wanted = None if names is None else set(names)
        for row, origin, noted in _numbered_rows(self, batches, notes):
            with noted:
                for result in self._checked(function(row)):
                    if wanted is not None and result.keys() != wanted:
                        found, expected = differing([*map(str, result)], names or ())
                        raise SchemaError(
                            f"{self.call}: a row came back with {found}; expected were {expected}: give schema= for "
                            "others"
                        )
                    yield origin, result

    def _checked(self, results: object) -> Iterator[Mapping[str, object]]:
        if isinstance(results, Mapping | str | bytes) or not isinstance(results, Iterable):
            raise SchemaError(
                f"{self.call}: the function returned {type(results).__name__}; return a list of dictionaries, or yield "
                "them"
            )
        for result in results:
            if not isinstance(result, Mapping):
                raise SchemaError(
                    f"{self.call}: the function made {type(result).__name__} of a row; make dictionaries of columns"
                )
            yield result

    def _tables(
        self, results: Iterator[Result], notes: Notes, schema: pa.Schema
    ) -> Iterator[pa.Table]:
        make = self._table if self.on_error == "raise" else functools.partial(self._fitting, notes)
        pending: list[Result] = []
        number, most, pending_bytes = 1, self.first_rows, 0
        for result in results:
            pending.append(result)
            pending_bytes += glanced_bytes(result[1])
            if len(pending) >= most or pending_bytes >= TABLE_BYTES:
                table = make(pending, schema, number)
                pending, number, pending_bytes = [], number + 1, 0
                del result  # for as long as somebody has the table
                most = max(1, min(MOST_ROWS, TABLE_BYTES * table.num_rows // max(1, table.nbytes)))
                yield table
                del table
        if pending:
            yield make(pending, schema, number)

    def _fitting(
        self, notes: Notes, results: list[Result], schema: pa.Schema, number: int
    ) -> pa.Table:
        """Returns the table of the results that fit the schema; notes the others."""
        import pyarrow as pa

        try:
            return self._table(results, schema, number)
        except SchemaError:
            tables = [no_rows(schema)]
            for result in results:
                with SkippingErrors("skipped", notes, result[0]):
                    tables.append(self._table([result], schema, number))
            return pa.concat_tables(tables)

    def _table(self, results: list[Result], schema: pa.Schema, number: int) -> pa.Table:
        import pyarrow as pa

        columns = []
        for field in schema:
            values = [row[field.name] for _, row in results]
            try:
                columns.append(self._column(values, field))
            except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
                raise SchemaError(
                    f"{self.call}: rows came back with values in {field.name!r} that are not {field.type}: {error}; "
                    "give schema= for another type"
                ) from error
        return conformed(pa.table(columns, names=schema.names), schema, number)

    def _column(self, values: list[Any], field: pa.Field) -> pa.Array:
        return typed_array(values, field.type)


@dataclass(frozen=True)
class KeepRows(MapBatches):
    """Keeps the rows for which a function, which gets each as a dictionary, returns True."""

    def check(self) -> None:
        """Raises ``OptionsError`` unless the function can be called for a row."""
        check_not_async("filter", self.function)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        return streamed(batches.schema, self._kept(batches))

    def _kept(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        import pyarrow as pa

        notes = self.notes or Notes(self.name)
        for batch in batches:
            kept = []
            for number, (row, _, noted) in enumerate(_numbered_rows(self, [batch], notes)):
                with noted:
                    if self._answer(self.function(cast("Any", row))):
                        kept.append(number)
            yield take(pa.Table.from_batches([batch]), array_of(kept, pa.int64()))

    def _answer(self, answer: object) -> bool:
        # NumPy has a class of its own. None leaves a row out, as null does in SQL.
        if answer is None or isinstance(answer, bool) or type(answer).__name__ in ("bool", "bool_"):
            return bool(answer)
        raise SchemaError(
            f"filter: the function {self.name} returned {shown(answer)}; return True to keep a row, or False"
        )


def _first(results: Iterator[Result]) -> list[Mapping[str, object]]:
    """Takes the results that a schema is learnt from: a few, and no more than are some megabytes."""
    first: list[Mapping[str, object]] = []
    num_bytes = 0
    for _, result in results:
        first.append(result)
        num_bytes += glanced_bytes(result)
        if len(first) == LEARNT_ROWS or num_bytes >= LEARNT_BYTES:
            break
    return first


def _numbered_rows(
    step: MapBatches, batches: Iterable[pa.RecordBatch], notes: Notes
) -> Iterator[tuple[dict[str, object], Origin, Noted]]:
    """Yields rows as dictionaries, each with its origin, and what the call of the step's function is to be wrapped in.

    The notes have the number of rows that came before.
    """
    note_function(step.name)
    call = step.call if isinstance(step, FlatMap) else "filter"
    of = f" of {step.place}" if step.place else ""
    for batch in batches:
        for start in range(0, batch.num_rows, READ_ROWS):
            for row in batch.slice(start, READ_ROWS).to_pylist():
                notes.num_rows += 1
                origin = Origin.of_row(notes.num_rows, row)
                note = f"{call} called {step.name} with row number {notes.num_rows}{of}"
                skips = step.on_error == "skip"
                yield row, origin, SkippingErrors(note, notes, origin) if skips else Noted(note)


def _are(values: list[object], kind: pa.DataType) -> bool:
    """Whether a type holds the values as they are."""
    try:
        typed_array(values, kind)
    except (TypeError, ValueError, OverflowError, NotImplementedError):
        return False
    return True


def each_once(
    function: Callable[..., object],
) -> Callable[..., tuple[object]]:
    """Returns the function of ``flat_map`` that a function of ``map`` is."""

    def once(row: dict[str, object], *args: object, **kwargs: object) -> tuple[object]:
        return (function(row, *args, **kwargs),)

    once.__qualname__ = getattr(function, "__qualname__", None) or repr(function)
    return once
