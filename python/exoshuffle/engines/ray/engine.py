"""``RayEngine``: the engine protocol over Ray.

Guarantee: the same results, errors and order of calls as on the local engine. Ray schedules, moves and spills objects,
counts their references, and computes again what a node has lost.

A task whose references are gone runs all the same. To cancel it costs its worker if it has begun, and Ray cannot say
whether it has. So the engine cancels only when asked to (see also ``canceller``). A call of an actor that has begun
goes on when it is cancelled, though nobody gets its result. Generators end then, if Ray tells them (2.50 does not).
``TaskOptions.executor`` has no effect: every task runs in a worker process.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

import ray

from exoshuffle.engines import hearing
from exoshuffle.engines.ray import modules, voices, worker
from exoshuffle.engines.ray.at_work import WORKER_BYTES
from exoshuffle.engines.ray.calls import Arguments, Codes, span_of
from exoshuffle.engines.ray.canceller import Canceller, Target
from exoshuffle.engines.ray.cluster import Cluster
from exoshuffle.engines.ray.failures import cancelled, error_of, fetch
from exoshuffle.engines.ray.objects import (
    Origin,
    RayActor,
    RayObject,
    Shape,
    actor_of,
    end_session,
    object_of,
)
from exoshuffle.engines.ray.remote_options import returns, with_options
from exoshuffle.engines.ray.restarts import await_end, await_restart
from exoshuffle.engines.ray.starting import Wanted
from exoshuffle.engines.ray.state import await_made, is_made, places, slice_bytes
from exoshuffle.engines.ray.streams import RayStream
from exoshuffle.engines.ray.usage import processes_peak_bytes
from exoshuffle.engines.ray.values import Block, ValuePart, pack
from exoshuffle.engines.ray.watcher import Watcher
from exoshuffle.engines.ray.worker import Call
from exoshuffle.errors import ClosedError
from exoshuffle.futures.engine import BlockBuffer, Node, RunningTask
from exoshuffle.futures.events import Observer
from exoshuffle.futures.options import ActorOptions, Executor, TaskOptions
from exoshuffle.futures.refs import Ref, RefStream, SliceRef, Value
from exoshuffle.futures.session import Scoped
from exoshuffle.observe.activity import Activity
from exoshuffle.observe.watchdog import check_stall_seconds, watch
from exoshuffle.units import parse_bytes

_run_task = ray.remote(worker.run_task)
_run_stream = ray.remote(worker.run_stream)
_actor_host = ray.remote(worker.ActorHost)


class RayEngine(Scoped):
    """Runs tasks on a Ray cluster: one that it starts on this machine, one at an address, or that of this process.

    Args:
        memory_limit: For a Ray that is started here. A third of it becomes the object store; the rest is for the
            working memory that tasks declare. On Linux, workers are held to that (``guard``); this process is not.
        spill_dirs: For a Ray that is started here: the one directory that it spills to.
        num_cpus: For a Ray that is started here.
        num_gpus: Likewise.
        resources: Likewise.
        address: ``host:port`` of a running cluster, or ``auto``; this program must run on one of its nodes. Default:
            the address in ``RAY_ADDRESS``. If a node lacks this package, or has another version, all nodes are sent
            this program's. If Ray runs in this process already, that Ray is used.
        object_store_memory: For a Ray that is started here: size of the object store.
        connect_timeout_seconds: How long the cluster at ``address`` may take to answer.
        stall_seconds: After so long without a finished task the logger ``exoshuffle`` warns and names the tasks that
            are not done. Default: it never warns, since it asks Ray about every task, and Ray's dashboard tells more.

    Raises:
        OptionsError: An option cannot work, or this version of Ray is not supported.
        EngineError: No cluster answers.
        ProtocolError: Workers lack this version of Exoshuffle, and cannot be sent it. They have another Python or
            platform, lack a package that it needs, or belong to a Ray that this process was connected to before.
    """

    name = "ray"

    def __init__(  # noqa: PLR0913  what init() passes on
        self,
        memory_limit: int | str | None = None,
        spill_dirs: str | Sequence[str] | None = None,
        num_cpus: int | None = None,
        num_gpus: float = 0,
        resources: Mapping[str, float] | None = None,
        *,
        address: str | None = None,
        object_store_memory: int | str | None = None,
        connect_timeout_seconds: float = 30,
        stall_seconds: float | None = None,
    ) -> None:
        check_stall_seconds(stall_seconds)
        directories = [spill_dirs] if isinstance(spill_dirs, str) else list(spill_dirs or ())
        wanted = Wanted(
            memory_limit, directories, num_cpus, num_gpus, resources or {}, object_store_memory
        )
        self._cluster = Cluster(address, wanted, connect_timeout_seconds)
        self._closed = False
        #: The CPUs of all nodes together, as the plan counts what all tasks together need.
        self.num_cpus = self._cluster.num_cpus
        #: The object store must hold all that running tasks read and write; their working memory lies outside. The plan
        #: counts both against this, so inputs and outputs fit with room to spare.
        self.budget_bytes = self._cluster.store_bytes
        self.memory_limit = (
            self.budget_bytes + self.num_cpus * WORKER_BYTES
            if memory_limit is None
            else parse_bytes(memory_limit)
        )
        #: Where Ray spills is known of one that was started here.
        self.spill_dirs = self._cluster.spill_dirs
        self.spill_codec: str | None = None
        self._codes = Codes()
        self._watcher = Watcher()
        self._canceller = Canceller()
        self._num_tasks = 0
        self._watchdog = watch(self, self._activities, stall_seconds)

    # --- tasks and actors --------------------------------------------------------------------------------------

    def submit(
        self,
        fn: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        self._check_open()
        name = options.name or getattr(fn, "__name__", "task")
        needs = self._needs(f"task {name}", options)
        code = self._codes.of(fn, name)
        arguments = Arguments(name, args, kwargs)
        shape = Shape.of(options, arguments.whole_parts)
        call = self._call(name, code.digest, "", shape, options.max_retries, options.memory)
        # Where Ray was there before, it shows messages of workers itself.
        call = call._replace(tells_begin=options.tells_begin and not self._cluster.was_found)
        run = with_options(
            _run_stream if options.is_streaming else _run_task,
            # The note of its deaths bounds the number of tries.
            max_retries=-1 if options.max_retries else 0,
            **needs,
            **returns(options, name, shape),
        )
        made = run.remote(call, code.argument, arguments.packed, *arguments.parts)
        origin = Origin(name, options.max_retries + 1, arguments.before, is_task=True)
        return self._reference(made, shape, origin, options)

    def create_actor(
        self, cls: type, args: tuple[object, ...], kwargs: dict[str, object], options: ActorOptions
    ) -> Ref:
        """See ``Engine``."""
        self._check_open()
        name = options.name or cls.__name__
        needs = self._needs(f"actor {name}", options)
        code = self._codes.of(cls, name)
        arguments = Arguments(name, args, kwargs)
        origin = Origin(name, 1, arguments.before)
        # The note of its deaths bounds the number of its lives.
        restarts = -1 if options.max_restarts else 0
        host = with_options(_actor_host, max_restarts=restarts, **needs)
        handle = host.remote(
            self._call(name, code.digest, "", Shape(1), options.max_restarts, options.memory),
            code.argument,
            arguments.packed,
            arguments.parts,
            origin,
        )
        return Ref(RayActor(handle, name, tuple(arguments.parts) if options.max_restarts else ()))

    def call_actor(
        self,
        actor: Ref,
        method: str,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        self._check_open()
        found = actor_of(actor)
        await_restart(found.handle)
        name = options.name or f"{found.name}.{method}"
        arguments = Arguments(name, args, kwargs)
        shape = Shape.of(options, arguments.whole_parts)
        call = self._call(name, b"", method, shape, options.max_retries, options.memory)
        host = found.handle.stream if options.is_streaming else found.handle.run
        # The note of the call bounds the number of its tries.
        retries = -1 if options.max_retries else 0
        run = host.options(max_task_retries=retries, **returns(options, name, shape))
        made = run.remote(call, arguments.packed, *arguments.parts)
        origin = Origin(name, options.max_retries + 1, arguments.before)
        return self._reference(made, shape, origin, options)

    def kill_actor(self, actor: Ref) -> None:
        """See ``Engine``."""
        self._check_open()
        handle = actor_of(actor).handle
        ray.kill(handle, no_restart=True)
        await_end(handle)

    def _call(
        self, name: str, digest: bytes, method: str, shape: Shape, max_retries: int, memory: int
    ) -> Call:
        """Returns a call as it travels, with where the worker finds modules."""
        path = modules.search_path() if self._cluster.was_started else modules.search_path_here()
        return Call(name, digest, method, shape, max_retries, memory, self._log_level(), path)

    def _needs(self, what: str, options: TaskOptions | ActorOptions) -> dict[str, object]:
        """Returns Ray's options for the resources of a task or actor, and for its node."""
        self._cluster.check(what, options.demand, options.memory)
        return {
            "num_cpus": options.num_cpus,
            "num_gpus": options.num_gpus,
            "resources": {name: amount for name, amount in options.resources.items() if amount},
            "memory": options.memory or None,
            "scheduling_strategy": self._cluster.affinity(options.node),
        }

    def _reference(
        self,
        made: ray.ObjectRefGenerator | list[ray.ObjectRef],
        shape: Shape,
        origin: Origin,
        options: TaskOptions,
    ) -> Ref | RefStream:
        self._num_tasks += 1
        if options.is_streaming:
            self._canceller.prepare()
            return RefStream(RayStream(made, origin, self._canceller, self._check_open))
        *parts, status = made
        self._watcher.watch(origin.name, status)
        return Ref(RayObject(tuple(parts), status, shape, origin))

    # --- objects -----------------------------------------------------------------------------------------------

    def put(self, value: object) -> Ref:
        """See ``Engine``."""
        self._check_open()
        part = ray.put(ValuePart([pack(value)]))
        return Ref(RayObject((part,), None, Shape(1), Origin("")))

    def get(self, ref: Ref | SliceRef, timeout: float | None = None) -> Value:
        """See ``Engine``."""
        self._check_open()
        found = object_of(ref.ref if isinstance(ref, SliceRef) else ref)
        if found.cancelled:
            raise cancelled(found.origin)
        chosen, span = span_of(found, ref.index if isinstance(ref, SliceRef) else None)
        return span.fill(fetch(list(chosen), found.origin, timeout))

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        """See ``Engine``."""
        self._check_open()
        statuses = [object_of(ref).status for ref in refs]
        is_ready = await_made(statuses, num_ready, timeout)
        return (
            list(itertools.compress(refs, is_ready)),
            list(itertools.compress(refs, (not ready for ready in is_ready))),
        )

    def error(self, ref: Ref) -> BaseException | None:
        """See ``Engine``."""
        self._check_open()
        found = object_of(ref)
        if found.cancelled:
            return cancelled(found.origin)
        if found.status is None or not is_made(found.status):
            return None
        try:
            ray.get(found.status)
        except ray.exceptions.RayError as error:
            return error_of(error, found.origin)
        return None

    def running(self, ref: Ref) -> RunningTask | None:
        """See ``TimingEngine``."""
        self._check_open()
        status = object_of(ref).status
        if status is None or self._cluster.was_found or is_made(status):
            return None
        return voices.running(status.task_id())

    def cancel(self, ref: Ref) -> bool:
        """See ``Engine``."""
        self._check_open()
        found = object_of(ref)
        if found.status is None or is_made(found.status):
            return False
        found.cancelled = True
        self._canceller.cancel(Target(found.status, found.origin.is_task))
        return True

    def allocate_block(self, offsets: Sequence[int]) -> BlockBuffer:
        """See ``Engine``."""
        return Block.allocate(offsets)

    def workers_bytes(self, executor: Executor) -> int:
        """See ``Engine``; the budget is the object store's alone."""
        del executor
        return 0

    def waiting(self) -> contextlib.AbstractContextManager[None]:
        """See ``Engine``; Ray lends CPUs only while a task waits for objects."""
        return contextlib.nullcontext()

    def waiting_for_tasks(self) -> contextlib.AbstractContextManager[None]:
        """Does nothing: Ray lends CPUs only while a task waits for objects."""
        return contextlib.nullcontext()

    # --- about the engine --------------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """See ``Engine``."""
        self._check_open()
        return self._cluster.nodes()

    def locate(self, ref: Ref) -> list[str]:
        """See ``Engine``."""
        self._check_open()
        return places(object_of(ref))

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        """See ``Engine``; the status of a task has the sizes of its result."""
        self._check_open()
        return [slice_bytes(object_of(ref)) for ref in refs]

    def stats(self) -> dict[str, int]:
        """Returns the number of tasks submitted.

        Where Ray was started here, there are also the memory of its processes, and the bytes of its spill files. Ray
        has the other counters.
        """
        stats = {"num_tasks": self._num_tasks}
        if self._cluster.was_started and not self._closed:
            stats["processes_peak_bytes"] = processes_peak_bytes()
            spilled = self._cluster.spilled_bytes()
            if spilled is not None:
                stats["spilled_bytes"] = spilled
        return stats

    def described(self) -> list[str]:
        """See ``DescribedEngine``."""
        self._check_open()
        return self._cluster.described()

    def add_observer(self, observer: Observer) -> None:
        """See ``Engine``; the observer is called on a thread of this engine."""
        self._watcher.add_observer(observer)

    def remove_observer(self, observer: Observer) -> None:
        """See ``Engine``."""
        self._watcher.remove_observer(observer)

    def close(self) -> None:
        """See ``Engine``; a Ray that was not started here goes on."""
        if self._closed:
            return
        self._closed = True
        if self._watchdog is not None:
            self._watchdog.close()
        self._watcher.close()
        self._canceller.close()
        if not self._cluster.was_found:
            end_session()
        self._cluster.close()

    def _log_level(self) -> int | None:
        """Returns the log level of this program, or of the task that this engine is in; see ``Call``."""
        return voices.level_here() if self._cluster.was_found else self._least_level

    @functools.cached_property
    def _least_level(self) -> int:
        return hearing.least_level()

    def _activities(self) -> list[Activity]:
        return [
            Activity(name, "Ray, which does not say what for ('ray list tasks' does)")
            for name in self._watcher.pending()
        ]

    def _check_open(self) -> None:
        # A call after Ray's end would start Ray anew.
        if self._closed or not ray.is_initialized():
            raise ClosedError("the engine is closed; call exoshuffle.init() to start another")
