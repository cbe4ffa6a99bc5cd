"""``Dataset``: files and what to do with them, lazy until a result is asked for."""

from __future__ import annotations

import dataclasses
import os
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from exoshuffle.dataset.explain import Bill, make_bill
from exoshuffle.dataset.job import JobOptions, SortJob, make_job, plain_errors
from exoshuffle.dataset.write import WriteOptions, WriteResult, write_job
from exoshuffle.errors import OptionsError
from exoshuffle.futures import Ref, current_engine, get
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.sinks import CollectSink
from exoshuffle.operators.sort import SorterConfig, SortKey, parse_keys
from exoshuffle.shuffle.strategy import Strategy

if TYPE_CHECKING:
    import pyarrow as pa

PathLike = str | os.PathLike[str]


class Dataset:
    """A table, or fixed-length records, in files; made by ``read_parquet`` and its siblings.

    Nothing is read until a result is asked for, by ``write_*``, ``to_arrow``, ``iter_batches`` or the Arrow stream
    protocol (so ``pyarrow.table(dataset)``, ``polars.DataFrame(dataset)`` and DuckDB take it as it is).
    """

    def __init__(
        self,
        source: Any,
        keys: tuple[SortKey, ...] = (),
        is_sorted: bool = False,
        options: JobOptions | None = None,
    ) -> None:
        self._source = source
        self._keys = keys
        self._is_sorted = is_sorted
        self._options = options or JobOptions()

    @property
    def schema(self) -> pa.Schema:
        """The schema, as ``pyarrow.Schema``."""
        import pyarrow as pa

        return pa.ipc.read_schema(pa.py_buffer(self._source.schema_ipc))

    @property
    def files(self) -> list[str]:
        """The input files in reading order."""
        files: list[str] = self._source.files
        return files

    def sort(
        self,
        by: str | Sequence[str] | None = None,
        descending: bool | Sequence[bool] = False,
        nulls: str | Sequence[str] = "last",
        *,
        strategy: str | Strategy = "auto",
        num_partitions: int | None = None,
    ) -> Dataset:
        """Sorts by one or several columns; stable.

        NaN is greater than all numbers, −0.0 equals 0.0, strings compare as bytes. Sorting a sorted dataset keeps the
        earlier order among equal keys.

        Args:
            by: Column or columns, the first one first. Fixed-length records need none: their key is their beginning.
            descending: Largest first; one value for all columns or one for each.
            nulls: ``"first"`` or ``"last"``, whatever the direction; one for all or one for each.
            strategy: ``"auto"``, ``"simple"``, ``"push"`` or an instance.
            num_partitions: Number of output partitions; default: as few as the memory limit allows.

        Returns:
            A dataset; nothing runs yet.

        Raises:
            OptionsError: Arguments that contradict each other.
            SchemaError: A column is unknown or has no order.

        Cost: reads the input once (and a few key columns before); writes what exceeds memory to disk once, and reads
        it back once. Source: Exoshuffle §3.2.
        """
        options = dataclasses.replace(
            self._options, strategy=strategy, num_partitions=num_partitions
        )
        if self._source.record_bytes:
            if by is not None:
                raise OptionsError("fixed-length records are sorted by their key; leave out by=")
            return Dataset(self._source, (), True, options)
        if by is None:
            raise OptionsError("sort needs at least one column in by=")
        keys = parse_keys(by, descending, nulls)
        earlier = tuple(key for key in self._keys if key.column not in {new.column for new in keys})
        sorted_dataset = Dataset(self._source, keys + earlier, True, options)
        sorted_dataset._config().build()
        return sorted_dataset

    def sort_keys(self, keys: Sequence[SortKey], **options: Any) -> Dataset:
        """``sort`` by ``SortKey`` objects."""
        return self.sort(
            [key.column for key in keys],
            [key.descending for key in keys],
            ["first" if key.nulls_first else "last" for key in keys],
            **options,
        )

    @property
    def format(self) -> str:
        """The input format: ``parquet``, ``arrow``, ``csv``, ``jsonl`` or ``records``."""
        name: str = self._source.format
        return name

    def explain(self, output: PathLike | None = None) -> Bill:
        """The plan as a bill, without running: partitions, memory, bytes spilled, disk needed and free.

        Args:
            output: Where the result would go, to tell the free space there.
        """
        job = self._job()
        if not isinstance(job, SortJob):
            raise OptionsError("explain is for a sorted dataset; call sort() first")
        return make_bill(job, None if output is None else os.fspath(output))

    # --- results -----------------------------------------------------------------------------------------------

    def write_parquet(
        self,
        path: PathLike,
        *,
        compression: str = "none",
        target_file_size: int | str | None = None,
        overwrite: bool = False,
    ) -> WriteResult:
        """Writes a directory of Parquet files, in order of their names; appears complete or not at all.

        Args:
            path: The directory to make.
            compression: ``none``, ``snappy``, ``zstd``, ``lz4`` or ``gzip``.
            target_file_size: Begin a new file at about this size; default: one file per partition.
            overwrite: Replace what is there.

        Raises:
            OutputError: The output exists or cannot be written.
        """
        return self.write(
            path, WriteOptions("parquet", compression, target_file_size), overwrite=overwrite
        )

    def write_ipc(
        self,
        path: PathLike,
        *,
        compression: str = "none",
        target_file_size: int | str | None = None,
        overwrite: bool = False,
    ) -> WriteResult:
        """Writes a directory of Arrow IPC files; see ``write_parquet``. Compression: ``none``, ``zstd`` or ``lz4``."""
        return self.write(
            path, WriteOptions("arrow", compression, target_file_size), overwrite=overwrite
        )

    def write_csv(
        self, path: PathLike, *, target_file_size: int | str | None = None, overwrite: bool = False
    ) -> WriteResult:
        """Writes a directory of CSV files with headers; see ``write_parquet``."""
        return self.write(path, WriteOptions("csv", "none", target_file_size), overwrite=overwrite)

    def write_json(
        self, path: PathLike, *, target_file_size: int | str | None = None, overwrite: bool = False
    ) -> WriteResult:
        """Writes a directory of JSON lines files; see ``write_parquet``."""
        return self.write(
            path, WriteOptions("jsonl", "none", target_file_size), overwrite=overwrite
        )

    def write_records(
        self, path: PathLike, *, target_file_size: int | str | None = None, overwrite: bool = False
    ) -> WriteResult:
        """Writes a directory of fixed-length record files; for datasets of ``read_records`` only."""
        return self.write(
            path, WriteOptions("records", "none", target_file_size), overwrite=overwrite
        )

    def write(
        self,
        path: PathLike,
        options: WriteOptions,
        *,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> WriteResult:
        """Writes a directory in the format of ``options``; see ``write_parquet``."""
        return write_job(self._source, self._job, path, options, overwrite, progress)

    def iter_batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches in order. Cost: a few partitions in memory at a time."""
        import pyarrow as pa

        for stream in self._streams():
            with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
                yield from reader

    def to_arrow(self) -> pa.Table:
        """The whole result as a ``pyarrow.Table``. Cost: all of it in memory, outside the memory limit."""
        import pyarrow as pa

        return pa.Table.from_batches(self.iter_batches(), schema=self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self.schema, self.iter_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        by = f" sorted by {', '.join(key.column for key in self._keys)}" if self._keys else ""
        return f"Dataset({len(self.files)} {self._source.format} files{by})"

    # --- internals ---------------------------------------------------------------------------------------------

    def _config(self) -> SorterConfig:
        source = self._source
        if source.record_bytes:
            return SorterConfig(source.read_options, b"", (), source.record_bytes, source.key_bytes)
        return SorterConfig(source.read_options, source.schema_ipc, self._keys)

    def _job(self) -> Any:
        return make_job(
            self._source, self._config(), self._is_sorted, current_engine(), self._options
        )

    def _streams(self) -> Iterator[Any]:
        """One Arrow stream per partition; a few partitions ahead of the consumer."""
        job = self._job()
        ahead = job.engine.num_cpus
        pending: deque[Ref] = deque()
        with plain_errors():
            for ref in job.run(CollectSink()):
                pending.append(ref)
                if len(pending) > ahead:
                    yield get(pending.popleft())
            while pending:
                yield get(pending.popleft())
