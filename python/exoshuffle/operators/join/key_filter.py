"""Leaves out rows of one side of a join whose keys the other side surely does not have, before they are sent.

Guarantee: no row that matches is left out. The keys of the other side are in a filter of bits (``_native.key_filter``),
which denies none of them and lets 0.4 % of other keys pass. Keys are compared in their common type, by the hash that
brings them together. So −0.0 and 0.0 are one, all NaNs are one, and widths and layouts do not matter. Rows whose key is
null match nothing, and may go.

Why it may give up: where most rows match, marking them costs 10 ns a row for nothing. So a task that has kept most of
its first rows passes on the others as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batches import chunks_of, picked, streamed
from exoshuffle.operators.core.streams import as_reader
from exoshuffle.operators.join.keys import JoinKey, cast_key
from exoshuffle.operators.kernels import call
from exoshuffle.operators.sql.literals import literal, quoted
from exoshuffle.operators.sql.spreads import MOST_LISTED
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

LEFT, RIGHT = 0, 1
#: Sides whose rows are in the result only if they match, so that others may be left out before.
FILTERED_SIDES = {
    "inner": (LEFT, RIGHT),
    "left": (RIGHT,),
    "right": (LEFT,),
    "full": (),
    "semi": (LEFT, RIGHT),
    "anti": (RIGHT,),
    "cross": (),
}
#: A filter has so many bytes for each row of the side that it is made of, and no more than these in all.
BYTES_PER_ROW = 2
MOST_FILTER_BYTES = 4_000_000
#: So many rows are looked at for different keys, of which a condition lists few.
FEW_ROWS = 10_000
#: Longer text is no bound in a condition.
MOST_TEXT = 200
#: Where more than this share of the rows has been kept, the others are not looked at.
MOST_KEPT = 0.7


@dataclass(frozen=True)
class KeyFilter(Step):
    """Keeps the rows whose keys another side may have; all, where it keeps most.

    Attributes:
        columns: The key columns, each with the type in which it is compared.
        bits: The bits that ``_native.key_filter`` made of the keys of the other side.
    """

    columns: tuple[tuple[str, pa.DataType], ...]
    bits: bytes

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        return schema

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del schema
        return needed.union(name for name, _ in self.columns)

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        return dict(names)

    @property
    def declared_bytes(self) -> int:
        """See ``Step``. Every task counts the filter, although those of one process share it."""
        return len(self.bits)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``. Cost: 10 ns for each row, and a copy of the rows that stay."""

        def kept() -> Iterator[pa.Table]:
            num_read = num_kept = 0
            for table in chunks_of(batches):
                if num_kept > MOST_KEPT * num_read:
                    yield table
                    continue
                found = picked(table, self.marks(table))
                num_read += table.num_rows
                num_kept += found.num_rows
                yield found

        return streamed(batches.schema, kept())

    def marks(self, table: pa.Table) -> pa.BooleanArray:
        """Says for each row whether the other side may have its keys."""
        import pyarrow as pa

        bits = _native.key_marks(keys_of(table, self.columns), self.bits)
        return pa.BooleanArray.from_buffers(pa.bool_(), table.num_rows, [None, pa.py_buffer(bits)])


def keys_of(table: pa.Table, columns: Sequence[tuple[str, pa.DataType]]) -> pa.Table:
    """Returns the key columns of rows in the types in which they are compared."""
    import pyarrow as pa

    keys = [cast_key(table.column(name), kind) for name, kind in columns]
    return pa.table(keys, names=[str(number) for number in range(len(keys))])


def key_columns(keys: Sequence[JoinKey], side: int) -> tuple[tuple[str, pa.DataType], ...]:
    """Returns the key columns of a side, each with the type in which it is compared."""
    return tuple((key.left if side == LEFT else key.right, key.type) for key in keys)


def filter_of_keys(
    columns: Sequence[tuple[str, pa.DataType]], names: Sequence[str], blocks: Sequence[Buffer]
) -> tuple[bytes, str | None]:
    """Task: returns the filter of the keys that blocks in the store have, and a condition that is true of them.

    Args:
        columns: The key columns of the blocks, each with the type in which it is compared.
        names: Their names in the condition.
        blocks: The blocks.
    """
    import pyarrow as pa

    nothing = pa.table(
        [pa.array([], kind) for _, kind in columns], [str(n) for n in range(len(columns))]
    )
    read = (as_reader(_native.Rows.from_ipc(block)).read_all() for block in blocks)
    keys = pa.concat_tables([nothing, *(keys_of(table, columns) for table in read)])
    num_bytes = max(64, min(BYTES_PER_ROW * keys.num_rows, MOST_FILTER_BYTES))
    return _native.key_filter(keys, num_bytes), condition_of_keys(keys, names)


def condition_of_keys(keys: pa.Table, names: Sequence[str]) -> str | None:
    """Returns SQL that is true of rows whose columns of these names have one of the keys; None if nothing is known."""
    conditions = [
        found
        for name, values in zip(names, keys.columns, strict=True)
        for found in (_condition(quoted(name), values),)
        if found is not None
    ]
    return " AND ".join(conditions) or None


def _condition(name: str, values: pa.ChunkedArray) -> str | None:
    """Returns SQL that is true of the values of a column; None for types that files tell no bounds of."""
    import pyarrow as pa

    types = pa.types
    is_bounded = (
        types.is_integer(values.type)
        or types.is_decimal128(values.type)
        or types.is_date32(values.type)
        or types.is_string(values.type)
        or types.is_large_string(values.type)
    )
    if not is_bounded or values.null_count == len(values):
        return None
    different = call("unique", call("drop_null", values.slice(0, FEW_ROWS)))
    if len(values) <= FEW_ROWS and len(different) <= MOST_LISTED:
        texts = [_literal(value) for value in different.to_pylist()]
        found = f"{name} IN ({', '.join(map(str, texts))})"
    else:
        bounds = call("min_max", values)
        texts = [_literal(bounds[end].as_py()) for end in ("min", "max")]
        found = f"{name} BETWEEN {texts[0]} AND {texts[1]}"
    return None if None in texts else found


def _literal(value: object) -> str | None:
    """Returns a value as SQL; None for long text."""
    return None if isinstance(value, str) and len(value) > MOST_TEXT else literal(value)
