"""The watchdog on a user's function that hangs: where it is, and which tasks wait for the partitions it holds up."""

from __future__ import annotations

import logging
import os
import re
import threading
from pathlib import Path

import pyarrow as pa

import exoshuffle as xs
from tests.support.generated import generated
from tests.support.oracle import write_files

ROWS = 24_000


def test_a_function_that_hangs_is_told_with_what_waits(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", generated(ROWS), 3, 2000)
    flag = str(tmp_path / "flag")

    def hangs(batch: pa.Table) -> pa.Table:
        while len(batch) and not os.path.exists(flag):
            pass
        return batch

    words = [
        rf"reduce \(attempt 1\) runs for .* in process \d+, in hangs \({__file__}:\d+\)",
        "reduce waits for a CPU",
    ]
    told = threading.Event()
    handler = logging.Handler(logging.WARNING)

    def look(record: logging.LogRecord) -> None:
        if all(re.search(each, record.getMessage()) for each in words):
            told.set()

    handler.emit = look  # type: ignore[method-assign]
    logger = logging.getLogger("exoshuffle")
    xs.init(memory_limit="2GB", spill_dirs=str(tmp_path), num_cpus=2, stall_seconds=0.2)
    logger.addHandler(handler)
    made: list[pa.Table] = []
    rows = xs.read_parquet(source).sort("id", num_partitions=8).map_batches(hangs)
    run = threading.Thread(target=lambda: made.append(rows.to_arrow()))
    run.start()
    try:
        assert told.wait(30)
    finally:
        Path(flag).touch()
        run.join()
        logger.removeHandler(handler)
        xs.shutdown()
    assert made[0].num_rows == ROWS
