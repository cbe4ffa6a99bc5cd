"""Processes that run the engine: they answer each line that they are sent, a case, with one line.

As a program this is their nursery. It has imported the modules that they need, and forks a process whenever it is asked
to. That takes 10 ms instead of half a second.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import duckdb  # noqa: F401  as is everything that cases need
import pyarrow as pa
import pyarrow.parquet

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine  # noqa: F401  likewise
from exoshuffle.observe.memory import peak_resident_bytes
from tests.fuzz.cases import Case
from tests.fuzz.nursery import CRASH


def main() -> None:
    """Forks a process for each pair of pipes that comes, until the parent is gone; tells the process's number."""
    parent = socket.socket(fileno=int(sys.argv[1]))
    # Children that have ended are gone at once.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        word, pipes, _, _ = socket.recv_fds(parent, 1, 2)
        if not word:
            return
        process = os.fork()
        if process == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            parent.close()
            try:
                _answer_all(*pipes)
            finally:
                os._exit(0)
        for pipe in pipes:
            os.close(pipe)
        parent.sendall(process.to_bytes(4, "little"))


def _answer_all(asking: int, answering: int) -> None:
    """Answers until nobody asks; leaves as any program does."""
    with open(asking) as lines, open(answering, "w") as answers:
        for line in lines:
            asked = json.loads(line)
            folder = Path(asked["folder"])
            with (folder / CRASH).open("w") as crash:
                faulthandler.enable(crash)
                answer = _answered(Case.draw(asked["seed"]), folder, asked["engine"])
                faulthandler.disable()
            print(json.dumps(answer), file=answers, flush=True)
    atexit._run_exitfuncs()


def _answered(case: Case, folder: Path, engine: str) -> dict[str, Any]:
    started, used = time.perf_counter(), _cpu_seconds()
    # The peak of resident memory counts from here on.
    Path("/proc/self/clear_refs").write_text("5")
    answer: dict[str, Any] = {"kind": None, "kept": 0}
    try:
        _start(case, folder, engine)
        answer["kept"] = case.sink.write(case.dataset(folder / "in"), folder)
    except Exception as error:  # noqa: BLE001  of which kind is what is asked
        answer = {"kind": _kind(error), "error": str(error)[:600]}
    finally:
        xs.shutdown()
    seconds, cpu_seconds = time.perf_counter() - started, _cpu_seconds() - used
    return answer | {"seconds": seconds, "cpu": cpu_seconds, "peak": peak_resident_bytes()}


def _kind(error: Exception) -> str:
    """Returns the name of the error's class; pyarrow passes errors of streams on as text."""
    if isinstance(error, pa.ArrowException) and "memory limit" in str(error):
        return "MemoryLimitError"
    return type(error).__name__


def _start(case: Case, folder: Path, engine: str) -> None:
    if engine == "ray":
        _connect()
        xs.init("ray")
    else:
        xs.init(memory_limit=case.memory_limit, num_cpus=case.num_cpus, spill_dirs=str(folder))


@functools.cache
def _connect() -> Any:
    """Starts one Ray for all cases."""
    import ray

    from exoshuffle.engines.ray.starting import system_config

    os.environ.pop("RAY_ADDRESS", None)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    start = functools.partial(
        ray.init,
        address="local",
        num_cpus=2,
        object_store_memory=200_000_000,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        _system_config=system_config(2),
    )
    with contextlib.suppress(Exception):
        return start()
    # On a busy machine Ray takes longer than it waits.
    return start()


def _cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    main()
