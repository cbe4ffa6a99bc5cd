"""What a plan is made from: what there is to shuffle, and what there is to do it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from exoshuffle.futures.engine import DiskKind

#: Read and write buffers of one task beside its data.
BUFFER_BYTES = 24_000_000
#: Of each column beside that: arrays, decoders, encoders, and what a footer says of it. Writing 10,000 columns took
#: 82 MB for 16 MB of rows, and reading them 46 MB (256 columns are in the buffers).
COLUMN_BYTES = 8_000
FREE_COLUMNS = 256
#: Where results go: into files; as Arrow data to a program that takes them one by one, or to a writer of ours that does
#: so for one file; or into the store, all of them, to be read by another shuffle.
ResultPlace = Literal["files", "file", "batches", "blocks"]


@dataclass(frozen=True)
class Workload:
    """What there is to shuffle.

    Attributes:
        total_bytes: Size of all rows in blocks.
        num_rows: Number of rows, or an estimate.
        max_row_bytes: Size of the largest row that is known of.
        max_item_bytes: Size of the largest piece of the input that cannot be cut further.
        read_bytes: Size of what maps read, if that is more.
        reduce_percent: Memory that finishing a partition takes beside it and its sort entries, as a share of it,
        reduce_row_bytes: and further, per row of it.
        num_items: Pieces of the input that cannot be cut, each of which is a map; None if it is cut as planned.
        held_bytes: Size of what is in the store already and stays there meanwhile: the input, if a shuffle made it.
        result_bytes: Size of the results as Arrow data; default: ``total_bytes``.
        results: Where they go.
        is_even: Whether partitions differ by chance alone, not by their keys.
        streams_in_place: Whether the Arrow stream of a result is made in its block, and not copied there.
        is_passed_on: Whether reduces hand rows on as they come, so that they need not hold a large partition.
        decoding_bytes: What reading any rows has in memory at once beside these, if that exceeds the buffers of a task:
            a large page or batch is decoded in one piece.
        num_columns: Number of columns.
        dense_percent: How large rows are in the stretch of the input where they are largest, as a share of the mean.
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

    @property
    def buffer_bytes(self) -> int:
        """Read and write buffers of one task beside its data."""
        return buffer_bytes(self.num_columns)

    @property
    def all_result_bytes(self) -> int:
        """Size of all results as Arrow data."""
        return self.total_bytes if self.result_bytes is None else self.result_bytes


@dataclass(frozen=True)
class Resources:
    """What there is to do it with.

    Attributes:
        budget_bytes: For blocks and the working memory of tasks together, on all nodes; below 0 if that is missing.
        num_cpus: Tasks that run at once, on all nodes.
        other_bytes: What the program takes of the memory limit beside the budget; for messages.
        num_nodes: Nodes that run tasks.
        disk: What kind of disk blocks are spilled to.
        workers_bytes: What worker processes have of the engine's budget, which ``budget_bytes`` is what is left of.
    """

    budget_bytes: int
    num_cpus: int
    other_bytes: int = 0
    num_nodes: int = 1
    disk: DiskKind = "ssd"
    workers_bytes: int = 0


def ceil_div(a: int, b: int) -> int:
    """Divides and rounds up."""
    return -(-a // b)


def buffer_bytes(num_columns: int) -> int:
    """Read and write buffers of a task beside its data, of rows with so many columns."""
    return BUFFER_BYTES + max(0, num_columns - FREE_COLUMNS) * COLUMN_BYTES
