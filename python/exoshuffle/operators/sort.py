"""The sort task set: map reads and scatters by boundaries, merge concatenates, reduce sorts and hands to a sink.

Guarantee: stable, and the same bytes whatever strategy, engine or parallelism ran it: maps keep input order within a
slice, merges concatenate in map order, and equal keys are divided between partitions by their position in the input.

Why sort in the reduce alone: a partition fits into memory by plan, so sorting earlier would only sort twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from exoshuffle import _native
from exoshuffle.errors import OptionsError
from exoshuffle.futures import allocate_block
from exoshuffle.futures.options import Executor


@dataclass(frozen=True)
class SortKey:
    """One column to sort by.

    Attributes:
        column: Its name.
        descending: Largest first.
        nulls_first: Nulls before all values, whatever the direction; default last.
    """

    column: str
    descending: bool = False
    nulls_first: bool = False


def parse_keys(
    by: str | Sequence[str],
    descending: bool | Sequence[bool] = False,
    nulls: str | Sequence[str] = "last",
) -> tuple[SortKey, ...]:
    """Sort keys from the arguments of ``Dataset.sort``.

    Raises:
        OptionsError: No key, lists of different lengths, or a word other than first and last for ``nulls``.
    """
    columns = [by] if isinstance(by, str) else list(by)
    if not columns:
        raise OptionsError("sort needs at least one column in by=")
    directions = [descending] * len(columns) if isinstance(descending, bool) else list(descending)
    placements = [nulls] * len(columns) if isinstance(nulls, str) else list(nulls)
    for name, values in (("descending", directions), ("nulls", placements)):
        if len(values) != len(columns):
            raise OptionsError(f"{name} has {len(values)} values for {len(columns)} columns in by=")
    for placement in placements:
        if placement not in ("first", "last"):
            raise OptionsError(f'nulls is {placement!r}; write "first" or "last"')
    return tuple(
        SortKey(column, bool(down), placement == "first")
        for column, down, placement in zip(columns, directions, placements, strict=True)
    )


def parse_by(text: str) -> tuple[SortKey, ...]:
    """Sort keys from SQL-like text: ``"ts desc nulls first, id"``. Quote names with spaces: ``'"my key" desc'``.

    Raises:
        OptionsError: Text that is not of this form.
    """
    return tuple(_parse_key(part) for part in _split_outside_quotes(text))


def _split_outside_quotes(text: str) -> list[str]:
    parts, current, quoted = [], "", False
    for character in text:
        quoted ^= character == '"'
        if character == "," and not quoted:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current]


def _parse_key(text: str) -> SortKey:
    text = text.strip()
    if text.startswith('"') and text.count('"') >= 2:
        column, _, rest = text[1:].partition('"')
    else:
        column, _, rest = text.partition(" ")
    words = rest.lower().split()
    descending = bool(words) and words[0] in ("desc", "descending")
    if words and words[0] in ("asc", "ascending", "desc", "descending"):
        words = words[1:]
    nulls_first = words == ["nulls", "first"]
    if not column or (words and words not in (["nulls", "first"], ["nulls", "last"])):
        raise OptionsError(
            f'cannot read sort key {text!r}; write for example "ts desc nulls first, id"'
        )
    return SortKey(column, descending, nulls_first)


class Sink(Protocol):
    """Takes a partition (``_native.Rows``), sorted or scanned, and makes the result of a task from it."""

    def __call__(self, partition: int, rows: Any) -> Any:
        """Takes the partition; what it returns is the result of the task."""


@dataclass(frozen=True)
class SorterConfig:
    """What to rebuild a native sorter from, wherever a task runs: nothing native is pickled.

    Attributes:
        read_options: JSON of the reader's options.
        schema: Arrow schema as IPC bytes; empty for fixed-length records.
        keys: Sort keys; empty for records.
        record_bytes: Size of a record; 0 for tables.
        key_bytes: Size of the key at the start of a record.
    """

    read_options: str
    schema: bytes = b""
    keys: tuple[SortKey, ...] = ()
    record_bytes: int = 0
    key_bytes: int = 0

    def build(self) -> Any:
        """The native sorter.

        Raises:
            SchemaError: A key is unknown or of a type that has no order.
        """
        if self.record_bytes:
            return _native.Sorter.records(self.read_options, self.record_bytes, self.key_bytes)
        keys = [(key.column, key.descending, key.nulls_first) for key in self.keys]
        return _native.Sorter.table(self.read_options, self.schema, keys)


@dataclass
class SortTasks:
    """``TaskSet`` of a sort.

    Attributes:
        config: How to read and compare.
        boundaries: R-1 boundaries, as the sorter serialises them.
        sink: What to do with a sorted partition.
    """

    executor: ClassVar[Executor] = "thread"

    config: SorterConfig
    boundaries: bytes
    sink: Sink
    _sorter: Any = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "config": self.config,
            "boundaries": self.boundaries,
            "sink": self.sink,
            "_sorter": None,
        }

    @property
    def sorter(self) -> Any:
        """The native sorter, built where it is needed."""
        if self._sorter is None:
            self._sorter = self.config.build()
        return self._sorter

    def map(self, index: int, split: str) -> Any:
        """Reads a split and scatters its rows. Cost: two passes over the rows; moves each once."""
        scattered = self.sorter.scatter(split, index, self.boundaries)
        block = allocate_block(scattered.offsets)
        scattered.write_into(block)
        return block

    def merge(self, *blocks: Any) -> Any:
        """Concatenates blocks slice by slice. Cost: one copy of their bytes."""
        # The value of an object of one slice is that slice, not a list of one.
        slices = [block if isinstance(block, list) else [block] for block in blocks]
        block = allocate_block(_native.merged_offsets(slices))
        _native.merge_into(slices, block)
        return block

    def reduce(self, partition: int, slices: list[Any]) -> Any:
        """Sorts a partition and hands it to the sink. Cost: 16 to 32 bytes per row; gathers each row once."""
        return self.sink(partition, self.sorter.sort(slices))


def sample_keys(config: SorterConfig, index: int, split: str, num_rows: int, seed: int) -> bytes:
    """Key tuples of about ``num_rows`` rows of a split, with their positions: a task that runs before the shuffle."""
    sample: bytes = config.build().sample(split, index, num_rows, seed)
    return sample
