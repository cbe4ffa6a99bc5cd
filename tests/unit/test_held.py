"""Things that are looked for after every test are found, each kind of them. The needs of an open engine are not taken
for them."""

from __future__ import annotations

import contextlib
import mmap
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.testing.programs import double
from tests.support import held as looking
from tests.support.held import come_since, held, spill_files_below
from tests.support.limits import large_memory_limit


@contextlib.contextmanager
def thread() -> Iterator[None]:
    end = threading.Event()
    started = threading.Thread(target=end.wait, name="exoshuffle-planted")
    started.start()
    yield
    end.set()
    started.join()


@contextlib.contextmanager
def process() -> Iterator[None]:
    """One that has ended, and that nobody has waited for."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    yield
    child.wait()


@contextlib.contextmanager
def stack() -> Iterator[None]:
    descriptor = os.memfd_create("exoshuffle-stack")
    yield
    os.close(descriptor)


@contextlib.contextmanager
def mapping() -> Iterator[None]:
    descriptor = os.memfd_create("exoshuffle")
    os.ftruncate(descriptor, mmap.PAGESIZE)
    mapped = mmap.mmap(descriptor, mmap.PAGESIZE)
    os.close(descriptor)  # Python's mapping keeps one of its own.
    yield
    mapped.close()


@contextlib.contextmanager
def spill_file() -> Iterator[None]:
    path = Path(tempfile.gettempdir(), f".exoshuffle-{os.getpid()}-0")
    path.touch()
    yield
    path.unlink()


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (thread, "thread exoshuffle-planted"),
        (process, "process "),
        (stack, "descriptor "),
        (mapping, "mapping "),
        (spill_file, "file "),
    ],
)
def test_what_is_left_is_found(
    plant: Callable[[], contextlib.AbstractContextManager[None]],
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = held()
    with plant(), monkeypatch.context() as patch:
        patch.setattr(looking, "PATIENCE_SECONDS", 0)
        found, _ = come_since(before, lambda _: True)
        assert any(name.startswith(kind) for name in found)
    assert held() == before


def test_files_below_a_folder_are_found(tmp_path: Path) -> None:
    path = tmp_path / "inner" / f".exoshuffle-{os.getpid()}-7"
    path.parent.mkdir()
    path.with_name(".exoshuffle-1-7").touch()  # another process's
    assert spill_files_below(tmp_path) == frozenset()
    path.touch()
    assert spill_files_below(tmp_path) == {f"file {path}"}
    path.unlink()


def test_what_an_engine_needs_is_no_leak_and_what_it_forgot_is(tmp_path: Path) -> None:
    before = held()
    engine = xs.init(memory_limit=large_memory_limit(), spill_dirs=str(tmp_path), num_cpus=2)
    assert isinstance(engine, LocalEngine)
    assert xs.get([xs.remote(double).remote(number) for number in range(4)]) == [0, 2, 4, 6]
    assert held() <= before
    # Workers are children of their fork server, which is the program's.
    forgotten, server = engine.pool._all.pop(), engine.pool.servers._all.pop()
    kinds = {name.split()[0] for name in held() - before}
    engine.pool._all.add(forgotten)
    engine.pool.servers._all.append(server)
    assert kinds == {"descriptor", "process"}
    xs.shutdown()
