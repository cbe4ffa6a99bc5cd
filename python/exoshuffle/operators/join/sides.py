"""The work of the maps of both sides of a join, so that rows with equal keys meet.

Guarantee: keys that are equal in their common type hash alike on both sides. A side with a key of another type gets a
hidden column with the key in the common type. No other column has its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batches import streamed, tables_of
from exoshuffle.operators.join.keys import JoinKey, cast_key, hashes_alike
from exoshuffle.operators.steps.step import Step, steps_schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class KeyColumns(Step):
    """The step that adds key columns in their common type.

    Attributes:
        columns: Name and type of each, and the column that it is made from.
    """

    columns: tuple[tuple[str, pa.DataType, str], ...]

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        import pyarrow as pa

        for name, kind, _ in self.columns:
            schema = schema.append(pa.field(name, kind))
        return schema

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        sources = needed.union(source for _, _, source in self.columns)
        return sources.intersection(schema.names)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``. Cost: writes the new columns."""
        return streamed(self.output_schema(batches.schema), map(self._added, tables_of(batches)))

    def _added(self, table: pa.Table) -> pa.Table:
        for name, kind, source in self.columns:
            table = table.append_column(name, cast_key(table.column(source), kind))
        return table


class JoinSide(NamedTuple):
    """The work of the maps of one side.

    Attributes:
        schema: The schema of the rows after the steps.
        steps: The steps before rows are dealt out.
        keys: Columns by whose hash rows are dealt out; as many on both sides, in the same order.
    """

    schema: pa.Schema
    steps: tuple[Step, ...]
    keys: tuple[str, ...]


def join_sides(
    left: pa.Schema, right: pa.Schema, keys: Sequence[JoinKey], right_steps: tuple[Step, ...]
) -> tuple[JoinSide, JoinSide]:
    """Returns the two sides of a join of these schemas; ``right_steps`` come first on the right side."""
    prefix = _unused_prefix([*left.names, *right.names])
    columns = [(f"{prefix}{number}", key.type) for number, key in enumerate(keys)]
    return (
        _side(left, (), [(*made, key.left) for made, key in zip(columns, keys, strict=True)]),
        _side(
            right,
            right_steps,
            [(*made, key.right) for made, key in zip(columns, keys, strict=True)],
        ),
    )


def _side(
    schema: pa.Schema,
    steps: tuple[Step, ...],
    columns: Sequence[tuple[str, pa.DataType, str]],
) -> JoinSide:
    """Returns a side with its keys. ``columns`` has name and type of a key in the common type, and its own column."""
    added = tuple(made for made in columns if not hashes_alike(schema.field(made[2]).type, made[1]))
    if added:  # without steps, one native call reads and scatters a side
        steps = (*steps, KeyColumns(added))
    keys = [made[0] if made in added else made[2] for made in columns]
    return JoinSide(steps_schema(steps, schema), steps, tuple(keys))


def _unused_prefix(names: Sequence[str]) -> str:
    prefix = "join_key_"
    while any(name.startswith(prefix) for name in names):
        prefix = "_" + prefix
    return prefix
