"""``Columns``: further operations on columns, and the names by which other libraries know those of ``Narrow``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.applying import Dataset
from exoshuffle.dataset.arguments_elsewhere import refuse_arguments
from exoshuffle.dataset.inputs.column_types import ColumnTypes, schema_of_types
from exoshuffle.dataset.narrow import Narrow
from exoshuffle.dataset.tree.unified import to_common_type
from exoshuffle.errors import OptionsError, shown
from exoshuffle.operators.core.keys import names_of, once
from exoshuffle.operators.sql.expressions import Expr, col
from exoshuffle.operators.sql.kinds import column_kind
from exoshuffle.operators.sql.parsing import column
from exoshuffle.operators.steps.cast import Cast
from exoshuffle.operators.steps.columns import Filter, WithColumns
from exoshuffle.operators.steps.complete import Complete, suits
from exoshuffle.operators.steps.explode import Explode
from exoshuffle.operators.steps.nulls import fill_null
from exoshuffle.operators.steps.unpivot import Unpivot

if TYPE_CHECKING:
    import pyarrow as pa


class Columns(Narrow[Dataset]):
    """A dataset's columns: their types, nulls and lists."""

    def with_column(self, name: str, expression: str | Expr) -> Dataset:
        """Adds a column, or replaces it: ``with_columns`` for one, whose name may be any text."""
        return self.with_columns(**{name: expression})

    def cast(self, types: ColumnTypes) -> Dataset:
        """Gives columns other types; ``astype`` is the same.

        Args:
            types: Types by name: a dictionary of pyarrow types or of names (``"int32"``, ``"text"``,
                ``"decimal(10,2)"``), of ``int``, ``float``, ``str`` and ``bool``, or a pyarrow schema. Other columns
                stay.

        Text of other values is that of expressions: 3.0 becomes ``3.0``. Bytes become the text that they are.

        Raises:
            OptionsError: A type is none.
            SchemaError: An unknown column; later, a type that no cast leads to.
            InputError: While running: a value that the type cannot hold exactly. Numbers become the nearest float.

        Cost: a copy of these columns.
        """
        wanted = schema_of_types(types)
        for name in wanted.names:
            column(name, self.schema)
        kinds = {field.name: (self.schema.field(field.name).type, field.type) for field in wanted}
        texts = tuple(
            (name, col(name).cast("text").text) for name, pair in kinds.items() if _is_told(*pair)
        )
        told = [WithColumns(texts)] if texts else []
        return self._stepped(*told, Cast(tuple((field.name, field.type) for field in wanted)))

    def fill_null(self, value: object = None, **others: object) -> Dataset:
        """Puts a value in the place of nulls; ``fillna`` is the same. Types stay; NaN is no null.

        Args:
            value: One value, for all columns of its kind (numbers that hold it, text, truth values, moments). Or a
                dictionary of values by column.
            **others: None; arguments of pandas and Polars are refused with what to write instead.

        Raises:
            OptionsError: The value fits no column.
            SchemaError: An unknown column, or a value that its column cannot hold.
        """
        refuse_arguments("fill_null", others)
        return self._stepped(fill_null(value, self.schema))

    def drop_nulls(self, subset: str | Sequence[str] | None = None) -> Dataset:
        """Leaves out rows that have a null; NaN is no null. ``dropna`` has the arguments of pandas.

        Args:
            subset: The columns that count; default: all.

        Raises:
            SchemaError: An unknown column.
        """
        names = self._existing(subset)
        if suits(self.schema, names):
            return self._stepped(Complete(names))
        return self._stepped(Filter(" AND ".join(_present(names))))

    def explode(self, column: str) -> Dataset:
        """Makes a row of each value of a list, with the other columns repeated. Empty lists and nulls make null.

        Raises:
            OptionsError: Several columns, or something else than a name.
            SchemaError: An unknown column, or one that has no lists.
        """
        names = names_of(column, "column")
        if len(names) != 1:
            raise OptionsError(
                f"explode takes one column, and got {shown(column)}; explode them one after the other"
            )
        return self._stepped(Explode(names[0]))

    def unpivot(
        self,
        on: str | Sequence[str] | None = None,
        *,
        index: str | Sequence[str] | None = None,
        variable_name: str = "variable",
        value_name: str = "value",
    ) -> Dataset:
        """Makes a row for each value of some columns, with the name of its column; ``melt`` has pandas' arguments.

        Values of one column of neighbouring rows come together.

        Args:
            on: The columns whose values become rows; default: all that are not in ``index``. If their types differ, the
                result has the type that holds the values of all: see "Types that meet" in docs/formats.md.
            index: The columns that are repeated beside each value; default: none.
            variable_name: The name of the column that has the names.
            value_name: The name of the column that has the values.

        Raises:
            OptionsError: Something else than names.
            SchemaError: An unknown column, columns without a common type, no column, or two of one name.
        """
        for option, name in (("variable_name", variable_name), ("value_name", value_name)):
            if not isinstance(name, str):
                raise OptionsError(f"{option} is {shown(name)}; give the name of a column as text")
        kept = () if index is None else once(names_of(index, "index"))
        if on is None:
            made = tuple(name for name in self.schema.names if name not in kept)
        else:
            made = once(names_of(on, "on"))
        for name in made:
            column(name, self.schema)
        step = Unpivot(made, kept, variable_name, value_name)
        types = to_common_type(self.schema, made)
        casts = (Cast(tuple(types.items())),) if types else ()
        return self._stepped(*casts, step)

    def melt(
        self,
        id_vars: str | Sequence[str] | None = None,
        value_vars: str | Sequence[str] | None = None,
        var_name: str = "variable",
        value_name: str = "value",
    ) -> Dataset:
        """Does as ``unpivot``, with the arguments of pandas."""
        return self.unpivot(
            value_vars, index=id_vars, variable_name=var_name, value_name=value_name
        )

    def dropna(self, subset: str | Sequence[str] | None = None, *, how: str = "any") -> Dataset:
        """Does as ``drop_nulls``; with ``how="all"``, leaves out only rows where all values are null.

        Raises:
            OptionsError: ``how`` is another word.
            SchemaError: An unknown column.
        """
        if how == "any":
            return self.drop_nulls(subset)
        if how != "all":
            raise OptionsError(f'how is {shown(how)}; write "any" or "all"')
        return self._stepped(Filter(" OR ".join(_present(self._existing(subset)))))

    def _existing(self, subset: str | Sequence[str] | None) -> tuple[str, ...]:
        """Returns the names of these columns; all for None."""
        schema = self.schema
        names = schema.names if subset is None else names_of(subset, "subset")
        for name in names:
            column(name, schema)
        return tuple(names)

    where = Narrow.filter
    astype = cast
    fillna = fill_null


def _is_told(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Returns whether values become text that were neither text nor bytes."""
    import pyarrow as pa

    has_words = column_kind(kind) in ("text", "bytes") or pa.types.is_null(kind)
    return column_kind(wanted) == "text" and not has_words


def _present(names: Sequence[str]) -> list[str]:
    """Returns conditions that hold where these columns are not null."""
    return [col(name).is_not_null().text for name in names]
