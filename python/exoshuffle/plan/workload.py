"""The inputs of a plan: the rows to shuffle, and the resources to shuffle them with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from exoshuffle.futures.engine import DiskKind

#: Read and write buffers of one task beside its data.
BUFFER_BYTES = 24_000_000
#: Bytes of each further column: arrays, decoders, encoders, and its entries in a footer. Writing 10,000 columns took
#: 82 MB for 16 MB of rows, and reading them 46 MB (256 columns are in the buffers).
COLUMN_BYTES = 8_000
#: Bytes of each further column where rows are a table: its arrays and their parts in Python, in Arrow and in queries. A
#: join of 10,000 columns within 450 MB had 659 MB resident without these, and has 387: one reduce runs at a time. With
#: 12,000, a join within 400 MB had 175 partitions and took 150 s; it has 345 MB, and takes 18 s.
TABLE_COLUMN_BYTES = 6_000
FREE_COLUMNS = 256
#: Where results go. ``files``: into files. ``batches``: as Arrow data to a program that takes them one by one.
#: ``file``: likewise to our writer of one file. ``blocks``: all into the store, for another shuffle.
ResultPlace = Literal["files", "file", "batches", "blocks"]


@dataclass(frozen=True)
class Workload:
    """The rows to shuffle, in numbers.

    Attributes:
        total_bytes: Size of all rows in blocks.
        num_rows: Number of rows, or an estimate.
        max_row_bytes: Size of the largest row that is known of.
        told_row_bytes: The most that a row may have of parts that are too large to be looked into.
        lone_row_bytes: Memory that the group of the largest row takes, with the row, where groups are needed whole.
        other_row_bytes: Size of the largest row of the other side of a join, which may meet that one.
        max_item_bytes: Size of the largest piece of the input that cannot be cut further.
        read_bytes: Bytes that maps read, if they are more.
        reduce_percent: Memory that finishing a partition takes beside it and its sort entries, as a share of it.
        reading_limit_bytes: The memory limit with which there is room for the largest row where files are read, and for
            its group.
        reduce_row_bytes: Further memory that finishing a partition takes, per row of it.
        num_items: Pieces of the input that cannot be cut, each of which is a map; None if it is cut as planned.
        held_bytes: Bytes that are in the store already and stay there meanwhile: the input, if a shuffle made it.
        result_bytes: Size of the results as Arrow data; default: ``total_bytes``.
        results: Where the results go.
        is_even: Whether partitions differ by chance alone, not by their keys.
        streams_in_place: Whether the Arrow stream of a result is made in its block, and not copied there.
        is_passed_on: Whether reduces hand rows on as they come, so that they need not hold a large partition.
        decoding_bytes: Memory that reading any rows takes beside the rows, if that exceeds the buffers of a task. A
            large page or batch is decoded in one piece.
        num_columns: Number of columns.
        dense_percent: Size of rows in the stretch of the input where they are largest, as a share of the mean.
        decoded_bytes: Size of the rows that readers decode together, where asking for fewer takes as long.
    """

    total_bytes: int
    num_rows: int
    max_row_bytes: int = 0
    max_item_bytes: int = 0
    read_bytes: int = 0
    reduce_percent: int = 0
    reduce_row_bytes: int = 0
    num_items: int | None = None
    held_bytes: int = 0
    result_bytes: int | None = None
    results: ResultPlace = "files"
    is_even: bool = False
    streams_in_place: bool = False
    is_passed_on: bool = False
    decoding_bytes: int = 0
    num_columns: int = 0
    dense_percent: int = 100
    other_row_bytes: int = 0
    lone_row_bytes: int = 0
    reading_limit_bytes: int = 0
    decoded_bytes: int = 0
    told_row_bytes: int = 0

    @property
    def buffer_bytes(self) -> int:
        """The size of the read and write buffers of one task, beside its data."""
        return buffer_bytes(self.num_columns)

    @property
    def needs_tables(self) -> bool:
        """Whether a partition is finished as a table, and not by going through sorted rows."""
        return self.reduce_percent > 0 or self.reduce_row_bytes > 0

    @property
    def all_result_bytes(self) -> int:
        """The size of all results as Arrow data."""
        return self.total_bytes if self.result_bytes is None else self.result_bytes


@dataclass(frozen=True)
class Resources:
    """The memory, CPUs, nodes and disks to shuffle with.

    Attributes:
        budget_bytes: Memory for blocks and the working memory of tasks, on all nodes; below 0 if that is missing.
        num_cpus: Tasks that run at once, on all nodes.
        other_bytes: The part of the memory limit that the program takes beside the budget; for messages.
        num_nodes: Nodes that run tasks.
        disk: The kind of disk that blocks are spilled to.
        spill_codec: How spilled blocks are compressed; None: not at all.
        workers_bytes: The part of the engine's budget that worker processes take; ``budget_bytes`` is the rest.
        idle_cpus: CPUs without a task, because memory has no room for one on each; ``num_cpus`` are the others.
    """

    budget_bytes: int
    num_cpus: int
    other_bytes: int = 0
    num_nodes: int = 1
    disk: DiskKind = "ssd"
    spill_codec: str | None = None
    workers_bytes: int = 0
    idle_cpus: int = 0

    def halved(self) -> Resources:
        """Returns the same with half as many tasks at once."""
        idle = self.num_cpus - self.num_cpus // 2
        return replace(self, num_cpus=self.num_cpus // 2, idle_cpus=self.idle_cpus + idle)

    @property
    def num_ahead(self) -> int:
        """The number of tasks whose arguments are fetched while others run."""
        return 0 if self.idle_cpus else self.num_cpus

    @property
    def apart_bytes(self) -> int:
        """The least memory that a task sets apart, so that no more than ``num_cpus`` run; 0 if all CPUs have one."""
        return self.budget_bytes // (self.num_cpus + 1) + 1 if self.idle_cpus else 0


def ceil_div(a: int, b: int) -> int:
    """Returns a / b, rounded up."""
    return -(-a // b)


def buffer_bytes(num_columns: int) -> int:
    """Returns the size of the read and write buffers of a task, beside its data, for rows with so many columns."""
    return BUFFER_BYTES + max(0, num_columns - FREE_COLUMNS) * COLUMN_BYTES


def table_bytes(num_columns: int) -> int:
    """Returns the memory of a task beside its data and buffers, where rows with so many columns are tables."""
    return max(0, num_columns - FREE_COLUMNS) * TABLE_COLUMN_BYTES
