"""Loses objects of the embedded engine: has them spilled, and damages their bytes on disk.

The engine's store is memory of the driver, so an object is lost with the driver or by its disk. The checksum of a
spilled slice tells the latter. Tests of faults do the same.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine

_FILLER_BYTES = 5_000_000


def lose(engine: LocalEngine, refs: Sequence[xs.Ref]) -> None:
    """Loses objects that lie in the store, so that they have to be made again from now on."""
    xs.wait(refs, num_ready=len(refs))
    before = engine.stats()["spilled_bytes"]
    # The oldest blocks go to disk first.
    fillers = [xs.put(bytes(_FILLER_BYTES)) for _ in range(engine.budget_bytes // _FILLER_BYTES)]
    del fillers
    gc.collect()
    assert engine.stats()["spilled_bytes"] > before
    assert sum(map(damage_spill_files, map(Path, engine.spill_dirs))) > 0


def damage_spill_files(directory: Path) -> int:
    """Flips bits all over the unlinked spill files that this process has below ``directory``; returns their number."""
    damaged = 0
    for descriptor in os.listdir("/proc/self/fd"):
        link = f"/proc/self/fd/{descriptor}"
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith(f"{directory.resolve()}/") and target.endswith(" (deleted)"):
            with open(link, "r+b", buffering=0) as file:
                _flip_bits(file.fileno())
            damaged += 1
    return damaged


def _flip_bits(file: int) -> None:
    """Flips one bit in every 4 KiB, so that no slice is spared."""
    for offset in range(100, os.fstat(file).st_size, 4096):
        (byte,) = os.pread(file, 1, offset)
        os.pwrite(file, bytes([byte ^ 1]), offset)
