"""Starting a Ray, or being refused one: options, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray._private import utils as ray_utils
from ray._private import worker as ray_worker

import exoshuffle as xs
from exoshuffle.engines.ray import RayEngine, starting, voices
from exoshuffle.engines.ray.starting import Wanted, init_quietly
from exoshuffle.errors import ClosedError, OptionsError
from exoshuffle.observe.memory import peak_resident_bytes
from tests.ray.cluster import children_of_this_process

pytestmark = pytest.mark.usefixtures("without_node")


@pytest.fixture
def own(tmp_path: Path) -> Any:
    """A Ray that the engine starts, in a directory of the test."""
    spill, temporary = tmp_path / "spill", Path(tempfile.mkdtemp(prefix="x"))
    spill.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        made = xs.init(
            engine="ray",
            memory_limit="500MB",
            spill_dirs=str(spill),
            num_cpus=2,
            num_gpus=1,
            resources={"disk": 3},
        )
        yield made
        xs.shutdown()
    assert list(temporary.iterdir()) == []
    assert list(spill.iterdir()) == []
    temporary.rmdir()


def test_a_ray_of_its_own(own: RayEngine, tmp_path: Path) -> None:
    assert (own.num_cpus, own.memory_limit, own.budget_bytes) == (2, 500_000_000, 150_000_000)
    assert own.spill_dirs == [str(tmp_path / "spill")]
    (only,) = xs.nodes()
    assert dict(only.resources) == {"CPU": 2, "GPU": 1, "disk": 3}
    # More than the object store has: it is spilled where it should be, and comes back.
    refs = [xs.remote(lambda i: bytes([i]) * 20_000_000).remote(i) for i in range(15)]
    xs.wait(refs, num_ready=15)
    assert [xs.get(ref)[:1] for ref in refs] == [bytes([i]) for i in range(15)]
    assert [*(tmp_path / "spill").rglob("*-*")]
    assert listening_addresses() == {"127.0.0.1"}


def test_its_plans_and_summaries_tell_of_all_of_it(own: RayEngine, tmp_path: Path) -> None:
    rows = xs.from_pydict({"a": range(1000)}).sort("a", num_partitions=2)
    bill = rows.explain(tmp_path / "out")
    assert bill.spill_free_bytes
    assert "a Ray that this program started: 1 node, 2 CPUs, 150 MB of object store" in str(bill)
    assert "declare fits into 350 MB" in str(bill)
    assert "also enforced: when tasks together take more than that" in str(bill)
    alone = peak_resident_bytes()
    result = rows.write_parquet(tmp_path / "out")
    # Some ten processes, each a Python that has imported Ray.
    assert 200_000_000 < result.peak_memory_bytes - alone < 2_000_000_000
    assert own.stats()["processes_peak_bytes"] > 200_000_000


@pytest.mark.usefixtures("own")
def test_nothing_of_it_waits_to_change_the_number_of_nodes() -> None:
    assert xs.get(xs.remote(abs).remote(-1)) == 1
    processes = psutil.Process().children(recursive=True)
    commands = [" ".join(process.cmdline()) for process in processes]
    assert any("gcs_server" in command for command in commands)
    assert not any("/autoscaler/" in command for command in commands)


UNTIL_KILLED = """
import os, sys
import exoshuffle as xs
xs.init(engine="ray", num_cpus=1, object_store_memory="100MB", spill_dirs=sys.argv[1])
os.write(1, b"started")
os.read(0, 1)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_program_that_was_killed(number: int, tmp_path: Path) -> None:
    """Its folder stayed until another program started a Ray."""
    with tempfile.TemporaryDirectory(prefix="x") as temporary:
        spill = tmp_path / "spill"
        spill.mkdir()
        with subprocess.Popen(
            [sys.executable, "-c", UNTIL_KILLED, str(spill)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": temporary},
        ) as running:
            assert running.stdout is not None
            assert running.stdout.read(7) == b"started"
            assert len([*Path(temporary).iterdir(), *spill.iterdir()]) == 2
            processes = psutil.Process(running.pid).children()
            running.send_signal(number)
            assert running.wait() == -number
        _, alive = psutil.wait_procs(processes, timeout=60)
        assert alive == []
        assert [*Path(temporary).iterdir(), *spill.iterdir()] == []


def listening_addresses() -> set[str]:
    found = set()
    for process in psutil.Process().children(recursive=True):
        for connection in process.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                found.add(connection.laddr.ip.removeprefix("::ffff:"))
    return found


def test_it_is_gone_afterwards() -> None:
    before, handler = children_of_this_process(), signal.getsignal(signal.SIGTERM)
    engine = xs.init(engine="ray", num_cpus=1, object_store_memory="100MB")
    ref = xs.put(1)
    assert signal.getsignal(signal.SIGTERM) is handler
    engine.close()
    engine.close()
    assert not ray.is_initialized()
    assert children_of_this_process() == before
    with pytest.raises(ClosedError, match="init"):
        xs.get(ref)
    # A reference of a Ray that is gone must not reach another.
    xs.init(engine="ray", num_cpus=1, object_store_memory="100MB")
    for ask in (xs.get, xs.cancel, xs.locate, lambda old: xs.wait([old])):
        with pytest.raises(ClosedError, match="closed"):
            ask(ref)
    with pytest.raises(ClosedError, match="closed"):
        xs.remote(abs).remote(ref)
    xs.shutdown()
    # Nor an engine of another kind, which starts with the next call.
    for ask in (xs.get, xs.cancel, xs.locate, lambda old: xs.wait([old]), xs.remote(abs).remote):
        with pytest.raises(ClosedError, match="put belongs to an engine that was closed"):
            xs.get(ask(ref))
    made = xs.put(2)
    xs.shutdown()
    xs.init(engine="ray", num_cpus=1, object_store_memory="100MB")
    with pytest.raises(ClosedError, match="belongs to an engine that was closed"):
        xs.get(made)
    xs.shutdown()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_cpus": 0}, "num_cpus is 0"),
        ({"num_gpus": 0.5}, "num_gpus is 0.5"),
        ({"resources": {"disk": 1.5}}, "disk is 1.5"),
        ({"memory_limit": "50MB"}, "smallest that works is 160 MB"),
        ({"memory_limit": "10TB"}, r"10\.0 TB is more than the .* that this machine has"),
        ({"memory_limit": "lots"}, "not a size"),
        ({"object_store_memory": "1MB"}, "at least 80.0 MB"),
        ({"spill_dirs": "/does/not/exist"}, "/does/not/exist"),
        ({"spill_dirs": [os.curdir, os.pardir]}, "2 directories"),
        ({"address": "nonsense"}, "host:port"),
        ({"address": "ray://head:10001"}, "Ray client"),
    ],
    ids=str,
)
def test_options_that_cannot_work(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        xs.init(engine="ray", **options)
    assert not ray.is_initialized()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_an_interrupt_waits_until_the_program_is_connected(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody closed the half of Ray that was there, and the program ended by SIGSEGV."""
    reached = []

    def begin(**_: object) -> None:
        signal.raise_signal(number)
        reached.append("connected")
        if len(reached) == 2:
            signal.raise_signal(number)
            signal.raise_signal(number)
            reached.append("not reached")

    monkeypatch.setattr(ray_worker, "connect", begin)
    monkeypatch.setattr(ray, "init", lambda **_: ray_worker.connect())
    before = signal.signal(number, signal.default_int_handler)
    try:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                init_quietly()
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert reached == ["connected", "connected"], "who insists does not wait"


@pytest.mark.parametrize(
    ("handler", "end"),
    [
        (signal.default_int_handler, KeyboardInterrupt()),
        (signal.SIG_DFL, SystemExit(128 + signal.SIGTERM)),
    ],
    ids=["interrupts", "default"],
)
def test_sigterm_while_connecting_ends_the_program_in_its_own_way(
    handler: Any,
    end: BaseException,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Ray's own handler ended programs with 15, and its core told where each of its threads was."""
    reached = []

    def begin(**_: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        os.write(
            2,
            b"*** SIGTERM received at time=1 on cpu 1 ***\nPC: @  0x1  (unknown)  __recv\n    @  0x1  main\n",
        )
        os.write(2, b"something else\n")
        reached.append("connected")

    def init(**_: object) -> None:
        ray_utils.set_sigterm_handler(lambda *_: sys.exit(15))
        ray_worker.connect()

    monkeypatch.setattr(ray_worker, "connect", begin)
    monkeypatch.setattr(ray, "init", init)
    before = signal.signal(signal.SIGTERM, handler)
    try:
        with pytest.raises(type(end)) as raised:
            init_quietly()
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert raised.value.args == end.args
    assert reached == ["connected"]
    assert capfd.readouterr().err == "something else\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_all_processes_of_the_node_are_there(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody ended the first ones, and they lived as long as the program."""
    reached = []

    def init(**_: object) -> None:
        signal.raise_signal(number)
        reached.append("all")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(voices, "listen", lambda: None)
    monkeypatch.setattr(starting, "_end_autoscaler", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            starting.start(Wanted())
    finally:
        signal.signal(number, before)
    assert reached == ["all"]
    assert list(tmp_path.iterdir()) == []
