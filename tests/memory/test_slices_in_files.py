"""Slices that memory had no room for lie in files, which worker processes cannot map: these get their bytes.

Such a slice of 100 MB took four times its size in the program, and three times in the worker, while it travelled.
"""

from __future__ import annotations

from pathlib import Path

from tests.memory.measuring import measured

SLICE_BYTES = 100_000_000
LIMIT_BYTES = 450_000_000
PROGRAM = """
from exoshuffle.futures import allocate_block, current_engine, get, remote, wait
import exoshuffle as xs

def fill():
    block = allocate_block([0, {size}])
    with memoryview(block) as view:
        for start in range(0, {size}, 1_000_000):
            view[start : start + 1_000_000] = bytes([start % 251]) * 1_000_000
    return block

def told(data):
    with memoryview(data) as view:
        return len(view), view[0], view[-1], view.readonly

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
engine = current_engine()
room = engine.budget_bytes - engine.workers_bytes("process")
made = remote(fill, executor="thread", memory=room - {size} // 2).remote()
wait([made])
assert engine.stats()["fallback_bytes"] >= {size}
print(*get(remote(told, executor="process").remote(made)))
"""


def test_a_slice_in_a_file_travels_once(tmp_path: Path) -> None:
    program = PROGRAM.format(size=SLICE_BYTES, limit=LIMIT_BYTES, folder=str(tmp_path))
    printed, peak_bytes = measured(program)
    last = (SLICE_BYTES - 1_000_000) % 251
    assert printed.split() == [str(SLICE_BYTES), "0", str(last), "True"]
    # The program has the slice, and so has the worker.
    assert peak_bytes <= 3 * SLICE_BYTES
