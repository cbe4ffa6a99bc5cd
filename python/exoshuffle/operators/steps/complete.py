"""The step that leaves out rows with a null in any of many columns, without a condition in SQL.

It also looks at columns that no condition can name, as those of decimals that are too long for DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from exoshuffle.errors import SchemaError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import no_rows
from exoshuffle.operators.batches import chunks_of, picked, streamed
from exoshuffle.operators.kernels import call
from exoshuffle.operators.sql.relational import is_common, storable
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

#: A condition on so many columns or fewer is SQL. It can be asked of files, and be a part of a query of DuckDB. Writing
#: 3,000 columns without nulls took 4.6 s of CPU so, most of it for understanding the text, and takes 1.4.
MOST_CONDITIONS = 64


@dataclass(frozen=True)
class Complete(Step):
    """Keeps rows that have a value in each of some columns.

    Attributes:
        columns: Their names.
    """

    columns: tuple[str, ...]

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        return schema

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del schema
        return needed | frozenset(self.columns)

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        return dict(names)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""

        def kept() -> Iterator[pa.Table]:
            for table in chunks_of(batches):
                mask = _complete(table, self.columns)
                yield table if mask is None else picked(table, mask)

        return streamed(batches.schema, kept())


def suits(schema: pa.Schema, names: tuple[str, ...]) -> bool:
    """Whether these columns are many or one is not for SQL, and Arrow counts their nulls as DuckDB does."""
    types = dict(zip(schema.names, schema.types, strict=True))
    kinds = [types[name] for name in names]
    if len(names) <= MOST_CONDITIONS and all(map(_is_for_sql, kinds)):
        return False
    return all(map(_counts_nulls, kinds))


def _is_for_sql(kind: pa.DataType) -> bool:
    """Whether DuckDB has a form of a type."""
    if is_common(kind):
        return True
    import pyarrow as pa

    try:
        storable(no_rows(pa.schema([("x", kind)])))
    except SchemaError:
        return False
    return True


def _counts_nulls(kind: pa.DataType) -> bool:
    """Whether each null is marked in the array itself: a dictionary or a run may have one among its values."""
    import pyarrow as pa

    types = pa.types
    return not (types.is_dictionary(kind) or types.is_union(kind) or types.is_run_end_encoded(kind))


def _complete(table: pa.Table, names: tuple[str, ...]) -> Any:
    """Returns which rows have values in all of these columns; None if all have."""
    mask = None
    for name in names:
        values = table.column(name)
        if values.null_count:
            valid = call("is_valid", values)
            mask = valid if mask is None else call("and", mask, valid)
    return mask
