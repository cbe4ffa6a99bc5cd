"""valsort: checks the order of record files, within and across files, and sums their checksum and duplicates."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from exoshuffle import _native
from exoshuffle.cloudsort.files import each_file
from exoshuffle.observe.progress import Progress


@dataclass(frozen=True)
class ValsortResult:
    """The result of valsort.

    Attributes:
        records: Number of records.
        checksum: Sum of the CRC-32 of all records, in hexadecimal, as valsort prints it.
        duplicates: Records whose key equals the previous one.
        unordered: Records whose key is less than the previous one.
        first_unordered: Number (from 0) of the first such record over all files; None if sorted.
        first_unordered_file: The file that this record is in.
        first_unordered_index: Its number within that file.
        seconds: Wall time.
    """

    records: int
    checksum: str
    duplicates: int
    unordered: int
    first_unordered: int | None
    first_unordered_file: str | None
    first_unordered_index: int | None
    seconds: float

    @property
    def is_sorted(self) -> bool:
        """Whether all records are in order."""
        return self.unordered == 0


def valsort(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    record_size: int = 100,
    key_size: int = 10,
    progress: Progress | None = None,
) -> ValsortResult:
    """Checks record files in the order of their names (directories, globs) or as given; tells ``progress`` of each.

    Raises:
        InputError: A path is missing, or a file's size is no multiple of the record's.

    Cost: one pass over the files, one file per CPU at a time.
    """
    from exoshuffle.dataset.read import read_records

    started = time.monotonic()
    files = read_records(paths, record_size=record_size, key_size=key_size).files
    summaries = each_file(
        lambda index, stop: _native.valsort_file(files[index], record_size, key_size, stop),
        [os.path.getsize(file) for file in files],
        progress,
    )
    total = _native.combine_summaries(summaries)
    file, index = _locate(files, [summary.records for summary in summaries], total.first_unordered)
    return ValsortResult(
        records=total.records,
        checksum=f"{total.checksum:x}",
        duplicates=total.duplicates,
        unordered=total.unordered,
        first_unordered=total.first_unordered,
        first_unordered_file=file,
        first_unordered_index=index,
        seconds=time.monotonic() - started,
    )


def _locate(
    files: list[str], records: list[int], position: int | None
) -> tuple[str | None, int | None]:
    """Returns the file of a record, and its number there."""
    if position is not None:
        for file, count in zip(files, records, strict=True):
            if position < count:
                return file, position
            position -= count
    return None, None
