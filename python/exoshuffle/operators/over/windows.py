"""Computes window functions of a partition of whole keys.

Guarantee: all rows stay, in input order, with their columns as they were; each function adds one column. Values that
are only chosen keep their type. Rows of equal order values count in input order, wherever their order matters, so
results do not depend on how the input was split. Keys and order values are equal as in ``sql.groups``.

Cost: see ``Windows.cost``.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING

from exoshuffle.errors import ExoshuffleError, InputError, SchemaError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import no_rows
from exoshuffle.operators.group_by.functions import accepts
from exoshuffle.operators.over import by_arrow
from exoshuffle.operators.over.calls import WindowCall
from exoshuffle.operators.over.functions import FUNCTIONS
from exoshuffle.operators.sql.groups import MOST_KEYS, Operands, repeats
from exoshuffle.operators.sql.relational import first_line, in_row_order, plain_type
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

#: Memory beside the rows, in one key. It was measured with a million rows of three numbers, and with 200,000 rows of
#: two texts of 200 bytes. A number of rows took 117 bytes per row, a median or a value that was chosen 160. Three
#: functions took 210, three orders 412, and a count of different values 370. Texts that are read are copied once for a
#: sort (138 % of the rows) and once for each function that chooses among them (242 %). To find the least, they are
#: copied twice (447 %).
SORT_ROW_BYTES, CALL_ROW_BYTES, DISTINCT_ROW_BYTES = 100, 50, 280
ROW_PERCENT, TEXT_PERCENT, CHOICE_PERCENT, LEAST_PERCENT = 50, 100, 100, 200


@dataclass(frozen=True)
class Windows(Step):
    """The step that adds a column for each call; all rows of a key must be in the partition.

    Attributes:
        keys: The columns whose values are equal for rows that see each other.
        calls: The calls.
    """

    keys: tuple[str, ...]
    calls: tuple[WindowCall, ...]

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the new columns."""
        return frozenset(call.name for call in self.calls)

    def cost(self, schema: pa.Schema) -> tuple[int, int]:
        """Memory beside rows of this schema: a share of them in percent, and bytes per row."""
        read = {*self.keys, *(name for call in self.calls for name in call.columns)}
        texts = {name for name in read if not _is_number(schema.field(name).type)}
        chosen = [
            call.function for call in self.calls if call.function.is_choice and call.column in texts
        ]
        percent = ROW_PERCENT + TEXT_PERCENT * bool(texts) + CHOICE_PERCENT * len(chosen)
        percent += LEAST_PERCENT * any(function.compares for function in chosen)
        num_orders = len({(call.order, call.function.order) for call in self.calls})
        row_bytes = SORT_ROW_BYTES * num_orders + CALL_ROW_BYTES * len(self.calls)
        counts = any(call.function == FUNCTIONS["count_distinct"] for call in self.calls)
        return percent, row_bytes + DISTINCT_ROW_BYTES * counts

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        import pyarrow as pa

        made = [pa.field(call.name, call.type(schema)) for call in self.calls]
        return pa.schema([*schema, *made], schema.metadata)

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del schema
        read = [name for call in self.calls for name in call.columns]
        return frozenset((*(needed - self.names), *self.keys, *read))

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        return self.added(batches.read_all()).to_reader()

    def added(self, table: pa.Table) -> pa.Table:
        """Returns the rows with the new columns.

        Raises:
            InputError: A value that cannot be computed, or that its type cannot hold.
            SchemaError: A call that does not fit the types of its columns.
        """
        import pyarrow as pa

        try:
            results = by_arrow.found(table, self.keys, self.calls) or self._by_query(table)
        except ExoshuffleError:
            raise
        except Exception as error:  # noqa: BLE001  DuckDB's, which only databases.py may import
            raise self._failed(table, error) from None
        columns = [
            call.result(table, results[f"r{index}"]) for index, call in enumerate(self.calls)
        ]
        return pa.table([*table.columns, *columns], schema=self.output_schema(table.schema))

    def _by_query(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        operands = Operands(table, self.keys)
        results = in_row_order(operands.computed(self.query(operands)), "number")
        return dict(zip(results.column_names, results.columns, strict=True))

    def query(self, operands: Operands) -> str:
        """Returns a query: every row's number as ``number``, and the calls as ``r0``, ``r1`` ….

        One value of a key is made once, and joined to its rows. DuckDB 1.5 sorts all rows for a window function. For
        sums of 2 million rows by 1,000 keys that took 0.25 s, and a group and a join take 0.07 s. If most keys are
        single, the join saves a third of the time, and may take more memory than ``cost`` says. So do very many keys.
        """
        called = {f"r{index}": call for index, call in enumerate(self.calls)}
        of_key = {name: call for name, call in called.items() if call.is_of_key}
        is_narrow = len(self.keys) <= MOST_KEYS
        if not of_key or not is_narrow or not repeats(operands.table, operands.keys):
            return operands.each(call.sql(operands) for call in self.calls)
        each = [name if name in of_key else call.sql(operands) for name, call in called.items()]
        return operands.each(
            each, {name: call.aggregate_sql(operands) for name, call in of_key.items()}
        )

    def _failed(self, table: pa.Table, error: Exception) -> ExoshuffleError:
        """Returns the error about the first call that fails, or about all."""
        texts = ", ".join(repr(call.text) for call in self.calls)
        if len(self.calls) > 1:
            for call in self.calls:
                try:
                    dataclasses.replace(self, calls=(call,)).added(table)
                except ExoshuffleError as found:
                    return found
        kind = InputError if table.num_rows else SchemaError
        # DuckDB's own advice, which comes next, is about SQL that users did not write.
        reason = first_line(error).partition(". ")[0]
        return kind(
            f"cannot compute the window function {texts}: {reason}; cast its columns first, or choose another frame"
        )


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def check_call(call: WindowCall, keys: tuple[str, ...], schema: pa.Schema) -> None:
    """Raises ``SchemaError`` unless the types of its columns fit; DuckDB is asked about no rows."""
    function = call.function
    if call.column is not None:
        kind = schema.field(call.column).type
        if not accepts(function.takes, kind):
            raise SchemaError(
                f"window function {call.text!r} is asked of column {call.column!r}, which is {plain_type(kind)}, and "
                f"it takes {function.takes}; cast the column or choose another function"
            )
    Windows(keys, (call,)).added(no_rows(schema))
