"""``Taken``: hands out the rows of a dataset in memory, as Arrow data or as tables of other libraries.

Guarantee: a result that alone is surely larger than the memory limit is refused before it runs, unless it is forced.
Batches are handed out one by one, so they may be of any number.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from exoshuffle.arguments import check_flag, is_whole
from exoshuffle.dataset.arguments_elsewhere import refuse_arguments
from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.jobs.in_order import batches_of, lent, streams_of
from exoshuffle.dataset.jobs.job import Job
from exoshuffle.dataset.jobs.plain_errors import PlainErrors
from exoshuffle.dataset.jobs.sure_size import sure_bytes
from exoshuffle.dataset.results import Results
from exoshuffle.dataset.tree.needed import pruned
from exoshuffle.dataset.tree.row_count import check_rows
from exoshuffle.errors import MemoryLimitError, OptionsError, shown
from exoshuffle.futures import Engine, current_engine
from exoshuffle.observe.asked import progress_of_program
from exoshuffle.observe.progress import Progress, observed
from exoshuffle.operators.arrays import as_array
from exoshuffle.operators.batch_formats import check_batch_format, check_columns, in_format
from exoshuffle.operators.batch_sizes import cut
from exoshuffle.units import format_bytes

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

    from exoshuffle.dataset.splitting.shard import Shard

#: Rows of a batch of a shard, unless the program says otherwise.
_DEFAULT_SHARD_ROWS = 1024
#: A result is refused as a table if it exceeds the memory limit by more than this: sizes are measured from stretches.
UNSURE_PERCENT = 30


class Taken(Results):
    """The rows of a dataset in memory; each call runs the whole tree."""

    def iter_batches(
        self,
        batch_size: int | None = None,
        *,
        batch_format: str = "pyarrow",
        drop_last: bool = False,
        **others: object,
    ) -> Iterator[Any]:
        """Yields batches in order: Arrow record batches, unless it is told otherwise.

        Batches lie in the store's memory, without a copy, as long as the caller drops them while it goes on. If the
        caller keeps batches, they are copied, outside the memory limit.

        Args:
            batch_size: Number of rows of each batch but the last; default: as they come.
            batch_format: ``"pyarrow"`` for record batches, ``"numpy"`` for a dictionary of arrays, ``"torch"`` or
                ``"jax"`` for one of tensors, ``"pandas"`` or ``"polars"`` for frames. Tensors of numbers lie where the
                batch does, so they must not be changed.
            drop_last: Leave out the last batch if it has fewer rows than ``batch_size``.
            **others: None; arguments of Ray Data are refused with what to write instead.

        Raises:
            OptionsError: At once: no number from 1 on, no format, or a format whose library is not installed.
            SchemaError: At once: tensors cannot hold a column.
            InputError: While running: nulls, which tensors have none of.

        Cost: a few partitions in memory at a time. A size and a format other than Arrow's make copies, batch by batch.
        """
        refuse_arguments("iter_batches", others)
        check_batch_format(batch_format)
        check_columns(batch_format, self.schema)
        check_flag("drop_last", drop_last)
        if batch_size is not None and (not is_whole(batch_size) or batch_size < 1):
            raise OptionsError(
                f"batch_size is {shown(batch_size)}; it must be a whole number from 1 on"
            )
        batches = self._batches(self._lent_streams())
        sized = batches if batch_size is None else cut(batches, batch_size)
        if drop_last and batch_size is not None:
            sized = (batch for batch in sized if batch.num_rows == batch_size)
        if batch_format == "pyarrow":
            return sized
        return (in_format(batch, batch_format) for batch in sized)

    def iter_rows(self) -> Iterator[dict[str, Any]]:
        """Yields rows as dictionaries in order, a few partitions in memory at a time; slow for many rows."""
        return (row for batch in self.iter_batches() for row in batch.to_pylist())

    def iter_split(
        self,
        n: int,
        *,
        batch_size: int | None = None,
        batch_format: str = "pyarrow",
        drop_last: bool = False,
        **others: object,
    ) -> list[Shard]:
        """Returns ``n`` shards for consumers that iterate over them at the same time; together they have each row once.

        **``batch_size`` is of all shards together**: with ``batch_size=4096`` and 8 shards each gets 512 rows a step.

        >>> shards = xs.read_parquet("in/").random_shuffle(seed=1).iter_split(4, batch_size=4096)
        >>> trainers = [Trainer.remote(shard) for shard in shards]  # actors; or threads, or processes by spawn

        Shards differ by one row at most, and no row is left out for that. A shard waits while it is more than a step
        ahead of the slowest one. After a minute the logger ``exoshuffle`` names the shard that others wait for. A
        consumer that stops early leaves its rows out.

        Consumers run beside the tasks that make the rows, from the first batch on that one of them asks for. A consumer
        that is a task lends its CPU while it waits, but on Ray: there take actors, or leave CPUs for the rows.

        Args:
            n: Number of shards.
            batch_size: Rows of a step, of all shards together; default: 1,024 for each shard.
            batch_format: As in ``iter_batches``.
            drop_last: Leave out the last step if it has fewer rows than ``batch_size``.
            **others: None; arguments of Ray Data are refused with what to write instead.

        Raises:
            OptionsError: At once: an argument that cannot work.
            WorkerDiedError: In all shards: the process of a consumer ended before it had its rows.

        Cost: that of ``iter_batches`` once, with two steps in memory at most. Threads get views; other processes, which
        must be on this machine, get copies by a Unix socket.
        """
        refuse_arguments("iter_split", others)
        if not is_whole(n) or n < 1:
            raise OptionsError(
                f"iter_split got {shown(n)} shards; it must be a whole number from 1 on"
            )
        size = _DEFAULT_SHARD_ROWS * n if batch_size is None else batch_size
        if not is_whole(size) or size < n:
            raise OptionsError(
                f"batch_size is {shown(size)}, the rows of a step of all shards; with {n} shards it must be a whole "
                f"number from {n} on"
            )
        check_batch_format(batch_format)
        check_columns(batch_format, self.schema)
        check_flag("drop_last", drop_last)
        from exoshuffle.dataset.splitting.shard import shards_of

        batches = functools.partial(self.iter_batches, int(size), drop_last=drop_last)
        return shards_of(batches, int(n), batch_format)

    #: Ray Data's name.
    streaming_split = iter_split

    def to_arrow(self, *, force: bool = False) -> pa.Table:
        """Returns the whole result as a ``pyarrow.Table``. Cost: all of it in memory, outside the memory limit.

        Args:
            force: Make the table even if it alone is larger than the memory limit.

        Raises:
            MemoryLimitError: The table alone is surely larger than the memory limit.
        """
        return self._table("to_arrow", force)

    def to_pandas(self, *, force: bool = False) -> Any:
        """Returns the whole result as a pandas ``DataFrame``, with the types that ``pyarrow.Table.to_pandas`` gives.

        Args:
            force: As in ``to_arrow``.

        Raises:
            MemoryLimitError: As ``to_arrow``.
            OptionsError: pandas is not installed.

        Cost: as ``to_arrow``, and a copy of all columns.
        """
        _library("pandas", "to_pandas")
        return self._table("to_pandas", force).to_pandas()

    def to_polars(self, *, force: bool = False) -> Any:
        """Returns the whole result as a Polars ``DataFrame``.

        Args:
            force: As in ``to_arrow``.

        Raises:
            MemoryLimitError: As ``to_arrow``.
            OptionsError: Polars is not installed.

        Cost: as ``to_arrow``, and a copy of columns of text.
        """
        polars = _library("polars", "to_polars")
        return polars.DataFrame(self._table("to_polars", force))

    def to_numpy(self, *, force: bool = False) -> dict[str, Any]:
        """Returns the whole result as NumPy arrays, by name of the column.

        Numbers that have nulls become floats with NaN; text, lists and structs become arrays of Python objects.

        Args:
            force: As in ``to_arrow``.

        Raises:
            MemoryLimitError: As ``to_arrow``.
            OptionsError: NumPy is not installed.

        Cost: as ``to_arrow``, and a copy of all columns.
        """
        _library("numpy", "to_numpy")
        table = self._table("to_numpy", force)
        return {name: as_array(table.column(name)) for name in table.column_names}

    def to_pydict(self, *, force: bool = False) -> dict[str, list[Any]]:
        """Returns the whole result as lists of Python values, by name of the column; see ``to_arrow``."""
        columns: dict[str, list[Any]] = self._table("to_pydict", force).to_pydict()
        return columns

    def to_pylist(self, *, force: bool = False) -> list[dict[str, Any]]:
        """Returns the whole result as a list with a dictionary for each row; see ``to_arrow``."""
        rows: list[dict[str, Any]] = self._table("to_pylist", force).to_pylist()
        return rows

    def _table(self, call: str, force: bool) -> pa.Table:
        import pyarrow as pa

        check_flag("force", force)
        check = None if force else functools.partial(_check_size, call)
        progress = progress_of_program(call)
        with observed(current_engine(), progress):
            streams = map(bytes, self._streams(check, progress))
            return pa.Table.from_batches(self._batches(streams), schema=self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self.schema, self.iter_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _lent_streams(self) -> Iterator[Buffer]:
        """Yields one Arrow stream per partition, in the store's memory or copied out of it."""
        return lent(self._streams())

    def _streams(
        self,
        check: Callable[[Job, Engine], None] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Buffer]:
        """Yields the streams of ``streams_of``; ``check`` may refuse the job, and ``progress`` is told of its plan."""
        from exoshuffle.dataset.jobs.bad_rows import write_bad_rows

        engine = current_engine()
        with PlainErrors():
            write_bad_rows(self.node, engine)
            job = Execution(engine, progress).job(pruned(self.node), "batches")
            if check is not None:
                check(job, engine)
            yield from streams_of(job, engine)

    def _batches(self, streams: Iterator[Buffer]) -> Iterator[pa.RecordBatch]:
        """Yields the batches of Arrow streams, and checks the number of rows at the end."""
        num_rows = 0
        for batch in batches_of(streams):
            num_rows += batch.num_rows
            yield batch
            del batch
        check_rows(self.node, num_rows)


def _library(name: str, call: str) -> Any:
    """Imports a library that only this call needs.

    Raises:
        OptionsError: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise OptionsError(
            f"{call} needs {name}, and it is not installed; install it, or call to_arrow()"
        ) from error


def _check_size(call: str, job: Job, engine: Engine) -> None:
    """Raises ``MemoryLimitError`` if a table of the result alone is surely larger than the memory limit."""
    most = engine.memory_limit * (100 + UNSURE_PERCENT) // 100
    size = sure_bytes(job, most)
    if size > most:
        raise MemoryLimitError(
            f"the result takes about {format_bytes(size)} as a table, and the memory limit of the whole program is "
            f"{format_bytes(engine.memory_limit)}. Take it by iter_batches(), write it to files, or call "
            f"{call}(force=True), which takes memory beyond the limit"
        )
