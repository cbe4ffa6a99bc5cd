"""Lists what this process holds of the system: threads, processes, descriptors, shared memory, files to spill into.

The needs of the open engine are not counted. They are told by name and not by number: its threads, its workers with
their connections, and one descriptor of its arena. So a leftover worker shows beside those that live.
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

#: How long things may take that end by themselves: a thread that was told to, a process that was killed.
PATIENCE_SECONDS = 10.0
_LOOK_SECONDS = 0.002

_GONE = " (deleted)"
_ARENA = f"/memfd:exoshuffle{_GONE}"
#: How the names of native threads begin, and those of threads that an engine has as long as it is open. The system
#: keeps 15 characters of a name.
_NATIVE = ("exoshuffle-", "xs-")
_NATIVE_OF_ENGINE = ("exoshuffle-guar", "exoshuffle-rele", "exoshuffle-spil")
#: Where engines spill by default.
_DEFAULT_SPILL_DIRS = (tempfile.gettempdir(), "/var/tmp")  # noqa: S108  looked at
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  likewise

Held = frozenset[str]


def held() -> Held:
    """Returns everything that is held, by names that stay the same as long as the thing exists."""
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
    """Returns the new things that count and do not go by themselves; and all that is held now."""
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
    """Checks at once after the engine was closed. Only its empty arena may stay until its last reference goes."""
    gc.collect()
    left = [name for name in held() - before if "memfd:exoshuffle " not in name]
    assert left == []


def open_files() -> dict[int, str]:
    """Returns the file descriptors of this process, and what they point to."""
    targets = {}
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            targets[int(descriptor)] = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:  # closed since: the descriptor that lists them, at least
            continue
    return targets


def spill_files_below(folder: Path) -> Held:
    """Returns spill files of this process that still have a name. There should be none, since they lose it at once."""
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
    """Yields native threads and children; each thread lists its own, and an ended one until it is waited for."""
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
    """Returns the descriptors of an engine.

    These are of its workers, its arena (one), its spill files, and the memory that is watched. That is this process's
    own, and that of workers and servers.
    """
    own = set()
    workers = [worker.process_id for worker in engine.pool._all]
    watched = (
        f"/proc/{os.getpid()}/status",
        *(f"/proc/{pid}/" for pid in (*workers, *engine.pool.servers.process_ids)),
    )
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
        elif f"{target.removesuffix(_GONE)}/".startswith(watched) or (
            target.startswith(folders) and target.endswith(_GONE)
        ):
            own.add(descriptor)
    return own | set(arenas[:1])


def _inode(descriptor: int) -> int | None:
    """Returns the number of the file, unless it has just been closed."""
    with contextlib.suppress(OSError):
        return os.fstat(descriptor).st_ino
    return None


def _mappings(engine: LocalEngine | None) -> Iterator[str]:
    """Yields shared mappings of files without a name: arenas, and blocks that only the disk had room for."""
    if engine is not None:
        return  # The engine's blocks have mappings of their own, as many as there are.
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(_GONE) and line.split(maxsplit=2)[1].endswith("s"):
            yield f"mapping {line}"


def _shared_memory() -> Iterator[str]:
    """Yields shared memory that has a name; the engine makes none."""
    names = os.listdir(_SHARED_MEMORY)
    yield from (f"{_SHARED_MEMORY}/{name}" for name in names if "exoshuffle" in name)
