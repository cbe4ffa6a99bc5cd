"""Measures the rows of files before a shuffle, from a few stretches of them.

Guarantee: a stretch has a bounded size. Where parts of files must have larger rows than the stretches have shown, some
of these parts are read whole. A few of their rows have most of their bytes. 3 texts of 20 MB among 20,000 short rows
seemed to have 8 MB of 786. A join that took them for small peaked at 1.8 GB within 600 MB. Text does not tell its rows,
but a stretch of it ends with a row. So a stretch that is far larger than asked for has a row of that size. A join of
two rows of 100 MB, of which stretches had shown nothing, was refused within 1 GB after 198 s. Now it peaks at 974 MB.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from exoshuffle import _native
from exoshuffle.dataset.inputs.inputs import evenly
from exoshuffle.dataset.inputs.reading import bounded, schema_of
from exoshuffle.dataset.inputs.weighing import (
    MEASURED_STRETCHES,
    dense_percent,
    executor_for,
    together,
    weighed,
)
from exoshuffle.futures import current_engine
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.inputs import BatchInput, SplitInput
from exoshuffle.operators.core.readers import FileReader
from exoshuffle.operators.core.streams import as_reader
from exoshuffle.operators.sql.lengths import may_be_long
from exoshuffle.plan.workload import FREE_COLUMNS, Workload

#: Number of rows of a stretch that are measured; of a part with large rows, no more than a stretch may have, but these.
MEASURED_ROWS = 256
LEAST_ROWS = 4
#: Size of a stretch: a few pages of each column are decoded for it. For 4 GB, 64 MB took 0.38 s in all, and 4 MB 0.03
#: s.
MEASURED_BYTES = 4_000_000
#: Stretches are chosen from the beginnings of at most this many splits, however large the input is.
MAX_CANDIDATES = 1024
#: Most stretches that are read together, where files are small.
MAX_TOGETHER = 16
#: A stretch of text that is so many times as large as asked for has a row of most of its bytes.
LONG_PART = 2
#: Looks at an input may decode about this much beside rows, all of them together, so there are fewer where each decodes
#: more. Otherwise a dictionary of 100 MB was decoded 28 times.
DECODED_BYTES = 400_000_000
#: Chunks of columns up to this size are one page mostly, so that a look at some rows decodes the whole row group. Then
#: looks decode at most this much, or this part of the input. Eight looks at a group of 3,000 columns took 3.4 s of CPU,
#: and reading it 0.5.
PAGE_BYTES = 1_000_000
#: A page has at least so many bytes, or all rows of its group: writers end pages at 20,000 rows or 1 MB.
LEAST_PAGE_BYTES = 160_000
GROUPS_BYTES = 64_000_000
GROUPS_SHARE = 8
#: Memory for reading a part whole, in its bytes: its page, its rows, and their copies.
PART_COPIES = 4

Splits = Sequence[_native.Split]


def measured(
    source: _native.Source,
    look: Look,
    columns: Sequence[str],
) -> Workload:
    """Returns the size of the rows as they will travel.

    Args:
        source: The files.
        look: Measures them, as the maps will read them.
        columns: The columns that are read.
    """
    num_bytes = stretch_bytes(source, MEASURED_BYTES)
    every = source.splits(num_bytes)
    if not every:
        return Workload(0, 0)
    seen, row_bytes = look.at_stretches(every)
    if source.rows is None:
        long = [split for split in every if split.bytes > LONG_PART * num_bytes]
        return look.with_long_rows(seen, long) if long else seen
    schema = schema_of(source)
    has_long = any(may_be_long(schema.field(name).type) for name in columns)
    parts = source.larger_parts(row_bytes) if has_long else []
    if not parts:
        return seen
    found = look.at_parts(parts)
    if not found:
        return seen
    others = _outside(every, parts)
    rest = [look.at_stretches(others)[0]] if others else []
    return together([*rest, *found])


class Look(Protocol):
    """A way of measuring rows."""

    def at_stretches(self, every: Splits) -> tuple[Workload, int]:
        """Estimates the rows of all stretches from a few; returns them, and the bytes of a row that is not large."""

    def at_parts(self, parts: Splits) -> Sequence[Workload]:
        """Estimates the rows of parts whose sizes were missed; returns nothing if the parts are as expected."""

    def with_long_rows(self, seen: Workload, long: Splits) -> Workload:
        """Returns what was seen of text, and the rows that have most of the bytes of some stretches."""


@dataclass(frozen=True)
class Plain:
    """Measures rows as they are in the files; where these have other columns, too, all rows have one size.

    Attributes:
        source: The files.
        map_input: Reads them, as the maps will.
        decoding_bytes: Memory that reading any stretch takes, beside buffers and rows.
        columns: The columns that are read.
    """

    source: _native.Source
    map_input: SplitInput
    decoding_bytes: int
    columns: tuple[str, ...]

    def at_stretches(self, every: Splits) -> tuple[Workload, int]:
        """See ``Look``."""
        if self.source.rows is None:
            return self._of_text(every)
        chosen = evenly(list(every), _num_stretches(self.source, self.decoding_bytes))
        sorter = self.map_input.config.build()
        found = [sorter.measure([split], MEASURED_ROWS, 0) for split in chosen]
        largest = max(most for _, _, most, _ in found)
        told_bytes = sum(map(self._told_bytes, every))
        sizes = [
            (max(1, self._told_bytes(split)), split.size * row_bytes / max(rows, 1))
            for split, (rows, row_bytes, *_) in zip(chosen, found, strict=True)
        ]
        share = sum(size for _, size in sizes) / sum(told for told, _ in sizes)
        num_rows = _num_rows(every)
        total = max(num_rows, int(told_bytes * share))
        seen = Workload(total, num_rows, largest, dense_percent=dense_percent(sizes))
        return seen, min(row_bytes // max(rows, 1) for rows, row_bytes, *_ in found)

    def _told_bytes(self, split: _native.Split) -> int:
        """Returns what to weigh a stretch by: the bytes that its file tells, or its rows if these are of all columns.

        Why bytes: a stretch of large rows has few rows, but as many bytes as the others.
        """
        return split.bytes if self.map_input.config.file_schema is None else split.size

    def _of_text(self, every: Splits) -> tuple[Workload, int]:
        """Estimates rows of text, without stretches that have long rows: digits are shorter as text than as numbers."""
        most = LONG_PART * stretch_bytes(self.source, MEASURED_BYTES)
        usual = [split for split in every if split.bytes <= most]
        chosen = evenly(usual or list(every), num_looks(self.decoding_bytes))
        sorter = self.map_input.config.build()
        found = [sorter.measure([split], MEASURED_ROWS, 0) for split in chosen]
        mean = sum(size for _, size, *_ in found) / max(1, sum(rows for rows, *_ in found))
        told_bytes = sum(split.bytes for split in usual)
        share = told_bytes / max(1, sum(split.bytes for split in chosen))
        num_rows = math.ceil(share * sum(there for *_, there in found))
        largest = max(most for _, _, most, _ in found)
        size = math.ceil(num_rows * mean)
        return Workload(size, num_rows, largest, read_bytes=told_bytes), int(mean)

    def at_parts(self, parts: Splits) -> Sequence[Workload]:
        """See ``Look``."""
        chosen = _some(parts, num_looks(self.decoding_bytes))
        sorter = self.map_input.config.build()
        known: list[Workload] = []
        unlike: list[_native.Split] = []
        for part in chosen:
            few = max(LEAST_ROWS, MEASURED_BYTES * part.size // max(part.bytes, 1))
            rows, row_bytes, most, _ = sorter.measure([part], min(few, MEASURED_ROWS), 0)
            num_bytes = row_bytes * part.size // max(rows, 1)
            if 2 * num_bytes < part.bytes:
                unlike.append(part)
            else:
                known.append(Workload(num_bytes, part.size, most))
        if not unlike:
            return []
        reader = FileReader(bounded(self.source), self.source.schema_ipc, self.columns)
        rows_of = BatchInput(reader, (), self.map_input.config)
        found = together([*known, *_whole(rows_of, unlike, self.decoding_bytes)])
        share = sum(part.bytes for part in parts) / sum(part.bytes for part in chosen)
        total = int(share * found.total_bytes)
        size = total, _num_rows(parts), found.max_row_bytes
        return [Workload(*size, told_row_bytes=found.told_row_bytes)]

    def with_long_rows(self, seen: Workload, long: Splits) -> Workload:
        """See ``Look``; reads a row that has no room, for the error of the reader."""
        largest = max(long, key=lambda split: split.bytes)
        num_bytes = stretch_bytes(self.source, MEASURED_BYTES)
        longest = bounded(self.source).max_row_bytes
        if longest is not None and largest.bytes - num_bytes > longest:
            for _ in as_reader(self.map_input.rows(0, largest)):
                pass
        # The rows before a long one have half of a stretch on average.
        before = len(long) * num_bytes // 2 * seen.num_rows // max(1, seen.read_bytes)
        long_bytes = sum(split.bytes for split in long)
        return replace(
            seen,
            total_bytes=seen.total_bytes + long_bytes,
            num_rows=seen.num_rows + before + len(long),
            max_row_bytes=max(seen.max_row_bytes, largest.bytes),
            read_bytes=seen.read_bytes + long_bytes,
        )


@dataclass(frozen=True)
class Stepped:
    """Measures rows after steps.

    Small files are measured with their neighbours, as maps read them, because few keys come twice in one small file.
    Measured one by one, 10,000 files with the same 1,000 keys seemed to have 6.3 million groups.

    Attributes:
        source: The files.
        map_input: Reads them, as the maps will.
        decoding_bytes: Memory that reading any stretch takes, beside buffers and rows.
    """

    source: _native.Source
    map_input: BatchInput
    decoding_bytes: int

    def at_stretches(self, every: Splits) -> tuple[Workload, int]:
        """See ``Look``."""
        count = num_together(self.source, every, MEASURED_BYTES)
        groups = [tuple(every[at : at + count]) for at in range(0, len(every), count)]
        chosen = evenly(groups, _num_stretches(self.source, self.decoding_bytes))
        read = [tuple(split.beginning(MEASURED_BYTES) for split in group) for group in chosen]
        rows = max(1, sum(map(_num_rows, read)))
        share = len(groups) / len(chosen) * max(1, sum(map(_num_rows, chosen))) / rows
        # A worker process may die in any stretch; then a function runs again over that stretch only.
        count = len(read) if executor_for(self.map_input) == "process" else min(2, len(read))
        items = [read[at::count] for at in range(count)]
        seen = together(weighed(self.map_input, items, share, self.decoding_bytes))
        return seen, int(seen.read_bytes / share / rows)

    def at_parts(self, parts: Splits) -> Sequence[Workload]:
        """See ``Look``."""
        chosen = _some(parts, num_looks(self.decoding_bytes))
        share = sum(part.bytes for part in parts) / sum(part.bytes for part in chosen)
        return _whole(self.map_input, chosen, self.decoding_bytes, share)

    def with_long_rows(self, seen: Workload, long: Splits) -> Workload:
        """See ``Look``; where memory has no room for such a stretch, what was seen has to do."""
        chosen = _some(long, num_looks(self.decoding_bytes))
        found = _whole(self.map_input, chosen, self.decoding_bytes)
        return replace(seen, max_row_bytes=max(work.max_row_bytes for work in (seen, *found)))


def num_looks(decoding_bytes: int) -> int:
    """Returns how many stretches of an input are read, each of which decodes this much beside its rows."""
    return min(MEASURED_STRETCHES, max(1, DECODED_BYTES // max(decoding_bytes, 1)))


def _num_stretches(source: _native.Source, decoding_bytes: int) -> int:
    """Returns how many stretches are looked at; few where each look decodes a row group."""
    most = num_looks(decoding_bytes)
    num_groups = max(1, source.num_groups)
    group_bytes = source.memory_bytes // num_groups
    if source.rows is None or group_bytes > PAGE_BYTES * len(schema_of(source)):
        return most
    decoded = max(GROUPS_BYTES, source.memory_bytes // GROUPS_SHARE)
    return max(1, min(most, decoded // max(1, group_bytes)))


def decoded_bytes(source: _native.Source, num_columns: int, rows: Workload) -> int:
    """Returns the size of rows that share their pages, as they travel; 0 if columns are few.

    Asking for fewer of these decodes as much. A sort of 2,000 rows of 3,000 columns read one row group in eight parts,
    and took 2.3 s of CPU. In one part it takes 1.6.

    Args:
        source: The files.
        num_columns: The number of columns that are read.
        rows: The size of all rows.
    """
    if source.rows is None or num_columns <= FREE_COLUMNS or not source.memory_bytes:
        return 0
    num_groups = max(1, source.num_groups)
    chunk_bytes = source.memory_bytes / num_groups / len(schema_of(source))
    group_bytes = max(rows.total_bytes, rows.read_bytes) / num_groups
    return int(group_bytes * min(1.0, LEAST_PAGE_BYTES / max(chunk_bytes, 1.0)))


def _some(parts: Splits, count: int) -> list[_native.Split]:
    """Returns about ``count`` parts, evenly spread, with the one whose rows are the largest on average."""
    densest = max(parts, key=lambda part: part.bytes / max(part.size, 1))
    chosen = evenly(list(parts), count) if count > 1 else []
    return chosen if densest in chosen else [*chosen, densest]


def _whole(
    map_input: BatchInput, parts: Splits, decoding_bytes: int, share: float = 1
) -> list[Workload]:
    """Reads parts whole and weighs their rows. Where memory has no room, only their bytes are known, as told."""
    most = current_engine().budget_bytes // 2
    memory = [decoding_bytes + PART_COPIES * part.bytes for part in parts]
    readable = [
        [(part,)] for part, num_bytes in zip(parts, memory, strict=True) if num_bytes <= most
    ]
    found = weighed(map_input, readable, share, max(min(size, most) for size in memory))
    for part, num_bytes in zip(parts, memory, strict=True):
        if num_bytes > most:
            told = int(share * part.bytes)
            num_rows = int(share * part.size)
            found.append(Workload(told, num_rows, read_bytes=told, told_row_bytes=part.bytes))
    return found


def _outside(every: Splits, parts: Splits) -> list[_native.Split]:
    """Returns the stretches that have no rows of any part; both are in the order of the files."""
    starts = [(part.file_index, part.first_row) for part in parts]
    others = []
    for split in every:
        before = bisect.bisect_right(starts, (split.file_index, split.first_row)) - 1
        part = parts[max(before, 0)]
        is_inside = part.file_index == split.file_index and (
            part.first_row <= split.first_row < part.end
        )
        if not is_inside:
            others.append(split)
    return others


def stretches(source: _native.Source, num_bytes: int) -> list[_native.Split]:
    """Returns the stretches that files are looked into by: splits of ``num_bytes``, or larger ones of a large input."""
    return source.splits(stretch_bytes(source, num_bytes))


def stretch_bytes(source: _native.Source, num_bytes: int) -> int:
    """Returns the size that stretches are asked for: ``num_bytes``, or more of a large input."""
    return max(num_bytes, source.memory_bytes // MAX_CANDIDATES)


def num_together(source: _native.Source, every: Splits, num_bytes: int) -> int:
    """Returns how many stretches have ``num_bytes`` together; 1 where files are not small."""
    mean = max(1, source.memory_bytes // max(len(every), 1))
    return min(MAX_TOGETHER, max(1, num_bytes // mean))


def _num_rows(splits: Splits) -> int:
    """Returns the number of rows of splits, 0 where that is not known."""
    return sum(split.rows or 0 for split in splits)
