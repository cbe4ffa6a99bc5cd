"""Starts a Ray of one node.

Guarantee: this Ray listens on 127.0.0.1 alone, prints nothing, and takes no signal from the program. Its files lie in a
folder of its own, and spilled ones in another if it was told where to spill. Both go with it, or with a program that
is killed (``heir``).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType

import ray
from ray._private import ray_constants
from ray._private import utils as ray_utils
from ray._private import worker as ray_worker
from ray.job_config import JobConfig

from exoshuffle.engines.machine import check_limit
from exoshuffle.engines.owned_folders import OwnedFolder, sweep
from exoshuffle.engines.ray import voices
from exoshuffle.engines.ray.core_log import quiet_core
from exoshuffle.engines.ray.failures import first_line
from exoshuffle.engines.ray.heir import Heir
from exoshuffle.engines.ray.modules import search_path
from exoshuffle.engines.ray.versions import ray_version
from exoshuffle.errors import EngineError, OptionsError
from exoshuffle.units import format_bytes, parse_bytes

#: How the names of its folders begin.
_FOLDERS = "exo-ray-"
#: A worker of Ray that is just starting makes this in the folder of a killed program, which may be removed by then.
_MADE_AGAIN = "session_latest"
#: Share of the memory limit that becomes the object store, as Ray does it with the machine's memory.
STORE_PERCENT = 30
#: Ray refuses less.
MIN_STORE_BYTES = 80_000_000
#: The processes of Ray that spill, and as many again restore: Ray's own number, for any number of CPUs. Each process
#: takes 0.7 s of CPU to start, just when the store is full; so we have no more of them than CPUs.
MAX_IO_WORKERS = 4
#: How long Ray waits before an object goes into a file when the store is full and nothing in it can be spilled. Map
#: outputs that reduces pin cannot be spilled. With Ray's own 2 s, each of 20 results that were taken as batches took
#: 3.7 s; without the wait, 1.3 s.
OOM_GRACE_SECONDS = 0
#: How often Ray looks for tasks to try again, which begin only then. With Ray's own 1 s, a sort of 1 GB whose workers
#: were killed every second took 2.1 times as long. With this, it took 1.1 times (three runs each).
RETRY_PERIOD_MS = 100
#: How long Ray waits before it repeats a call whose actor died. The actor starts again meanwhile, which takes 0.4 s at
#: best; a repetition before that is in vain. Ray's own 100 ms lasted as long as the period above, by default 1 s.
CALL_RETRY_DELAY_MS = 2000
#: The last two are set from this version on; older versions cannot be told the latter.
_RETRIES_SINCE = (2, 55)
#: Programs may end by an exception when these come.
_INTERRUPTING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: A SIGTERM for which the program has no handler ends it where it stands.
_ENDING = (signal.SIGTERM, signal.SIG_DFL)
#: Shells add this to the number of a signal that ended a program.
_OF_SIGNALS = 128


@dataclass(frozen=True)
class Wanted:
    """Options for a Ray that is started here; none of them can be given for a Ray that runs.

    Attributes:
        memory_limit: As of ``init``.
        spill_dirs: As of ``init``.
        num_cpus: As of ``init``.
        num_gpus: As of ``init``.
        resources: As of ``init``.
        object_store_memory: Size of the object store.
    """

    memory_limit: int | str | None = None
    spill_dirs: list[str] = field(default_factory=list)
    num_cpus: int | None = None
    num_gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    object_store_memory: int | str | None = None

    def check_nothing(self, where: str) -> None:
        """Raises ``OptionsError`` if anything is wanted."""
        for name, value in vars(self).items():
            if value:
                raise OptionsError(
                    f"{name} is {value!r}, but {where}: it belongs to whoever started it, so leave {name} out"
                )


class Folders:
    """The folders of a Ray that is started here.

    Args:
        parents: Where to make them, one in each.

    Attributes:
        paths: The folders.
    """

    def __init__(self, parents: list[str]) -> None:
        for parent in parents:
            sweep(parent, _FOLDERS, _MADE_AGAIN)
        self._owned = [OwnedFolder(parent, _FOLDERS) for parent in parents]
        self.paths = [folder.path for folder in self._owned]
        self._heir = Heir(self.paths)

    def remove(self) -> None:
        """Removes the folders."""
        for folder in self._owned:
            folder.remove()
        self._heir.dismiss()


def start(wanted: Wanted) -> Folders:
    """Starts a Ray of one node, and returns its folders, which the caller removes."""
    options = _start_options(wanted)
    # The first is not below a spill directory: Ray's sockets live here, and their paths must be short.
    folders = Folders([tempfile.gettempdir(), *wanted.spill_dirs])
    if wanted.spill_dirs:
        options["object_spilling_directory"] = folders.paths[-1]
    try:
        # Nobody would end the processes of a node that is half there.
        with _loopback(), _interrupts_held():
            init_quietly(
                address="local",
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                _temp_dir=folders.paths[0],
                job_config=JobConfig(_py_driver_sys_path=_search_path()),
                **options,
            )
            _end_autoscaler()
    except BaseException as error:
        ray.shutdown()
        folders.remove()
        if isinstance(error, ValueError):
            raise OptionsError(f"Ray does not start: {first_line(error)}") from error
        if isinstance(error, Exception):
            raise EngineError(f"Ray does not start: {first_line(error)}") from error
        raise
    return folders


def _search_path() -> list[str]:
    """Returns where workers find this package, as the program does; Ray puts each folder before the one before."""
    return list(reversed(search_path()))


def _end_autoscaler() -> None:
    """Ends the process that would add nodes to the cluster and take some away: this Ray has no use for it.

    The process sleeps through the second that Ray gives it to end. To start Ray, run four tasks and end Ray took 3.8 s
    with it, and 2.8 s without (four pairs).
    """
    started = ray_worker._global_node.all_processes
    for info in started.pop(ray_constants.PROCESS_TYPE_MONITOR, ()):
        info.process.kill()
        info.process.wait()


def _start_options(wanted: Wanted) -> dict[str, object]:
    if wanted.num_cpus is not None and wanted.num_cpus < 1:
        raise OptionsError(f"num_cpus is {wanted.num_cpus}; it must be at least 1")
    declared = {"num_gpus": wanted.num_gpus, **wanted.resources}
    for name, amount in declared.items():
        if amount != int(amount):
            raise OptionsError(f"{name} is {amount}; a node of Ray has whole numbers of things")
    options: dict[str, object] = {
        "num_cpus": wanted.num_cpus,
        "num_gpus": int(wanted.num_gpus),
        "resources": {name: int(amount) for name, amount in wanted.resources.items()},
    }
    limit = None if wanted.memory_limit is None else parse_bytes(wanted.memory_limit)
    store = None
    if wanted.object_store_memory is not None:
        store = parse_bytes(wanted.object_store_memory)
    elif limit is not None:
        store = max(MIN_STORE_BYTES, limit * STORE_PERCENT // 100)
    if store is not None and store < MIN_STORE_BYTES:
        raise OptionsError(
            f"object_store_memory is {format_bytes(store)}; Ray needs at least {format_bytes(MIN_STORE_BYTES)}"
        )
    if limit is not None:
        check_limit(limit)
        assert store is not None
        if limit <= store:
            raise OptionsError(
                f"memory_limit is {format_bytes(limit)}, of which the object store takes {format_bytes(store)}; "
                f"the smallest that works is {format_bytes(2 * store)}"
            )
        options["_memory"] = limit - store
    options["object_store_memory"] = store
    num_cpus = wanted.num_cpus or os.cpu_count() or 1
    options["_system_config"] = system_config(num_cpus)
    _check_spilling(wanted.spill_dirs)
    return options


def system_config(num_cpus: int) -> dict[str, object]:
    """Returns the settings of Ray that differ from its defaults."""
    config: dict[str, object] = {
        "max_io_workers": min(MAX_IO_WORKERS, num_cpus),
        "oom_grace_period_s": OOM_GRACE_SECONDS,
    }
    if ray_version() >= _RETRIES_SINCE:
        config["core_worker_internal_heartbeat_ms"] = RETRY_PERIOD_MS
        config["task_actor_unavailable_retry_delay_base_ms"] = CALL_RETRY_DELAY_MS
    return config


def _check_spilling(directories: list[str]) -> None:
    for directory in directories:
        if not (os.path.isdir(directory) and os.access(directory, os.W_OK)):
            raise OptionsError(f"spill directory {directory} is not a directory to write to")
    if len(directories) > 1:
        raise OptionsError(
            f"spill_dirs has {len(directories)} directories; Ray takes one, so name the fastest"
        )


def init_quietly(**options: object) -> None:
    """Calls ``ray.init`` quietly: errors come from tasks, and printed and logged lines from ``voices``.

    The last variable asks for Ray's future default; without it, Ray warns.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    tell_logs(False)
    with _signals_kept(), quiet_core():
        ray.init(log_to_driver=True, logging_level=logging.ERROR, **options)
    voices.listen()


def tell_logs(enabled: bool) -> None:
    """Sets whether Ray prints on standard output what happens to its workers, whatever ``log_to_driver`` says."""
    ray_worker._worker_logs_enabled = enabled


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Keeps the program's handlers: Ray takes SIGTERM for itself, and may not be interrupted while it connects.

    With Ray's own handler, the command line ended with the code of a broken pipe, and programs with 15 or 1.
    """
    connect, take = ray_worker.connect, ray_utils.set_sigterm_handler

    def connect_whole(*args: object, **kwargs: object) -> object:
        with _interrupts_held():
            return connect(*args, **kwargs)

    ray_worker.connect = connect_whole
    ray_utils.set_sigterm_handler = lambda _: None
    try:
        yield
    finally:
        ray_worker.connect = connect
        ray_utils.set_sigterm_handler = take


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Lets interrupts come at the end of the context, unless somebody insists.

    They usually came where Ray's core had just been made and nobody had it yet. Nothing closed the core then, and the
    program ended by SIGSEGV. Four of seventeen sorts did that were interrupted in their first 10 s. A SIGTERM that
    would end the program becomes its end by an exception, so that what has started is ended, too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            _interrupt(number, handlers[number], frame)

    handlers = {int(number): signal.getsignal(number) for number in _INTERRUPTING}
    for number, handler in handlers.items():
        if callable(handler) or (number, handler) == _ENDING:
            signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            _interrupt(came[0], handlers[came[0]], None)


def _interrupt(number: int, handler: object, frame: FrameType | None) -> None:
    if not callable(handler):
        raise SystemExit(_OF_SIGNALS + number)
    handler(number, frame)


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Has Ray listen on 127.0.0.1, which by default it does on macOS only."""
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
