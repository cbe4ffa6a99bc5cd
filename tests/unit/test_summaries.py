"""The sentence with which a command ends: rows, files, time, memory, and spilled bytes if they are known."""

from __future__ import annotations

import dataclasses

from exoshuffle.cli.running import summary_of
from exoshuffle.dataset.write.write import WriteResult


def test_spilled_bytes_that_are_not_known_are_not_none() -> None:
    file = {"name": "part-0.parquet", "rows": 5, "bytes": 2_000_000, "crc32": 1}
    told = WriteResult("out", 5, 2_000_000, 2.0, 90_000_000, 30_000_000, files=[file])
    assert summary_of(told).splitlines() == [
        "5 rows, 2.00 MB in 1 file -> out",
        "2.00 s, 1.00 MB/s, peak memory 90.0 MB, spilled 30.0 MB",
    ]
    untold = dataclasses.replace(told, spilled_bytes=None)
    assert summary_of(untold).endswith("peak memory 90.0 MB, spilled bytes unknown")
    assert summary_of(dataclasses.replace(told, spilled_bytes=0)).endswith("spilled 0 B")
