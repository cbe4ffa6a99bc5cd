"""Starting Ray, or finding it: what ``RayEngine`` does before there is one, and after.

Guarantees: every way in which this can fail has a message that says what to do; a Ray that was started here listens on
127.0.0.1 alone and leaves nothing behind; one that was found is left as it was.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import ray
from ray._private import ray_constants
from ray._private import worker as ray_worker
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from exoshuffle import __version__
from exoshuffle.engines.ray import worker
from exoshuffle.engines.ray.failures import first_line
from exoshuffle.errors import EngineError, OptionsError, ProtocolError
from exoshuffle.futures.engine import PROTOCOL, Node
from exoshuffle.units import format_bytes, parse_bytes

SUPPORTED = ((2, 50), (2, 62))
#: Share of the memory limit that becomes the object store, as Ray does it with the machine's memory.
STORE_PERCENT = 30
#: Ray refuses less.
MIN_STORE_BYTES = 80_000_000
#: Resident memory of a worker that has imported this package and Arrow.
WORKER_BYTES = 100_000_000


@dataclass(frozen=True)
class Wanted:
    """What somebody wants who starts a Ray of his own; nothing of it can be asked of one that runs.

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


class Cluster:
    """A Ray that this process is connected to.

    Args:
        address: Where to find one; None to start one.
        wanted: What to start it with.
        timeout_seconds: How long to wait for an answer.
    """

    def __init__(self, address: str | None, wanted: Wanted, timeout_seconds: float) -> None:
        _check_version()
        self._temporary: str | None = None
        self._found = ray.is_initialized()
        address = address or os.environ.get("RAY_ADDRESS")
        if self._found:
            wanted.check_nothing("Ray runs in this process already")
        elif address and address != "local":
            wanted.check_nothing(f"the cluster at {address} runs already")
            _connect(address, timeout_seconds)
        else:
            self._temporary = _start(wanted)
        self._fitting: set[tuple[tuple[str, float], ...]] = set()

    def close(self) -> None:
        """Leaves it; ends it if it was started here."""
        if self._found:
            return
        ray.shutdown()
        ray_worker._worker_logs_enabled = True
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    @property
    def is_left(self) -> bool:
        """Whether ``close`` disconnects this process."""
        return not self._found

    def nodes(self) -> list[Node]:
        """See ``Engine``."""
        return [Node(name, _declared(total)) for name, total in _totals().items()]

    def store_bytes(self) -> int:
        """Size of the object stores of all nodes."""
        return int(sum(total.get("object_store_memory", 0) for total in _totals().values()))

    def num_cpus(self) -> int:
        """CPU slots of all nodes.

        Raises:
            OptionsError: There are none.
        """
        found = int(sum(total.get("CPU", 0) for total in _totals().values()))
        if found < 1:
            raise OptionsError("no node of the Ray cluster has a CPU; start one that has")
        return found

    def check(self, what: str, demand: Mapping[str, float], memory: int) -> None:
        """Refuses a demand that no node can ever meet, for which Ray would wait.

        Raises:
            OptionsError: So it is.
        """
        wanted = {**demand, "memory": memory} if memory else dict(demand)
        key = tuple(sorted(wanted.items()))
        if key in self._fitting:
            return
        totals = _totals().values()
        if any(all(total.get(name, 0) >= wanted[name] for name in wanted) for total in totals):
            self._fitting.add(key)
            return
        for name, amount in wanted.items():
            most = max((total.get(name, 0) for total in totals), default=0)
            if amount > most:
                shown = format_bytes if name == "memory" else "{:g}".format
                raise OptionsError(
                    f"{what} needs {shown(amount)} {name}; the node that has most has {shown(most)}: "
                    "ask for less, or add a node"
                )
        raise OptionsError(f"{what} needs {wanted}, which no node has together")

    def affinity(self, node: str | None) -> Any:
        """Ray's way to prefer a node."""
        if node is None or node not in _totals():
            return "DEFAULT"
        return NodeAffinitySchedulingStrategy(node, soft=True)


def _totals() -> dict[str, dict[str, float]]:
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def _declared(total: Mapping[str, float]) -> dict[str, float]:
    """Resources without those that Ray adds for itself."""
    return {
        name: amount
        for name, amount in total.items()
        if name not in {"memory", "object_store_memory"}
        and not name.startswith(("node:", "accelerator_type:"))
    }


def _check_version() -> None:
    found = tuple(int(part) for part in ray.__version__.split(".")[:2])
    low, high = SUPPORTED
    if not low <= found < high:
        raise OptionsError(
            f"Ray {ray.__version__} is installed; supported are {low[0]}.{low[1]} to below {high[0]}.{high[1]}: "
            'run pip install "exoshuffle[ray]"'
        )


def _start(wanted: Wanted) -> str:
    """Starts a Ray of one node; returns its directory, which is to be removed."""
    options = _start_options(wanted)
    # Not below a spill directory: Ray's sockets live here, and their paths must be short.
    temporary = tempfile.mkdtemp(prefix="exo-ray-")
    try:
        with _loopback():
            _init(
                address="local",
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                _temp_dir=temporary,
                **options,
            )
    except BaseException as error:
        ray.shutdown()
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, ValueError):
            raise OptionsError(f"Ray does not start: {first_line(error)}") from error
        if isinstance(error, Exception):
            raise EngineError(f"Ray does not start: {first_line(error)}") from error
        raise
    return temporary


def _start_options(wanted: Wanted) -> dict[str, Any]:
    if wanted.num_cpus is not None and wanted.num_cpus < 1:
        raise OptionsError(f"num_cpus is {wanted.num_cpus}; it must be at least 1")
    declared = {"num_gpus": wanted.num_gpus, **wanted.resources}
    for name, amount in declared.items():
        if amount != int(amount):
            raise OptionsError(f"{name} is {amount}; a node of Ray has whole numbers of things")
    options: dict[str, Any] = {
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
        assert store is not None
        if limit <= store:
            raise OptionsError(
                f"memory_limit is {format_bytes(limit)}, of which the object store takes {format_bytes(store)}; "
                f"the smallest that works is {format_bytes(2 * store)}"
            )
        options["_memory"] = limit - store
    options["object_store_memory"] = store
    options |= _spilling(wanted.spill_dirs)
    return options


def _spilling(directories: list[str]) -> dict[str, Any]:
    for directory in directories:
        if not (os.path.isdir(directory) and os.access(directory, os.W_OK)):
            raise OptionsError(f"spill directory {directory} is not a directory to write to")
    if len(directories) > 1:
        raise OptionsError(
            f"spill_dirs has {len(directories)} directories; Ray takes one, so name the fastest"
        )
    return {"object_spilling_directory": directories[0]} if directories else {}


def _connect(address: str, timeout_seconds: float) -> None:
    """Connects to a cluster, and checks that its workers are of this version."""
    if "://" in address:
        raise OptionsError(
            f"address {address} is of a Ray client; run on a node of the cluster, with the address host:port or auto"
        )
    if address != "auto":
        _check_answers(address, timeout_seconds)
    try:
        _init(address=address)
        _check_workers(timeout_seconds)
    except BaseException as error:
        ray.shutdown()
        if isinstance(error, ConnectionError | ValueError):
            raise EngineError(
                f"no Ray cluster answers at {address}: {first_line(error)}"
            ) from error
        if isinstance(error, RuntimeError):
            # Ray compares its own version and Python's.
            raise ProtocolError(f"cannot join the cluster at {address}: {error}") from error
        raise


def _check_answers(address: str, timeout_seconds: float) -> None:
    """Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise OptionsError(f"address is {address!r}; write host:port or auto")
    try:
        socket.create_connection((host, int(port)), timeout_seconds).close()
    except OSError as error:
        raise EngineError(
            f"no Ray cluster answers at {address}: {error.strerror or error}; start one with ray start --head"
        ) from error


def _check_workers(timeout_seconds: float) -> None:
    ask = ray.remote(worker.greet)
    asked = [
        ask.options(
            num_cpus=0,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote()
        for node in _totals()
    ]
    remedy = f"install exoshuffle {__version__} on every node"
    try:
        answers = ray.get(asked, timeout=timeout_seconds)
    except ray.exceptions.GetTimeoutError as error:
        raise EngineError(
            f"the workers of the cluster have not answered in {timeout_seconds:g} s; is it busy or broken?"
        ) from error
    except ray.exceptions.RayError as error:
        raise ProtocolError(
            f"the workers of the cluster cannot run exoshuffle ({first_line(error)}); {remedy}"
        ) from error
    for protocol, version in answers:
        if (protocol, version) != (PROTOCOL, __version__):
            raise ProtocolError(
                f"a worker of the cluster has exoshuffle {version} with protocol {protocol}, this program has "
                f"{__version__} with {PROTOCOL}; {remedy}"
            )


def _init(**options: Any) -> None:
    """``ray.init``, quietly: errors come from tasks, and a program's standard output is its own."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    ray_worker._worker_logs_enabled = False
    with _signals_kept():
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Has Ray listen on 127.0.0.1, which by default it does on macOS only."""
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
