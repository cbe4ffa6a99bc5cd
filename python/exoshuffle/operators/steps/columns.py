"""Steps that SQL expressions describe: select, with_columns, filter, drop, rename; and steps on schemas.

Guarantee: columns that are only passed through keep their exact type. They are not copied, except by a filter, which
copies what it keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from exoshuffle.arguments import repeated
from exoshuffle.errors import SchemaError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batches import chunks_of, picked, streamed, tables_of
from exoshuffle.operators.sql.evaluation import evaluated
from exoshuffle.operators.sql.parsing import (
    all_columns,
    column,
    columns_named,
    parse_expression,
    parse_expressions,
)
from exoshuffle.operators.sql.types import Expression
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Select(Step):
    """Keeps columns and adds computed ones, in this order.

    Attributes:
        columns: Names of columns to keep.
        expressions: Names and SQL expressions of new ones.
    """

    columns: tuple[str, ...]
    expressions: tuple[tuple[str, str], ...] = ()

    @property
    def keeps_each(self) -> bool:
        """See ``Step``."""
        return True

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        return _schema_of(self._parsed(schema), schema)

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``: everything that it selects."""
        del needed
        return frozenset(
            name for expression in self._parsed(schema).values() for name in expression.columns
        )

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        computed = {name for name, _ in self.expressions}
        return {name: own for name, own in names.items() if own not in computed}

    def kept_columns(self, schema: pa.Schema) -> tuple[str, ...] | None:
        """See ``Step``."""
        del schema
        return None if self.expressions else self.columns

    def carrying(self, column: str) -> Select:
        """See ``Step``."""
        return replace(self, columns=(*self.columns, column))

    @property
    def keeps_all(self) -> bool:
        """See ``Step``."""
        return True

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        return _computed(self._parsed(batches.schema), batches)

    def computed(self, schema: pa.Schema) -> Mapping[str, Expression]:
        """See ``Step``."""
        return self._parsed(schema)

    def _parsed(self, schema: pa.Schema) -> dict[str, Expression]:
        names = [*self.columns, *(name for name, _ in self.expressions)]
        if not names:
            raise SchemaError("select needs at least one column")
        _refuse_duplicates("select", names)
        return columns_named(self.columns, schema) | _of(self.expressions, schema)


def _of(expressions: Sequence[tuple[str, str]], schema: pa.Schema) -> dict[str, Expression]:
    """Returns expressions by name; the last one of a name."""
    named = dict(expressions)
    return dict(zip(named, parse_expressions(named.values(), schema), strict=True))


@dataclass(frozen=True)
class WithColumns(Step):
    """Adds computed columns at the end, or replaces columns of these names where they are.

    All expressions see the columns as they were before.

    Attributes:
        expressions: Names and SQL expressions.
    """

    expressions: tuple[tuple[str, str], ...]

    @property
    def keeps_each(self) -> bool:
        """See ``Step``."""
        return True

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        return _schema_of(self._parsed(schema), schema)

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``: replaced columns are needed, too, since they hold the place of the new ones."""
        read = needed.union(*(each.columns for each in _of(self.expressions, schema).values()))
        return read.intersection(schema.names)

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        computed = {name for name, _ in self.expressions}
        return {name: own for name, own in names.items() if own not in computed}

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        return _computed(self._parsed(batches.schema), batches)

    def computed(self, schema: pa.Schema) -> Mapping[str, Expression]:
        """See ``Step``."""
        return self._parsed(schema)

    def _parsed(self, schema: pa.Schema) -> dict[str, Expression]:
        _refuse_duplicates("with_columns", [name for name, _ in self.expressions])
        return dict(all_columns(schema)) | _of(self.expressions, schema)


@dataclass(frozen=True)
class Filter(Step):
    """Keeps rows for which a condition is true; null is not. Where it is true of all rows, nothing is copied.

    Attributes:
        condition: An SQL expression that is true or false.
    """

    condition: str

    @property
    def condition_sql(self) -> str:
        """See ``Step``."""
        return self.condition

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        self._parsed(schema)
        return schema

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        return needed | frozenset(self._parsed(schema).columns)

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        return dict(names)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        condition = self._parsed(batches.schema)

        def kept() -> Iterator[pa.Table]:
            for table in chunks_of(batches):
                for rows, [mask] in evaluated((condition,), table):
                    yield picked(rows, mask)

        return streamed(batches.schema, kept())

    def computed(self, schema: pa.Schema) -> Mapping[str, Expression]:
        """See ``Step``."""
        return all_columns(schema)

    def _parsed(self, schema: pa.Schema) -> Expression:
        import pyarrow as pa

        condition = parse_expression(self.condition, schema)
        if not pa.types.is_boolean(condition.type):
            raise SchemaError(
                f"filter {self.condition!r} is {condition.type}; it must be true or false, so compare it with something"
            )
        return condition


class _Passing(Step):
    """A step that only passes columns on, under their names."""

    @property
    def keeps_each(self) -> bool:
        """See ``Step``."""
        return True

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del schema
        return needed

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        return dict(names)

    @property
    def keeps_all(self) -> bool:
        """See ``Step``."""
        return True


@dataclass(frozen=True)
class Nullable(_Passing):
    """Lets columns have nulls, so that their rows fit to those of another dataset that has some.

    Attributes:
        columns: Their names.
    """

    columns: tuple[str, ...]

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        import pyarrow as pa

        fields = [
            field.with_nullable(True) if field.name in self.columns else field for field in schema
        ]
        return pa.schema(fields, schema.metadata)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        import pyarrow as pa

        schema = self.output_schema(batches.schema)
        tables = tables_of(batches)
        return streamed(
            schema, (pa.Table.from_arrays(table.columns, schema=schema) for table in tables)
        )

    def computed(self, schema: pa.Schema) -> Mapping[str, Expression]:
        """See ``Step``."""
        return all_columns(schema)


@dataclass(frozen=True)
class Drop(_Passing):
    """Leaves columns out.

    Attributes:
        columns: Their names.
    """

    columns: tuple[str, ...]

    @property
    def dropped(self) -> tuple[str, ...]:
        """See ``Step``."""
        return self.columns

    def kept_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """See ``Step``."""
        return tuple(self._without(schema).names)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        for name in self.columns:
            column(name, schema)
        if set(self.columns) >= set(schema.names):
            raise SchemaError("drop leaves no column; keep at least one")
        return self._without(schema)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        schema = self._without(batches.schema)
        return streamed(schema, (table.select(schema.names) for table in tables_of(batches)))

    def computed(self, schema: pa.Schema) -> Mapping[str, Expression]:
        """See ``Step``."""
        return columns_named(self._without(schema).names, schema)

    def _without(self, schema: pa.Schema) -> pa.Schema:
        import pyarrow as pa

        kept = [field for field in schema if field.name not in self.columns]
        return pa.schema(kept, schema.metadata)


@dataclass(frozen=True)
class Rename(Step):
    """Gives columns other names.

    Attributes:
        names: Old and new name of each.
    """

    names: tuple[tuple[str, str], ...]

    @property
    def keeps_each(self) -> bool:
        """See ``Step``."""
        return True

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

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        old = {new: old for old, new in self.names}
        return {name: old.get(own, own) for name, own in names.items()}

    @property
    def keeps_all(self) -> bool:
        """See ``Step``."""
        return True

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        schema = self._renamed(batches.schema)
        return streamed(
            schema, (table.rename_columns(schema.names) for table in tables_of(batches))
        )

    def computed(self, schema: pa.Schema) -> Mapping[str, Expression]:
        """See ``Step``."""
        names = dict(self.names)
        return {names.get(name, name): kept for name, kept in all_columns(schema).items()}

    def _renamed(self, schema: pa.Schema) -> pa.Schema:
        import pyarrow as pa

        names = dict(self.names)
        fields = [field.with_name(names.get(field.name, field.name)) for field in schema]
        return pa.schema(fields, schema.metadata)


def _schema_of(parsed: Mapping[str, Expression], schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    fields = []
    for name, expression in parsed.items():
        if not expression.is_column:
            fields.append(pa.field(name, expression.type))
            continue
        field = schema.field(expression.text)
        fields.append(field if expression.text == name else field.with_name(name))
    return pa.schema(fields, schema.metadata)


def _computed(
    parsed: Mapping[str, Expression], batches: pa.RecordBatchReader
) -> pa.RecordBatchReader:
    import pyarrow as pa

    schema = _schema_of(parsed, batches.schema)
    expressions = tuple(parsed.values())
    made = (
        pa.Table.from_arrays(values, schema=schema)
        for table in chunks_of(batches)
        for _, values in evaluated(expressions, table)
    )
    return streamed(schema, made)


def _refuse_duplicates(operation: str, names: Sequence[str]) -> None:
    twice = sorted(repeated(names))
    if twice:
        raise SchemaError(
            f"{operation} would give two columns the name {twice[0]!r}; names must differ"
        )
