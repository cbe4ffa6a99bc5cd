"""Generators whose rows are long: a few are held at a time, as far as they are seen to be long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import exoshuffle as xs
from exoshuffle.engines.local.memory import limits

NUM_ROWS, ROW_BYTES = 60, 10_000_000


def frames() -> Iterator[dict[str, object]]:
    """Sixteen of them are more than the memory of the engine."""
    for number in range(NUM_ROWS):
        yield {"number": number, "pixels": bytes([number]) * ROW_BYTES}


def test_long_rows_are_taken_a_few_at_a_time(tmp_path: Path) -> None:
    with xs.init(memory_limit=limits.limit_for(130_000_000), spill_dirs=str(tmp_path)):
        found = [
            (row["number"], row["pixels"][:1], len(row["pixels"]))
            for row in xs.from_generator(frames).iter_rows()
        ]
    assert found == [(number, bytes([number]), ROW_BYTES) for number in range(NUM_ROWS)]
