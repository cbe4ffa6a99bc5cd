"""A call of a window function: its SQL, and the column that is made of what the SQL finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle.errors import InputError, SchemaError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.group_by.functions import result_type
from exoshuffle.operators.over.functions import WindowFunction
from exoshuffle.operators.sql.groups import Operands
from exoshuffle.operators.sql.relational import take_column

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class WindowCall:
    """One call of a window function.

    Attributes:
        name: The name of the new column.
        text: The call as SQL, for messages.
        function: The function.
        column: The column of its values; None for none.
        parameter: Its number or fraction as SQL; empty for none.
        default: The column of the values for rows that there are not; None for null.
        order: The order of the rows of a key.
        frame: The frame as SQL; empty for that of SQL.
        ignores_nulls: Whether nulls are no values.
    """

    name: str
    text: str
    function: WindowFunction
    column: str | None = None
    parameter: str = ""
    default: str | None = None
    order: tuple[SortKey, ...] = ()
    frame: str = ""
    ignores_nulls: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        named = (self.column, self.default, *(key.column for key in self.order))
        return tuple(name for name in named if name is not None)

    @property
    def is_of_key(self) -> bool:
        """Whether all rows of a key get one value, which an aggregate makes of them."""
        return self.function.is_aggregate and not self.order and not self.frame

    def sql(self, operands: Operands) -> str:
        """Returns it as a window function in SQL over the operands."""
        return self._filled_in(operands, *self._over(len(operands.keys)))

    def aggregate_sql(self, operands: Operands) -> str:
        """Returns it as an aggregate of a group in SQL over the operands; it must be of the key."""
        return self._filled_in(operands, "", "")

    def _filled_in(self, operands: Operands, over: str, inner: str) -> str:
        others = {f"k{index}": name for index, name in enumerate(operands.keys)}
        others |= {f"o{index}": key.column for index, key in enumerate(self.order)}
        row = "CASE WHEN {valid} THEN {number} END" if self.ignores_nulls else "{number}"
        template = self.function.sql
        for word, meaning in (
            ("{over}", over),
            ("{inner}", inner),
            ("{row}", row),
            ("{nulls}", "IGNORE NULLS" if self.ignores_nulls else ""),
            ("{beyond}", f"{{number}} + {operands.table.num_rows}" if self.default else "NULL"),
        ):
            template = template.replace(word, meaning)
        return operands.sql(template, self.column, self.parameter, others)

    def _over(self, num_keys: int) -> tuple[str, str]:
        """Returns the OVER clause, and the order within a function that needs one."""
        ordered = [
            f"{{o{index}}} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
            for index, key in enumerate(self.order)
        ]
        order = self.function.order
        if order == "rows" or (order == "frame" and self.frame.startswith("ROWS")):
            by, inner = [*ordered, "{number}"], ""
        else:
            by, inner = ordered, f"ORDER BY {', '.join([*ordered, '{number}'])}"
        keys = ", ".join(f"{{k{index}}}" for index in range(num_keys))
        parts = [
            f"PARTITION BY {keys}" if keys else "",
            f"ORDER BY {', '.join(by)}" if by else "",
            self.frame if order == "frame" else "",
        ]
        return f"OVER ({' '.join(filter(None, parts))})", inner

    def type(self, schema: pa.Schema) -> pa.DataType:
        """Returns the type of the new column."""
        import pyarrow as pa

        kind = pa.null() if self.column is None else schema.field(self.column).type
        return result_type(self.function.type, kind)

    def result(self, table: pa.Table, found: pa.ChunkedArray) -> pa.ChunkedArray:
        """Returns the new column.

        Raises:
            InputError: A value that its type cannot hold.
        """
        import pyarrow as pa

        kind = self.type(table.schema)
        try:
            if not self.function.is_choice:
                return _cast(found, kind)
            values = table[self.column]
            if self.default is not None:
                beyond = table[self.default].cast(kind)
                values = pa.chunked_array([*values.chunks, *beyond.chunks], kind)
            return take_column(values, found)
        except pa.ArrowNotImplementedError as error:
            raise SchemaError(f"window function {self.text!r} does not fit: {error}") from None
        except pa.ArrowInvalid as error:
            raise InputError(
                f"window function {self.text!r} makes a value that {kind} cannot hold, so cast its column to double "
                f"first: {error}"
            ) from None


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    import pyarrow as pa

    if pa.types.is_duration(kind):
        column = column.cast(pa.int64())
    column = column.cast(kind)
    if pa.types.is_decimal(kind):
        # DuckDB 1.5 lets a sum have one digit more than its type.
        column.validate(full=True)
    return column
