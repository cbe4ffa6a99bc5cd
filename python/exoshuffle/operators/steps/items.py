"""Makes tables of what an iterable of users yields: rows as dictionaries, single values, or Arrow batches.

Guarantee: each row has exactly the values that were yielded, or there is an error that names the column. A key that a
row lacks is null there. Rows become tables of some megabytes, however many come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from exoshuffle.errors import SchemaError, shown
from exoshuffle.operators.steps.functions import conformed
from exoshuffle.operators.steps.glancing import glanced_bytes
from exoshuffle.operators.steps.values import typed_array

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows become a table when there are so many of them, or so many bytes as far as their values tell at a glance.
FIRST_ROWS, TABLE_BYTES, MOST_ROWS = 16, 4_000_000, 4096
#: Items by which a schema is learnt.
LEARNT_ITEMS = 16
#: The column of values that are no rows.
ITEM = "item"


def tables_of_items(call: str, items: Iterable[object], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows as tables of a schema; ``call`` is the method that the user called, for messages.

    Raises:
        SchemaError: A row has another column, or a value that its type cannot hold; a batch has another schema.
    """
    pending: list[Mapping[str, object]] = []
    number, most, pending_bytes = 1, FIRST_ROWS, 0
    for item in items:
        if _is_arrow(item):
            if pending:
                yield _table(call, pending, schema)
                pending, pending_bytes = [], 0
            yield conformed(_as_table(item), schema, number, call)
            number += 1
            continue
        row = _row(item)
        pending.append(row)
        pending_bytes += glanced_bytes(row)
        if len(pending) >= most or pending_bytes >= TABLE_BYTES:
            table = _table(call, pending, schema)
            pending, pending_bytes = [], 0
            most = max(1, min(MOST_ROWS, TABLE_BYTES * table.num_rows // max(1, table.nbytes)))
            del row, item  # for as long as somebody has the table
            yield table
            del table
    if pending:
        yield _table(call, pending, schema)


def first_items(items: Iterable[object]) -> list[object]:
    """Takes the items that a schema is learnt from: a few, and no more than are some megabytes."""
    first: list[object] = []
    num_bytes = 0
    for item in items:
        first.append(item)
        num_bytes += _as_table(item).nbytes if _is_arrow(item) else glanced_bytes(_row(item))
        if len(first) == LEARNT_ITEMS or num_bytes >= TABLE_BYTES:
            break
    return first


def schema_of_items(call: str, first: Sequence[object]) -> pa.Schema:
    """Returns the schema that the first items have.

    Raises:
        SchemaError: There is none, or values of a column have no type, or several.
    """
    import pyarrow as pa

    if not first:
        raise SchemaError(f"{call}: nothing was yielded, so there are no columns; give schema=")
    if _is_arrow(first[0]):
        return _as_table(first[0]).schema
    rows = [_row(item) for item in first if not _is_arrow(item)]
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.schema([(name, _type(call, name, [row.get(name) for row in rows])) for name in names])


def _type(call: str, name: str, values: list[object]) -> pa.DataType:
    import pyarrow as pa

    try:
        kind = typed_array(values, None).type
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise SchemaError(
            f"{call}: the first rows have values in {name!r} that have no type in common: {error}; give schema="
        ) from error
    if pa.types.is_null(kind):
        raise SchemaError(f"{call}: the first rows have nothing but None in {name!r}; give schema=")
    return kind


def _table(call: str, rows: list[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    names = set(schema.names)
    for row in rows:
        if not row.keys() <= names:
            other = min(row.keys() - names, key=str)
            raise SchemaError(
                f"{call}: a row has {shown(other)}, and the columns are {', '.join(schema.names)}; give schema= for "
                "others"
            )
    columns = []
    for field in schema:
        try:
            columns.append(typed_array([row.get(field.name) for row in rows], field.type))
        except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
            raise SchemaError(
                f"{call}: rows have values in {field.name!r} that are not {field.type}: {error}; give schema= for "
                "another type"
            ) from error
    return conformed(pa.Table.from_arrays(columns, names=schema.names), schema, 1, call)


def _row(item: object) -> Mapping[str, object]:
    return item if isinstance(item, Mapping) else {ITEM: item}


def _is_arrow(item: object) -> bool:
    return hasattr(item, "__arrow_c_stream__") or (
        hasattr(item, "__arrow_c_array__") and hasattr(item, "schema")
    )


def _as_table(item: Any) -> pa.Table:
    import pyarrow as pa

    return item if isinstance(item, pa.Table) else pa.table(item)
