"""Functions that take more memory than they declared are stopped before the program exceeds its limit, by name."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.memory.measuring import measured
from tests.memory.tables import write_table

LIMIT_BYTES = 512_000_000
PROGRAM = """
import os, sys
import exoshuffle as xs
from exoshuffle.errors import MemoryLimitError, TaskError

def taking(num_bytes):
    def greedy(rows, *_):
        # Not where the schema is learnt.
        taken = bytearray(b"x") * num_bytes if getattr(rows, "num_rows", 1) else None
        return rows
    return greedy

def forking(num_bytes, num_children=1, own=0):
    # Memory in children of its worker, and some that they have in common with it.
    def parent(rows, *_):
        import multiprocessing
        if getattr(rows, "num_rows", 1) == 0:
            return rows
        shared = bytearray(b"x") * own
        def child():
            taken = bytearray(b"x") * num_bytes
            assert shared.count(b"x") == own and len(taken) == num_bytes
        fork = multiprocessing.get_context("fork")
        children = [fork.Process(target=child) for _ in range(num_children)]
        for one in children:
            one.start()
        for one in children:
            one.join()
        assert [one.exitcode for one in children] == [0] * num_children
        return rows
    return parent

def mapping(num_bytes):
    # Memory that processes could share, which is none of the worker's own.
    def sharer(rows, *_):
        import mmap
        if getattr(rows, "num_rows", 1) == 0:
            return rows
        with mmap.mmap(-1, num_bytes) as shared:
            for place in range(0, num_bytes, mmap.PAGESIZE):
                shared[place] = 1
        return rows
    return sharer

def mapping_in_waves(num_bytes, num_waves):
    # The processor is busy with something else between the waves.
    def sharer(number):
        import mmap
        block = b"x" * (1 << 20)
        with mmap.mmap(-1, num_waves * num_bytes) as shared:
            for _ in range(num_waves):
                for _ in range(num_bytes >> 20):
                    shared.write(block)
                sum(range(3_000_000))
        return number
    return sharer

def mapping_twice(num_bytes):
    # The same memory in two processes, of which none has more than a part alone.
    def sharer(rows, *_):
        import mmap, os, socket
        if getattr(rows, "num_rows", 1) == 0:
            return rows
        with mmap.mmap(-1, num_bytes) as shared:
            mine, other = socket.socketpair()
            child = os.fork()
            for start in range(0, num_bytes, 1 << 22):
                for place in range(start, min(start + (1 << 22), num_bytes), mmap.PAGESIZE):
                    shared[place] = 1
                # None is ahead of the other.
                (mine if child else other).send(b".")
                (mine if child else other).recv(1)
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        return rows
    return sharer

def starting(num_bytes):
    # Memory in a program that a program starts which its worker has started.
    inner = f"import sys; taken = bytearray(b'x') * {{num_bytes}}; sys.stdin.read()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {{inner!r}}], stdin=-3)"
    def starter(number):
        import subprocess
        subprocess.run([sys.executable, "-c", outer], check=True)
        return number
    return starter

class Greedy:
    def grow(self, num_bytes):
        self.taken = bytearray(b"x") * num_bytes
        return len(self.taken)

xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
rows, groups = xs.read_parquet({source!r} + "/*.parquet"), xs.read_parquet({source!r} + "/groups")
try:
    made = {made}
except MemoryLimitError as error:
    made = error
except TaskError as error:
    made = error.__cause__
sys.stdout.write(f"{{type(made).__name__}}: {{made}}")
"""
HUGE = "450_000_000"
#: Requests, and their outcomes.
WAYS = {
    "batches": (
        f"rows.map_batches(taking({HUGE})).write_parquet(OUT).rows",
        r"FunctionMemoryError: taking.<locals>.greedy, in task scan, had \d+ MB .*Declare with memory=",
    ),
    "declared": (
        "rows.map_batches(taking(180_000_000), memory='190MB').write_parquet(OUT).rows",
        "int: 120000",
    ),
    "declared too little": (
        "rows.map_batches(taking(600_000_000), memory='100MB').write_parquet(OUT).rows",
        "FunctionMemoryError: .*greedy",
    ),
    "more than there is": (
        "rows.map_batches(taking(1), memory='600MB').write_parquet(OUT).rows",
        "MemoryLimitError: task learn the schema declares 6.. MB .*raise memory_limit to",
    ),
    "little": ("rows.map_batches(taking(50_000_000)).write_parquet(OUT).rows", "int: 120000"),
    "before a shuffle": (
        "rows.map_batches(taking(180_000_000), memory='190MB').sort('key').write_parquet(OUT).rows",
        "int: 120000",
    ),
    "behind a shuffle": (
        f"rows.sort('key').map_batches(taking({HUGE})).write_parquet(OUT).rows",
        "FunctionMemoryError: .*greedy, in task reduce",
    ),
    "groups": (
        f"groups.group_by('g').map_groups(taking({HUGE})).write_parquet(OUT).rows",
        "FunctionMemoryError: .*greedy, in task reduce",
    ),
    "declared groups": (
        "groups.group_by('g').map_groups(taking(180_000_000), memory='190MB')"
        ".write_parquet(OUT).rows",
        "int: 120000",
    ),
    "a task": (
        f"xs.get([xs.remote(taking({HUGE})).remote(n) for n in range(2)])",
        "FunctionMemoryError: task greedy had",
    ),
    "a declared task": (
        "xs.get([xs.remote(memory='300MB')(taking(300_000_000)).remote(n) for n in range(3)])",
        r"list: \[0, 1, 2\]",
    ),
    "children": (
        f"rows.map_batches(forking({HUGE})).write_parquet(OUT).rows",
        r"FunctionMemoryError: forking.<locals>.parent, in task scan, had \d+ MB of memory in its worker process and 1 "
        "that it started, .*Declare with memory=",
    ),
    "shared memory": (
        f"rows.map_batches(mapping({HUGE})).write_parquet(OUT).rows",
        r"FunctionMemoryError: mapping.<locals>.sharer, in task scan, had \d+ MB",
    ),
    "shared memory of two processes": (
        f"rows.map_batches(mapping_twice({HUGE})).write_parquet(OUT).rows",
        r"FunctionMemoryError: mapping_twice.<locals>.sharer, in task scan, had \d+ MB",
    ),
    "declared shared memory of two processes": (
        "rows.map_batches(mapping_twice(150_000_000), memory='190MB').write_parquet(OUT).rows",
        "int: 120000",
    ),
    "declared shared memory": (
        "rows.map_batches(mapping(180_000_000), memory='190MB').write_parquet(OUT).rows",
        "int: 120000",
    ),
    "shared memory in waves that fits": (
        "xs.get(xs.remote(mapping_in_waves(80_000_000, 4)).remote(1))",
        "int: 1",
    ),
    "shared memory beside a full store": (
        "[kept := [xs.put(os.urandom(10_000_000)) for _ in range(15)], "
        "xs.get(xs.remote(mapping(330_000_000)).remote(1))]",
        r"FunctionMemoryError: task sharer had \d+ MB",
    ),
    "children that read": (
        "rows.map_batches(forking(0, 4, 100_000_000), memory='160MB').write_parquet(OUT).rows",
        "int: 120000",
    ),
    "grandchildren": (
        f"xs.get(xs.remote(starting({HUGE})).remote(1))",
        r"FunctionMemoryError: task starter had \d+ MB of memory in its worker process and 2 that it started",
    ),
    "an actor": (
        "xs.get(xs.remote(Greedy).remote().grow.remote(600_000_000))",
        "FunctionMemoryError: task .*grow.* had",
    ),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes 24 MB, and a table of four groups."""
    folder = write_table(tmp_path_factory.mktemp("greedy") / "in", 2, 60_000, 192)
    (folder / "groups").mkdir()
    numbers = pa.array(range(120_000), pa.int64())
    groups = pa.table({"g": pc.bit_wise_and(numbers, 3), "n": numbers})
    pq.write_table(groups, folder / "groups/0.parquet")
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_the_program_stays_within_memory(way: str, source: Path, tmp_path: Path) -> None:
    made, wanted = WAYS[way]
    program = PROGRAM.format(
        limit=LIMIT_BYTES,
        folder=str(tmp_path),
        source=str(source),
        made=made.replace("OUT", repr(str(tmp_path / "out"))),
    )
    printed, peak_bytes = measured(program)
    assert re.match(wanted, printed), printed
    assert peak_bytes <= LIMIT_BYTES


#: One task leaves 60 MB in its worker, as a library would; the next takes what it has declared, beside a full store.
AFTER_ANOTHER = """
import os, sys, time
import exoshuffle as xs
from exoshuffle.engines.local.memory import limits

def leave():
    os.left_behind = bytearray(60_000_000)
    os.left_behind[::4096] = os.left_behind[::4096]
    return os.getpid()

def within():
    taken = bytearray(62_000_000)
    taken[::4096] = taken[::4096]
    time.sleep(0.5)
    return os.getpid()

xs.init(memory_limit=limits.limit_for(200_000_000), num_cpus=1, spill_dirs=[{folder!r}])
kept = [xs.put(bytes([number]) * 10_000_000) for number in range(10)]
before = xs.get(xs.remote(leave, memory=70_000_000).remote())
after = xs.get(xs.remote(within, memory=70_000_000).remote())
sys.stdout.write("in another process" if after != before else "in the same process")
"""


def test_what_another_task_has_left_is_not_blamed_on_the_next(tmp_path):
    printed, _ = measured(AFTER_ANOTHER.format(folder=str(tmp_path)))
    assert printed == "in another process"
