"""The step that leaves out rows with a null in any of many columns, without a condition in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batches import chunks_of, picked, streamed
from exoshuffle.operators.kernels import call
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
    """Whether these columns are many, and Arrow counts their nulls as DuckDB does."""
    if len(names) <= MOST_CONDITIONS:
        return False
    types = dict(zip(schema.names, schema.types, strict=True))
    return all(_counts_nulls(types[name]) for name in names)


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
