"""Programs that fork while they have an engine: ``python -m tests.faults.forked WHAT FOLDER``; each says ``done``."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import exoshuffle as xs
from exoshuffle.errors import ForkedEngineError

#: Rows of the dataset.
NUM_ROWS = 50_000
#: Generous: a child that waits for something that never comes fails the test, and does not hang it.
_PATIENCE_SECONDS = 60


def init() -> None:
    """Starts an engine; a child may call it too."""
    xs.init(memory_limit="500MB", num_cpus=2, spill_dirs=sys.argv[2])


def dataset(seed: int = 1) -> xs.Dataset:
    """Returns rows in random order."""
    return xs.read_parquet(str(Path(sys.argv[2]).parent / "in.parquet")).random_shuffle(seed)


def numbers(rows: xs.Dataset) -> list[int]:
    """Returns the numbers in the dataset, in its order."""
    return [number for batch in rows.iter_batches() for number in batch["n"].to_pylist()]


def double(number: int) -> int:
    """Doubles a number, as a task."""
    return 2 * number


def _count(number: int) -> Iterator[int]:
    yield from range(number)


class Adder:
    """An actor."""

    def add(self, one: int, other: int) -> int:
        """Returns the sum."""
        return one + other


def await_child(process: int) -> int:
    """Returns the status of a child; kills one that does not end."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise AssertionError("a child waits for ever")


def in_child(run: Any) -> int:
    """Runs a function in a forked child; returns its status."""
    process = os.fork()
    if process == 0:
        try:
            run()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  told, whatever it is
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(9)
    return await_child(process)


def expect_refused(use: Any, parent: int) -> None:
    """Checks that the error says which process has the engine, and what to do."""
    with pytest.raises(ForkedEngineError, match=rf"process {parent}, .*init\(\)"):
        use()


def implicit_use() -> None:
    """Checks that every public call in a child is refused at once; the parent goes on."""
    parent = os.getpid()
    init()
    engine = xs.futures.current_engine()
    remote, kept = xs.remote(double), xs.put(b"x" * 1_000_000)
    actor = xs.remote(Adder).remote()
    assert xs.get(actor.add.remote(1, 2)) == 3
    stream = xs.remote(_count, num_returns="streaming").remote(5)
    batches = dataset().iter_batches()
    begun = next(batches)
    uses = [
        lambda: xs.get(kept),
        lambda: xs.put(b"y" * 1_000_000),
        lambda: remote.remote(1),
        lambda: xs.wait([kept]),
        lambda: xs.cancel(kept),
        lambda: xs.locate(kept),
        lambda: xs.slice_bytes([kept]),
        xs.nodes,
        lambda: xs.remote(Adder).remote(),
        lambda: actor.add.remote(1, 2),
        lambda: xs.kill(actor),
        lambda: next(stream),
        lambda: dataset().to_arrow(),
        lambda: dataset().write_parquet(sys.argv[2] + "/never"),
        lambda: dataset().explain(),
        lambda: list(batches),
        engine.stats,
        lambda: engine.put(1),
        lambda: engine.submit(double, (1,), {}, xs.TaskOptions()),
        lambda: engine.budget_bytes,
    ]

    def child() -> None:
        for use in uses:
            expect_refused(use, parent)
        engine.close()
        xs.shutdown()

    assert in_child(child) == 0
    assert xs.get(kept) == b"x" * 1_000_000
    assert xs.get(actor.add.remote(3, 4)) == 7
    assert [xs.get(ref) for ref in stream] == [0, 1, 2, 3, 4]
    rest = sum(batch.num_rows for batch in batches)
    assert begun.num_rows + rest == NUM_ROWS


def ends() -> None:
    """Checks that children that end in all ways, holding references, blocks and batches, harm nothing."""
    init()
    kept = [xs.put(bytes([number]) * 2_000_000) for number in range(8)]
    seen = pa.array(range(1_000_000))
    held = xs.get(xs.put(seen))
    batches = dataset().iter_batches()
    next(batches)

    def leave_by_name() -> None:
        nonlocal kept, held, batches
        del kept, held, batches
        sys.exit(5)

    ways = {
        lambda: os._exit(3): 3 << 8,
        leave_by_name: 5 << 8,
        lambda: 1 // 0: 1 << 8,
        lambda: os.kill(os.getpid(), signal.SIGKILL): signal.SIGKILL,
        lambda: os.kill(os.getpid(), signal.SIGTERM): signal.SIGTERM,
        xs.shutdown: 0,
    }
    for way, expected in ways.items():
        process = os.fork()
        if process == 0:
            # The child unwinds, so that the parent's open contexts are left, and atexit runs, as in a program of its
            # own.
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115  until the process ends
            sys.argv[0] = "child"
            raise SystemExit(_ended(way))
        assert await_child(process) == expected, way
        assert [xs.get(ref)[:1] for ref in kept] == [bytes([number]) for number in range(8)]
    assert held.equals(seen)
    assert xs.get(xs.remote(double).remote(4)) == 8
    assert sum(batch.num_rows for batch in batches) > 0


def _ended(way: Any) -> int:
    try:
        way()
    except ZeroDivisionError:
        return 1
    return 0


def own_engines() -> None:
    """Runs children with engines of their own, at once, while threads of the parent use its engine."""
    init()
    expected = numbers(dataset())
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            assert xs.get(xs.remote(double, executor="thread").remote(4)) == 8

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()

    def child() -> None:
        init()
        assert numbers(dataset()) == expected
        assert dataset().group_by().agg(n=("n", "count")).to_arrow()["n"].to_pylist() == [NUM_ROWS]
        xs.shutdown()

    assert [in_child(child) for _ in range(3)] == [0, 0, 0]
    stop.set()
    for thread in threads:
        thread.join()
    assert numbers(dataset()) == expected


def _square(number: int) -> int:
    return number * number


def _total(seed: int) -> int:
    """Sums in a process that has no engine, or starts one of its own."""
    init()
    total = sum(numbers(dataset(seed)))
    xs.shutdown()
    return total


def pools() -> None:
    """Uses ``multiprocessing`` by fork, spawn and forkserver: without the engine, and with one of their own."""
    init()
    kept = xs.put(b"z" * 1_000_000)
    total = NUM_ROWS * (NUM_ROWS - 1) // 2
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map_async(_square, range(4)).get(_PATIENCE_SECONDS) == [0, 1, 4, 9]
            assert pool.map_async(_total, [1, 2]).get(_PATIENCE_SECONDS) == [total, total]
        assert xs.get(kept)[:1] == b"z"


def _load(worker: int, queue: Any) -> None:
    init()
    for batch in dataset(worker).iter_batches():
        queue.put(batch["n"].to_pylist())
    queue.put(None)


def loader() -> None:
    """Acts as a data loader: workers are forked while the parent iterates, and iterate themselves."""
    init()
    mine = dataset(9).iter_batches()
    rows = next(mine).num_rows
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_load, args=(number, queue)) for number in range(2)]
    for worker in workers:
        worker.start()
    ended, seen = 0, []
    while ended < len(workers):
        found = queue.get(timeout=_PATIENCE_SECONDS)
        ended += found is None
        seen += found or []
    for worker in workers:
        worker.join(_PATIENCE_SECONDS)
        assert worker.exitcode == 0
    assert sorted(seen) == sorted([*range(NUM_ROWS), *range(NUM_ROWS)])
    assert rows + sum(batch.num_rows for batch in mine) == NUM_ROWS


def server() -> None:
    """Acts as a server that forks its workers: the first one starts an engine, and one that dies is replaced."""
    init()
    kept = xs.put(b"s" * 1_000_000)

    def serve() -> None:
        init()
        assert xs.get(xs.remote(double).remote(21)) == 42
        os.kill(os.getpid(), signal.SIGTERM)

    for _ in range(3):
        assert in_child(serve) == signal.SIGTERM
    assert xs.get(kept)[:1] == b"s"


def prefork() -> None:
    """Acts as a server that makes its dataset, forks, and only then asks for rows, in all of the processes."""
    rows = dataset()

    def serve() -> None:
        assert sorted(numbers(rows)) == [*range(NUM_ROWS)]

    assert [in_child(serve) for _ in range(2)] == [0, 0]
    serve()


def nested() -> None:
    """Calls ``fork`` and ``subprocess`` in the functions of tasks, in worker processes and on threads."""
    init()

    def forking(how: str) -> str:
        if how == "subprocess":
            return subprocess.run(["echo", "hi"], stdout=-1, check=True, text=True).stdout  # noqa: S607
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            try:
                xs.put(b"x" * 500_000)
            except ForkedEngineError as error:
                os.write(writing, type(error).__name__.encode())
            if how == "returns":
                return "nobody gets this"
            if how == "raises":
                raise KeyError(how)
            os._exit(0)
        os.close(writing)
        await_child(process)
        with os.fdopen(reading) as told:
            return told.read()

    for executor in ("process", "thread"):
        run = xs.remote(forking, executor=executor)
        hows = ("exits", "returns", "raises", "subprocess")
        told = [xs.get(run.remote(how), timeout=_PATIENCE_SECONDS) for how in hows]
        assert told == [*["ForkedEngineError"] * 3, "hi\n"], told


def lives_on() -> None:
    """Checks that a child lives on when its parent has been killed: the parent's workers end all the same."""
    init()
    worker = xs.get(xs.remote(os.getpid).remote())
    process = os.fork()
    if process == 0:
        signal.pause()
    sys.stdout.write(f"{worker} {process}\n")
    sys.stdout.flush()
    signal.pause()


#: The programs that end by themselves.
PROGRAMS = {
    one.__name__: one
    for one in (implicit_use, ends, own_engines, pools, loader, server, prefork, nested)
}


if __name__ == "__main__":
    made = Path(sys.argv[2]).parent / "in.parquet"
    if not made.exists():
        parquet.write_table(pa.table({"n": range(NUM_ROWS)}), made)
    (PROGRAMS | {"lives_on": lives_on})[sys.argv[1]]()
    xs.shutdown()
    sys.stdout.write("done\n")
