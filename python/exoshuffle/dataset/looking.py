"""``Looking``: looks at a dataset without taking all of it: its columns, its first rows, their number."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from exoshuffle.dataset.counting import num_rows_of
from exoshuffle.dataset.shown import schema_html, schema_lines, table_text
from exoshuffle.dataset.taken import Taken
from exoshuffle.dataset.tree.facts import describe
from exoshuffle.dataset.tree.nodes import LimitNode, check_count
from exoshuffle.futures import current_engine
from exoshuffle.observe.asked import progress_of_program
from exoshuffle.observe.progress import observed

if TYPE_CHECKING:
    import pyarrow as pa


class Looking(Taken):
    """A dataset's columns, first rows and number of rows."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns, without running anything."""
        return list(self.schema.names)

    def count(self) -> int:
        """Returns the number of rows; ``len(dataset)`` does the same.

        Cost: nothing where metadata tells it, as the footers of Parquet files do. Else it runs what decides about rows:
        filters, joins, groups and functions, but no sort, and with as few columns as they need. Rows of joins and
        groups may be counted by one query.
        """
        engine, progress = current_engine(), progress_of_program("count")
        with observed(engine, progress):
            return num_rows_of(self.node, engine, progress)

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        # Without this, ``if dataset:`` would count its rows.
        return True

    def head(self, n: int = 5) -> pa.Table:
        """Returns the first rows as a ``pyarrow.Table``; ``limit(n)`` makes a dataset of them instead.

        Args:
            n: Number of rows; all if there are fewer.

        Raises:
            OptionsError: No number from 0 on.

        Cost: reads no more of the input than needed, and a few parts ahead; see ``limit``.
        """
        check_count("n", n)
        return Taken(LimitNode(self.node, n)).to_arrow()

    def tail(self, n: int = 5) -> pa.Table:
        """Returns the last rows as a ``pyarrow.Table``.

        Raises:
            OptionsError: No number from 0 on.

        Cost: makes the whole result, and keeps no more of it in memory than needed.
        """
        import pyarrow as pa

        check_count("n", n)
        kept: list[pa.RecordBatch] = []
        for batch in self.iter_batches():
            num_kept = sum(each.num_rows for each in kept)
            while kept and num_kept + batch.num_rows - kept[0].num_rows >= n:
                num_kept -= kept.pop(0).num_rows
            kept.append(batch)
            del batch
        last = pa.Table.from_batches(kept, schema=self.schema)
        return last.slice(max(0, last.num_rows - n))

    def take(self, n: int = 20) -> list[dict[str, Any]]:
        """Returns the first rows as dictionaries; see ``head``."""
        rows: list[dict[str, Any]] = self.head(n).to_pylist()
        return rows

    def show(self, n: int = 20) -> None:
        """Prints the first rows below the names and types of their columns; long values are cut; see ``head``."""
        sys.stdout.write(f"{table_text(self.head(n))}\n")

    def __repr__(self) -> str:
        lines = "".join(f"\n  {line}" for line in schema_lines(self.schema))
        return f"Dataset({describe(self.node)}){lines}"

    def _repr_html_(self) -> str:
        return schema_html(f"Dataset({describe(self.node)})", self.schema)
