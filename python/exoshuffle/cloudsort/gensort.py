"""gensort: makes files of 100-byte records with 10-byte keys, the same bytes as Ordinal's gensort."""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass

from exoshuffle import _native
from exoshuffle.arguments import check_flag, is_whole
from exoshuffle.cloudsort.files import each_file
from exoshuffle.dataset.files.paths import local_path
from exoshuffle.dataset.write.directory import OutputDirectory
from exoshuffle.dataset.write.existing import Overwrite, check_overwrite
from exoshuffle.engines.machine import usable_cpus
from exoshuffle.errors import OptionsError, OutputError
from exoshuffle.observe.disks import free_bytes
from exoshuffle.observe.progress import Progress
from exoshuffle.operators.core.sinks import PartFile
from exoshuffle.units import format_bytes

RECORD_BYTES = 100
#: Records per file unless the number of files is given: 1 GB, so that a few tasks can work side by side.
RECORDS_PER_FILE = 10_000_000
#: The numbers in file names have five digits.
MAX_FILES = 100_000
#: Records are numbered with 128 bits.
MAX_RECORDS = 2**128


@dataclass(frozen=True)
class GensortResult:
    """The result of gensort.

    Attributes:
        path: The directory.
        records: Number of records.
        bytes: Size of all files.
        files: Number of files.
        seconds: Wall time.
    """

    path: str
    records: int
    bytes: int
    files: int
    seconds: float


def gensort(  # noqa: PLR0913  the options of Ordinal's gensort
    path: str | os.PathLike[str],
    num_records: int,
    *,
    start: int = 0,
    partitions: int | None = None,
    ascii: bool = False,  # noqa: A002  Ordinal's name for it
    skew: bool = False,
    overwrite: Overwrite = False,
    progress: Progress | None = None,
) -> GensortResult:
    """Makes a directory of gensort records, ``part-00000.dat`` and so on.

    Args:
        path: The directory, as ``write_parquet`` takes it.
        num_records: Number of records of 100 bytes.
        start: Number of the first record (gensort's ``-b``); numbers have 128 bits.
        partitions: Number of files; default: one per GB, at least one per CPU for more than 10 MB.
        ascii: Printable records (gensort's ``-a``), else binary.
        skew: Skewed keys (gensort's ``-s``).
        overwrite: As in ``write_parquet``.
        progress: Is told of every finished file.

    Raises:
        OptionsError: A number that cannot work.
        OutputError: The output exists or cannot be written, or its disk has not that much room.

    Cost: one pass at the speed of the disk, 4 MiB buffers.
    """
    path = local_path(path, OutputError)
    check_overwrite(overwrite)
    check_flag("ascii", ascii)
    check_flag("skew", skew)
    _check_whole(
        num_records=num_records, start=start, partitions=0 if partitions is None else partitions
    )
    if partitions is None:
        partitions = _default_partitions(num_records)
    _check(num_records, start, partitions)
    started = time.monotonic()
    with OutputDirectory(path, [], overwrite) as output:
        _check_room(output.path, num_records)
        bounds = [index * num_records // partitions for index in range(partitions + 1)]
        counts = [end - first for first, end in itertools.pairwise(bounds)]

        def make(index: int, stop: _native.Stop) -> PartFile:
            name, count = f"part-{index:05}.dat", counts[index]
            file = str(output.staging / name)
            size, crc32 = _native.gensort_file(
                file, start + bounds[index], count, ascii, skew, stop
            )
            if size != count * RECORD_BYTES:
                raise OutputError(
                    f"{file!r} has {size} bytes, and {count} records have {count * RECORD_BYTES}; run it again"
                )
            return {"name": name, "rows": count, "bytes": size, "crc32": crc32}

        files = each_file(make, [count * RECORD_BYTES for count in counts], progress)
        output.commit(files)
    return GensortResult(
        path=path,
        records=num_records,
        bytes=num_records * RECORD_BYTES,
        files=partitions,
        seconds=time.monotonic() - started,
    )


def _default_partitions(num_records: int) -> int:
    wanted = max(
        -(-num_records // RECORDS_PER_FILE), min(usable_cpus(), -(-num_records // 100_000)), 1
    )
    return min(wanted, MAX_FILES)


def _check_whole(**numbers: object) -> None:
    for name, number in numbers.items():
        if not is_whole(number):
            raise OptionsError(f"{name} is {number!r}; it must be a whole number")


def _check(num_records: int, start: int, partitions: int) -> None:
    if num_records < 0 or start < 0:
        raise OptionsError(f"{num_records} records from {start}: neither may be negative")
    if start + num_records > MAX_RECORDS:
        raise OptionsError(
            f"{num_records} records from {start}: the last record there is has number {MAX_RECORDS - 1}; ask for fewer"
        )
    if not 1 <= partitions <= MAX_FILES:
        raise OptionsError(
            f"{partitions} partitions; there must be at least 1 and at most {MAX_FILES}"
        )


def _check_room(path: _native.StoredPath, num_records: int) -> None:
    free = free_bytes([str(path.parents[0])])
    if free is not None and num_records * RECORD_BYTES > free:
        raise OutputError(
            f"{num_records} records take {format_bytes(num_records * RECORD_BYTES)}, and the disk of {path} has "
            f"{format_bytes(free)} free; ask for fewer, or for another disk"
        )
