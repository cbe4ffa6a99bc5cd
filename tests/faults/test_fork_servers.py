"""Where workers come from: servers that fork them, and what becomes of tasks when a server ends."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.tasks import deaths
from exoshuffle.engines.local.workers import servers, wire
from exoshuffle.engines.local.workers.home import reserved_bytes
from exoshuffle.engines.local.workers.servers import Servers
from exoshuffle.errors import TaskError, WorkerDiedError
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Counter, helper, poll
from exoshuffle.testing.programs import double
from tests.faults.fuzz import has_ended
from tests.faults.leftovers import checked_engine
from tests.faults.programs import Spot
from tests.support.worker_processes import worker_processes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """An engine with room for six workers; checks that nothing is left."""
    with checked_engine(reserved_bytes(6) * 4 // 3 + 10_000_000, tmp_path) as made:
        yield made


def kill(process: psutil.Process) -> None:
    process.kill()
    poll(lambda: has_ended(process.pid))


def kill_servers() -> None:
    """Ends what workers are forked from."""
    for server in psutil.Process().children():
        kill(server)


def place() -> tuple[int, int]:
    return os.getpid(), os.getppid()


def count_and_wait(attempts: Any, spot: Spot) -> int:
    attempt: int = xs.get(attempts.add.remote())
    if attempt == 1:
        spot.stop_here()
    return attempt


@pytest.mark.usefixtures("engine")
def test_two_workers_that_wait_for_one_server_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says once that it forks: who waits for that when another has heard it would wait for ever."""
    num_waiting, both_wait, receive = 0, threading.Event(), servers.Server._receive

    class Poll:
        def __init__(self) -> None:
            self._poll = select.poll()
            self.register = self._poll.register

        def poll(self, *timeout: int) -> list[tuple[int, int]]:
            nonlocal num_waiting
            num_waiting += 1
            if num_waiting == 2:
                both_wait.set()
            return self._poll.poll(*timeout)

    def received(self: servers.Server) -> bytes:
        answer = receive(self)
        if answer == wire.FORKS:
            both_wait.wait(0.3)  # in vain where one waits at a time
        return answer

    monkeypatch.setattr(servers, "select", SimpleNamespace(poll=Poll, POLLIN=select.POLLIN))
    monkeypatch.setattr(servers.Server, "_receive", received)
    refs = [xs.remote(double).remote(number) for number in range(2)]
    assert xs.get(refs, timeout=PATIENCE_SECONDS) == [0, 2]


# --- servers that end -----------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
def test_a_task_goes_on_without_its_server() -> None:
    attempts, spot = helper(Counter), Spot()
    task = xs.remote(count_and_wait, max_retries=0).remote(attempts, spot)
    worker = spot.process()
    kill_servers()
    spot.open()
    assert xs.get(task, timeout=PATIENCE_SECONDS) == 1
    # But it is no more of the program's tree, so that others get the tasks after it.
    found = [xs.get(xs.remote(place).remote(), timeout=PATIENCE_SECONDS) for _ in range(4)]
    assert worker not in [process for process, _ in found]
    assert {parent for _, parent in found} <= {each.pid for each in psutil.Process().children()}


@pytest.mark.usefixtures("engine")
def test_the_death_of_a_worker_without_server_is_seen() -> None:
    attempts, spot = helper(Counter), Spot()
    task = xs.remote(count_and_wait, max_retries=1).remote(attempts, spot)
    worker = spot.process()
    kill_servers()
    os.kill(worker, signal.SIGKILL)
    assert xs.get(task, timeout=PATIENCE_SECONDS) == 2
    spot.open()


def test_a_server_says_nothing_where_its_program_has_ended() -> None:
    """A program that SIGTERM ended while its server started left a traceback of a broken pipe."""
    engine, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    engine.close()
    with control:
        arguments = [json.dumps(sys.path), str(control.fileno()), "[]"]
        command = [sys.executable, "-c", servers._START, *arguments]
        done = subprocess.run(
            command, pass_fds=[control.fileno()], capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("engine")
def test_an_idle_worker_ends_after_its_server() -> None:
    """It kept its memory until another task, or the end of the engine."""
    worker, _ = xs.get(xs.remote(place).remote())
    kill_servers()
    poll(lambda: has_ended(worker))


@pytest.mark.usefixtures("engine")
def test_an_idle_actor_goes_on_without_its_server() -> None:
    counter = xs.remote(Counter).remote()
    assert xs.get(counter.add.remote()) == 1
    kill_servers()
    time.sleep(0.5)
    assert xs.get(counter.add.remote(), timeout=PATIENCE_SECONDS) == 2


@pytest.mark.usefixtures("engine")
def test_an_idle_worker_without_server_is_not_used_again() -> None:
    first, _ = xs.get(xs.remote(place).remote())
    kill_servers()
    second, server = xs.get(xs.remote(place, max_retries=0).remote(), timeout=PATIENCE_SECONDS)
    assert first != second
    assert server in [each.pid for each in psutil.Process().children()]


def test_a_storm_that_hits_servers_and_workers(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each server ends after the second worker that it forked, each second worker before it has run anything."""
    fork, forks = Servers.fork, 0
    monkeypatch.setattr(deaths, "PATIENCE_SECONDS", 0.0)

    def fork_and_be_killed(self: Servers, descriptors: Any) -> Any:
        nonlocal forks
        forked = fork(self, descriptors)
        forks += 1
        if forks % 2 == 0 and forks <= 8:
            forked.kill()
            for server in self._all:
                server.process.kill()
        return forked

    monkeypatch.setattr(Servers, "fork", fork_and_be_killed)
    tasks = [xs.remote(double, max_retries=1).remote(number) for number in range(100)]
    assert xs.get(tasks, timeout=PATIENCE_SECONDS) == [2 * number for number in range(100)]
    assert forks >= 2
    assert engine.pool.num_blameless >= 1
    # At most two stand by.
    assert len(engine.pool.servers._all) <= 3


@pytest.mark.usefixtures("engine")
def test_a_server_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(servers, "_START", "raise SystemExit(3)")
        with pytest.raises(TaskError, match=r"fork server \d+ ended with exit code 3") as caught:
            xs.get(xs.remote(double, max_retries=1).remote(2), timeout=PATIENCE_SECONDS)
    assert caught.value.attempt == 2
    assert isinstance(caught.value.__cause__, WorkerDiedError)
    assert xs.get(xs.remote(double).remote(2), timeout=PATIENCE_SECONDS) == 4


# --- what a worker has of its program -------------------------------------------------------------


@pytest.mark.usefixtures("engine")
def test_workers_have_the_surroundings_of_when_they_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def look() -> tuple[str | None, str]:
        return os.environ.get("SEASON"), os.getcwd()

    here = os.getcwd()
    assert xs.get(xs.remote(look).remote()) == (os.environ.get("SEASON"), here)
    for season in ("summer", "winter"):
        monkeypatch.setenv("SEASON", season)
        monkeypatch.chdir(tmp_path)
        # The idle ones are those of before.
        for worker in worker_processes():
            kill(worker)
        found = xs.get(xs.remote(look, max_retries=0).remote(), timeout=PATIENCE_SECONDS)
        assert found == (season, str(tmp_path))
    # Those of the other surroundings have ended.
    assert len(psutil.Process().children()) == 1


@pytest.mark.usefixtures("engine")
def test_each_worker_draws_its_own_numbers() -> None:
    gates = [Spot(), Spot()]

    def draw(spot: Spot) -> float:
        spot.stop_here()
        return random.random()

    tasks = [xs.remote(draw).remote(spot) for spot in gates]
    assert len({spot.process() for spot in gates}) == 2
    for spot in gates:
        spot.open()
    assert len(set(xs.get(tasks))) == 2


@pytest.mark.usefixtures("engine")
def test_workers_lead_groups_of_their_own() -> None:
    def group() -> bool:
        return os.getpid() == os.getpgrp() == os.getsid(0)

    assert xs.get(xs.remote(group).remote())


def test_only_one_thread_is_there_when_a_server_forks() -> None:
    program = (
        "import os, exoshuffle.engines.local.workers.fork_server as server; "
        "server._import(['exoshuffle.operators.core.tasks', 'exoshuffle.dataset']); "
        "print(len(os.listdir('/proc/self/task')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"


STARTUP = """
import sys, threading, types
module = types.ModuleType("numpy.random")
module.drawn_anew = 0
def seed():
    module.drawn_anew += 1
module.seed = seed
sys.modules["numpy.random"] = module
if {threads}:
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=lock.acquire, daemon=True).start()
"""

PROGRAM = """
import exoshuffle as xs

def look():
    import os, sys, threading
    return threading.active_count(), sys.modules["numpy.random"].drawn_anew

xs.init(memory_limit="300MB", num_cpus=1, spill_dirs=[{folder!r}])
before, drawn_anew = xs.get(xs.remote(look).remote())
print(before, drawn_anew)
"""


@pytest.mark.parametrize(("threads", "said"), [(False, "2 1\n"), (True, "3 0\n")])
def test_startup_files_of_the_site(threads: bool, said: str, tmp_path: Path) -> None:
    """Where they start threads, workers start anew instead of being forked beside these."""
    (tmp_path / "sitecustomize.py").write_text(STARTUP.format(threads=threads))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(folder=str(tmp_path))],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        timeout=PATIENCE_SECONDS,
    )
    assert (done.stdout, done.returncode) == (said, 0), done.stderr


ALONE_PROGRAM = """
import re
from pathlib import Path
import psutil
import pyarrow as pa
import exoshuffle as xs

def own_bytes(process):
    text = Path(f"/proc/{{process.pid}}/smaps_rollup").read_text()
    return 1024 * int(re.search(r"Pss_Anon: +([0-9]+)", text)[1])

engine = xs.init(memory_limit="1GB", num_cpus=1, spill_dirs=[{folder!r}])
rows = xs.from_arrow(pa.table({{"a": range(1000)}})).map_batches(lambda batch: batch)
assert rows.count() == 1000
print(sum(map(own_bytes, psutil.Process().children(recursive=True))), engine.pool.room.base_bytes)
"""


def test_workers_that_share_nothing_are_counted_as_they_are(tmp_path: Path) -> None:
    """Such a worker took 25 to 30 MB, and its server 20 for nothing; 12 MB were set apart for each."""
    (tmp_path / "sitecustomize.py").write_text(STARTUP.format(threads=True))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", ALONE_PROGRAM.format(folder=str(tmp_path))],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        timeout=PATIENCE_SECONDS,
    )
    taken_bytes, apart_bytes = map(int, done.stdout.split())
    assert 30_000_000 < taken_bytes <= apart_bytes


KILLED_PROGRAM = """
import os, re, signal, sys, threading, time
from pathlib import Path
import psutil
import exoshuffle as xs

def own_bytes(process):
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:
        return 0  # it has ended
    found = re.search(r"Pss_Anon: +([0-9]+)", text)
    return 1024 * int(found[1]) if found else 0

def beyond():
    return sum(map(own_bytes, psutil.Process().children(recursive=True))) - engine.pool.apart.bytes

def wait(batch):
    time.sleep(0.2)
    return batch

def run(num_tasks):
    rows = xs.from_pydict({"x": list(range(num_tasks))}).repartition(num_tasks)
    rows.map_batches(wait, batch_format="pyarrow").to_pydict()

engine = xs.init(memory_limit="1GB", num_cpus=4, spill_dirs=[sys.argv[1]])
run(4)
long = threading.Thread(target=run, args=[24])
long.start()
time.sleep(0.5)
for process in engine.pool.servers.process_ids:
    os.kill(process, signal.SIGKILL)
most = beyond()
while long.is_alive():
    time.sleep(0.05)
    most = max(most, beyond())
run(4)
print(max(most, beyond()))
"""


def test_workers_of_servers_that_stand_by_are_counted(tmp_path: Path) -> None:
    """Those that import what their server has not imported yet took 108 MB with the servers, of 60 set apart."""
    program = [sys.executable, "-c", KILLED_PROGRAM, str(tmp_path)]
    done = subprocess.run(
        program, capture_output=True, text=True, check=True, cwd=ROOT, timeout=PATIENCE_SECONDS
    )
    assert int(done.stdout) <= 0


def test_a_server_stands_by_when_it_has_memory(engine: LocalEngine) -> None:
    """It takes 24 MB, of which nothing was set apart before the pool was idle."""
    pool = engine.pool
    xs.get(xs.remote(place).remote())
    usual = pool.apart.bytes
    held = pool.hold()
    try:
        rest = engine.budget.reserve(engine.budget_bytes)
        kill_servers()
        pool.give_back(pool.take(), reusable=False)
        assert (pool.apart.bytes, len(pool.servers.process_ids)) == (usual, 1)
        rest.release()
        pool.give_back(pool.take(), reusable=False)
        assert len(pool.servers.process_ids) == 2
        assert pool.apart.bytes - usual == pool.room.base_bytes - usual >= 4_000_000
    finally:
        held.release()


def test_close_does_not_wait_for_a_server_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    class Begun(servers.Server):
        def __init__(self, surroundings: Any, guard: Any) -> None:
            super().__init__(surroundings, guard)
            begun.set()

    # It never says that it is ready.
    monkeypatch.setattr(servers, "_START", "import time; time.sleep(3600)")
    monkeypatch.setattr(servers, "Server", Begun)
    xs.init(memory_limit=limits.limit_for(150_000_000), spill_dirs=str(tmp_path), num_cpus=1)
    task = xs.remote(double).remote(1)
    assert begun.wait(PATIENCE_SECONDS)
    xs.shutdown()
    assert psutil.Process().children() == []
    del task
