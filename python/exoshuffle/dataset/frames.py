"""``Frames``: brackets, and names by which users of pandas and Ray Data know operations that need no shuffle.

Each is one of ours under another name or with other arguments. A call that means something else here is refused by a
sentence that says what to write (``elsewhere``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, overload

from exoshuffle.dataset.applying import Dataset
from exoshuffle.dataset.columns import Columns
from exoshuffle.dataset.elsewhere import ON_DATASETS
from exoshuffle.dataset.inputs.storing import stored
from exoshuffle.dataset.tree.nodes import Given
from exoshuffle.errors import OptionsError, shown
from exoshuffle.operators.sql.elsewhere import remedy_for
from exoshuffle.operators.sql.expressions import Expr, col
from exoshuffle.operators.sql.given import text_of_expression
from exoshuffle.operators.sql.parsing import column
from exoshuffle.operators.sql.types import unknown_column

if TYPE_CHECKING:
    import pyarrow as pa


class Frames(Columns[Dataset]):
    """A dataset as a frame: its columns by name in brackets, its shape and its types.

    ``ds.x`` is ``ds["x"]`` where no method has that name.
    """

    def __iter__(self) -> NoReturn:
        """Refuses: other libraries go over rows here, or over names of columns."""
        raise TypeError(
            "a dataset is not iterable; write iter_rows() for its rows, columns for their names, or to_pandas()"
        )

    @overload
    def __getitem__(self, key: str) -> Expr: ...
    @overload
    def __getitem__(self, key: list[str] | tuple[str, ...] | Expr | slice) -> Dataset: ...
    def __getitem__(self, key: object) -> Expr | Dataset:
        """Takes columns and rows as pandas does.

        ``ds["x"]`` is the expression ``col("x")``, ``ds[["x", "y"]]`` selects, ``ds[ds["x"] > 3]`` filters, and
        ``ds[:5]`` is ``limit(5)``.

        Raises:
            OptionsError: Something else: rows have no numbers.
            SchemaError: An unknown column.
        """
        if isinstance(key, str):
            column(key, self.schema)
            return col(key)
        if isinstance(key, Expr):
            return self.filter(key)
        if isinstance(key, list | tuple):
            return self.select(*key)
        if isinstance(key, slice) and (key.start, key.step) in {(None, None), (0, None)}:
            if key.stop is not None:
                return self.limit(key.stop)
            return self._made(self.node)
        raise OptionsError(
            f"brackets got {shown(key)}; write a name, a list of names, a condition, or [:n] for the first rows, "
            "because rows have no numbers"
        )

    def __setitem__(self, key: object, value: object) -> NoReturn:
        del value
        raise OptionsError(
            f"brackets cannot set {shown(key)}, because a dataset never changes; write dataset = "
            "dataset.with_columns(name=...)"
        )

    if not TYPE_CHECKING:  # else every name that is wrong would seem right

        def __getattr__(self, name: str) -> Any:
            # The node is missing where Python makes an object without its constructor, as copies are made.
            node = self.__dict__.get("node")
            if node is None or name.startswith("_"):
                raise AttributeError(f"a dataset has no attribute {name!r}")
            if name in node.schema.names:
                return col(name)
            message = f"a dataset has no attribute {name!r}"
            remedy = remedy_for(name, ON_DATASETS, type(self))
            if remedy is not None:
                # With an object of its own, Python suggests no other name behind the remedy.
                raise AttributeError(f"{message}; {remedy}", name=name, obj=None)
            raise AttributeError(f"{message}; {unknown_column(name, node.schema)}")

    @property
    def dtypes(self) -> dict[str, pa.DataType]:
        """The types of the columns by their names; see ``schema``."""
        return {field.name: field.type for field in self.schema}

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns; costs as much as ``count``."""
        return self.count(), len(self.columns)

    def assign(self, /, **columns: str | Expr | Callable[[Any], str | Expr]) -> Dataset:
        """Does as ``with_columns``; a function gets this dataset: ``assign(y=lambda ds: ds["x"] + 1)``."""
        texts = {name: text_of_expression(given) for name, given in columns.items()}
        made = {name: given(self) if callable(given) else given for name, given in texts.items()}
        return self.with_columns(**made)

    def materialize(self) -> Dataset:
        """Makes the result now and keeps its rows in the store, for a program that uses them several times.

        ``cache`` and ``persist`` are the same. The rows are freed with the last dataset that reads them.

        Raises:
            DiskFullError: The rows exceed memory, and the spill directories have no room.

        Cost: a copy of all rows in the store, which is spilled where it exceeds memory.
        """
        import pyarrow as pa

        kept = stored(pa.RecordBatchReader.from_batches(self.schema, self.iter_batches()))
        given = Given(kept.rows, self.schema, kept.num_rows, kept.num_bytes, "materialize")
        return self._made(given)

    cache = persist = materialize

    def pipe(self, function: Callable[..., object], *args: object, **named: object) -> Any:
        """Calls a function with this dataset: ``ds.pipe(clean, 3)`` is ``clean(ds, 3)``."""
        return function(self, *args, **named)

    def isna(self) -> Dataset:
        """Says of each value whether it is null; ``isnull`` is the same. NaN is no null."""
        return self.select(*(col(name).is_null() for name in self.schema.names))

    isnull = isna
    query = Columns.filter
    select_columns = Columns.select
    drop_columns = Columns.drop
    rename_columns = Columns.rename
    to_dict = Columns.to_pydict
    to_dicts = take_all = Columns.to_pylist
    to_csv = Columns.write_csv
    to_parquet = Columns.write_parquet
