"""gensort: files of 100-byte records with 10-byte keys, the same bytes as Ordinal's gensort makes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from exoshuffle import _native
from exoshuffle.cloudsort.parallel import on_all_cpus
from exoshuffle.dataset.commit import OutputDirectory
from exoshuffle.errors import OptionsError, OutputError

RECORD_BYTES = 100
#: Records per file unless the number of files is given: 1 GB, so that a few tasks can work side by side.
RECORDS_PER_FILE = 10_000_000
#: Records are numbered with 128 bits.
MAX_RECORDS = 2**128


@dataclass(frozen=True)
class GensortResult:
    """What gensort made.

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
    overwrite: bool = False,
) -> GensortResult:
    """Makes a directory of gensort records, ``part-00000.dat`` and so on.

    Args:
        path: The directory.
        num_records: How many records of 100 bytes.
        start: Number of the first record (gensort's ``-b``); numbers have 128 bits.
        partitions: Number of files; default: one per GB, at least one per CPU for more than 10 MB.
        ascii: Printable records (gensort's ``-a``), else binary.
        skew: Skewed keys (gensort's ``-s``).
        overwrite: Replace what is there.

    Raises:
        OptionsError: A number that cannot work.
        OutputError: The output exists or cannot be written.

    Cost: one pass at the speed of the disk, 4 MiB buffers.
    """
    if num_records < 0 or start < 0:
        raise OptionsError(f"{num_records} records from {start}: neither may be negative")
    if start + num_records > MAX_RECORDS:
        raise OptionsError(
            f"{num_records} records from {start} end beyond record 2**128 - 1, the last that there is; start lower"
        )
    cpus = len(os.sched_getaffinity(0))
    if partitions is None:
        partitions = max(
            -(-num_records // RECORDS_PER_FILE), min(cpus, -(-num_records // 100_000)), 1
        )
    if partitions < 1:
        raise OptionsError(f"{partitions} partitions; there must be at least 1")
    started = time.monotonic()
    with OutputDirectory(path, [], overwrite) as output:

        def make(index: int, stop: _native.Stop) -> dict[str, Any]:
            first = index * num_records // partitions
            count = (index + 1) * num_records // partitions - first
            name = f"part-{index:05}.dat"
            file = str(output.staging / name)
            size, crc32 = _native.gensort_file(file, start + first, count, ascii, skew, stop)
            if size != count * RECORD_BYTES:
                raise OutputError(
                    f"{file!r} has {size} bytes, and {count} records have {count * RECORD_BYTES}; run it again"
                )
            return {"name": name, "rows": count, "bytes": size, "crc32": crc32}

        files = on_all_cpus(make, range(partitions))
        output.commit(files)
    return GensortResult(
        path=str(path),
        records=num_records,
        bytes=num_records * RECORD_BYTES,
        files=partitions,
        seconds=time.monotonic() - started,
    )
