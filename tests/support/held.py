"""What this process holds of the system: threads, processes, file descriptors, shared memory, files to spill into.

What the open engine needs is not counted, and that is told by name and not by number: its threads, its workers and what
it talks to them by, one descriptor of its arena. So a worker that was not disposed of shows, beside those that live.
"""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from exoshuffle.engines.local import LocalEngine
from exoshuffle.futures import session

#: So long may take what ends by itself: a thread that was told to, a process that was killed.
PATIENCE_SECONDS = 10.0
_LOOK_SECONDS = 0.002

_ARENA = "/memfd:exoshuffle (deleted)"
#: How threads of the native module begin, and those that an engine has as long as it is open. The system keeps 15
#: characters of a name.
_NATIVE = ("exoshuffle-", "xs-")
_NATIVE_OF_ENGINE = ("exoshuffle-guar", "exoshuffle-spil")
#: Where engines spill that were not told where.
_DEFAULT_SPILL_DIRS = (tempfile.gettempdir(), "/var/tmp")  # noqa: S108  looked at
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  likewise

Held = frozenset[str]


def held() -> Held:
    """All of it, by names under which it stays the same as long as it is there."""
    current = session._engine
    engine = current if isinstance(current, LocalEngine) else None
    return frozenset(
        [
            *_threads(engine),
            *_native_threads_and_processes(engine),
            *_descriptors(engine),
            *_mappings(engine),
            *_shared_memory(),
            *_spill_files(),
        ]
    )


def come_since(before: Held, counts: Callable[[str], bool]) -> tuple[Held, Held]:
    """What has come, counts and does not go by itself; and all that is held now."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        now = held()
        come = frozenset(filter(counts, now - before))
        if not come or time.monotonic() > deadline:
            return come, now
        # Engines lie in cycles, and with them their arenas, which are empty when they are closed.
        gc.collect()
        time.sleep(_LOOK_SECONDS)


def assert_closed(before: Held) -> None:
    """At once after the engine was closed; what may stay until its last reference goes is its arena, which is empty."""
    gc.collect()
    left = [name for name in held() - before if "memfd:exoshuffle " not in name]
    assert left == []


def open_files() -> dict[int, str]:
    """File descriptors of this process, and what they point to."""
    targets = {}
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            targets[int(descriptor)] = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:  # closed since: the one that lists them, at least
            continue
    return targets


def spill_files_below(folder: Path) -> Held:
    """Files that this process has spilled into and that still have a name: none, they lose it at once."""
    names = (os.path.join(where, name) for where, _, files in os.walk(folder) for name in files)
    return frozenset(f"file {name}" for name in names if _is_spill_file(name))


def _spill_files() -> Iterator[str]:
    for folder in _DEFAULT_SPILL_DIRS:
        yield from (f"file {folder}/{name}" for name in os.listdir(folder) if _is_spill_file(name))


def _is_spill_file(path: str) -> bool:
    return os.path.basename(path).startswith(f".exoshuffle-{os.getpid()}-")


def _threads(engine: LocalEngine | None) -> Iterator[str]:
    own = set()
    if engine is not None:
        own = {*engine._scheduler._threads, getattr(engine._watchdog, "_thread", None)}
    for thread in threading.enumerate():
        if thread not in own:
            yield f"thread {thread.name} ({thread.ident})"


def _native_threads_and_processes(engine: LocalEngine | None) -> Iterator[str]:
    """Children are those of single threads; one that has ended is there until somebody has waited for it."""
    own = set() if engine is None else set(engine.pool.servers.process_ids)
    for thread in os.listdir("/proc/self/task"):
        try:
            name = Path(f"/proc/self/task/{thread}/comm").read_text().strip()
            children = Path(f"/proc/self/task/{thread}/children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):  # ended since
            continue
        is_own = engine is not None and name.startswith(_NATIVE_OF_ENGINE)
        if name.startswith(_NATIVE) and not is_own:
            yield f"native thread {name} ({thread})"
        yield from (f"process {child}" for child in children if int(child) not in own)


def _descriptors(engine: LocalEngine | None) -> Iterator[str]:
    own = set() if engine is None else _descriptors_of(engine)
    for descriptor, target in open_files().items():
        if descriptor not in own:
            yield f"descriptor {descriptor} of {target}, inode {_inode(descriptor)}"


def _descriptors_of(engine: LocalEngine) -> set[int]:
    """Of its workers, of its arena (one), of what it has spilled, and of the memory of its workers that is watched."""
    own = set()
    watched = tuple(f"/proc/{worker.process_id}/" for worker in engine.pool._all)
    for worker in list(engine.pool._all):
        own |= {worker._lifeline, worker._stack, worker._process._told, worker._process._stat}
        with contextlib.suppress(
            OSError
        ):  # closed: another thread is about to dispose of the worker
            own.add(worker._connection.fileno())
    own |= {server.control.fileno() for server in engine.pool.servers._all}
    copy = engine.store.arena_fd()
    arena = os.fstat(copy).st_ino
    os.close(copy)
    folders = tuple(f"{os.path.realpath(path)}/" for path in engine.spill_dirs)
    arenas = []
    for descriptor, target in open_files().items():
        if target == _ARENA and _inode(descriptor) == arena:
            arenas.append(descriptor)
        elif f"{target}/".startswith(watched) or (
            target.startswith(folders) and target.endswith(" (deleted)")
        ):
            own.add(descriptor)
    return own | set(arenas[:1])


def _inode(descriptor: int) -> int | None:
    """The number of the file, unless it has just been closed."""
    with contextlib.suppress(OSError):
        return os.fstat(descriptor).st_ino
    return None


def _mappings(engine: LocalEngine | None) -> Iterator[str]:
    """Shared ones of files without a name: arenas, and blocks that the disk alone had room for."""
    if engine is not None:
        return  # Its blocks have mappings of their own, as many as there are.
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(" (deleted)") and line.split(maxsplit=2)[1].endswith("s"):
            yield f"mapping {line}"


def _shared_memory() -> Iterator[str]:
    """Shared memory that has a name: the engine makes none."""
    names = os.listdir(_SHARED_MEMORY)
    yield from (f"{_SHARED_MEMORY}/{name}" for name in names if "exoshuffle" in name)
