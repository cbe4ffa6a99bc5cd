"""``LocalEngine``: the engine protocol, assembled of the parts in ``memory``, ``objects``, ``tasks`` and ``workers``.

Guarantees: references are counted exactly. A corrupt spilled block is computed again from its lineage and never
returned. The death of a worker loses no object. ``close`` ends every thread and process and leaves no block, file or
mapping behind.

All state is under one lock, the table's; waiting, I/O and user code happen outside it. No part knows the engine: each
takes the parts that it works with, or a protocol beside it says what it needs of them.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.engines.allocators import keep_some_of_heap
from exoshuffle.engines.hearing import least_level
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.memory.asking import ask
from exoshuffle.engines.local.memory.budget import Budget
from exoshuffle.engines.local.memory.helpless import Helpless
from exoshuffle.engines.local.memory.impatience import Impatience
from exoshuffle.engines.local.memory.kept import Kept
from exoshuffle.engines.local.memory.limits import Limits
from exoshuffle.engines.local.memory.spilling import SpillCompression, codec_of
from exoshuffle.engines.local.objects.results import Results
from exoshuffle.engines.local.objects.table import ObjectTable
from exoshuffle.engines.local.objects.values import INLINE_BYTES, StoreBlocks, check_inline_bytes
from exoshuffle.engines.local.tasks.about import About
from exoshuffle.engines.local.tasks.access import ObjectAccess
from exoshuffle.engines.local.tasks.activity import activities
from exoshuffle.engines.local.tasks.actors import ActorParts
from exoshuffle.engines.local.tasks.calling import Calling
from exoshuffle.engines.local.tasks.demands import Demands
from exoshuffle.engines.local.tasks.outcomes import ENGINE_NAME, Outcomes
from exoshuffle.engines.local.tasks.resources import Resources
from exoshuffle.engines.local.tasks.runner import Runner
from exoshuffle.engines.local.tasks.scheduler import Scheduler
from exoshuffle.engines.local.tasks.submissions import Submissions
from exoshuffle.engines.local.tasks.threads import Threads
from exoshuffle.engines.local.tasks.waits import Waits
from exoshuffle.engines.local.workers import forks
from exoshuffle.engines.local.workers.home import Home
from exoshuffle.engines.local.workers.pool import ProcessPool
from exoshuffle.engines.machine import usable_cpus
from exoshuffle.futures.engine import BlockBuffer, Node, RunningTask, set_task_engine
from exoshuffle.futures.events import Observer
from exoshuffle.futures.options import CPU, GPU, ActorOptions, Executor, TaskOptions
from exoshuffle.futures.refs import Ref, RefStream, SliceRef, Value
from exoshuffle.futures.session import Scoped
from exoshuffle.observe.watchdog import STALL_SECONDS, check_stall_seconds, watch

if TYPE_CHECKING:
    from exoshuffle.engines.local.workers import wire
    from exoshuffle.engines.local.workers.requests import Requests


class LocalEngine(Scoped):
    """Runs tasks on threads and worker processes of this machine, over a store with one byte budget.

    See ``exoshuffle.init`` for the arguments that every engine has.

    Args:
        memory_limit: The limit of the whole program, worker processes included.
        spill_dirs: One or several directories.
        num_cpus: How many tasks run at once.
        num_gpus: Declared GPUs.
        resources: Further declared resources.
        spill_compression: How spilled bytes are compressed: ``"lz4"``, ``"zstd"`` (smaller, at half of the speed),
            ``"none"``, or ``"auto"``. This is LZ4 where the disks are slower than it, which are rotating ones and
            network volumes. The bill of ``explain()`` names it.
        inline_bytes: Values up to this size are kept with their object instead of in the store.
        stall_seconds: After so long without a finished task the logger ``exoshuffle`` warns. The warning says which
            tasks run, where, and what the others wait for. None: it never warns.
    """

    name = ENGINE_NAME

    def __init__(  # noqa: PLR0913  what init() passes on
        self,
        memory_limit: int | str | None = None,
        spill_dirs: str | Sequence[str] | None = None,
        num_cpus: int | None = None,
        num_gpus: float = 0,
        resources: Mapping[str, float] | None = None,
        *,
        spill_compression: SpillCompression = "auto",
        inline_bytes: int = INLINE_BYTES,
        stall_seconds: float | None = STALL_SECONDS,
    ) -> None:
        limits.check_num_cpus(num_cpus)
        check_inline_bytes(inline_bytes)
        check_stall_seconds(stall_seconds)
        bounds = Limits.of(memory_limit, num_cpus or usable_cpus())
        if spill_dirs is None:
            spill_dirs = limits.default_spill_dir()
        self.num_cpus = bounds.num_cpus
        self.memory_limit = bounds.memory_limit
        self.spill_dirs = (
            [spill_dirs] if isinstance(spill_dirs, str) else [str(path) for path in spill_dirs]
        )
        self.spill_codec = codec_of(spill_compression, self.spill_dirs)
        bounds = bounds.without(_native.Store.packing_bytes(self.spill_codec, len(self.spill_dirs)))
        self._assemble_memory(bounds, inline_bytes)
        self._resources = Resources({CPU: self.num_cpus, GPU: num_gpus, **(resources or {})})
        self._assemble_tasks()
        self._watchdog = watch(
            self, lambda: activities(self.table, self._scheduler, self._waits), stall_seconds
        )
        forks.tell_children(self.table)

    def _assemble_memory(self, bounds: Limits, inline_bytes: int) -> None:
        """Makes the store, the budget that bounds it, and the table of its objects."""
        self.store = _native.Store(
            bounds.budget_bytes,
            self.spill_dirs,
            helpless=functools.partial(ask, weakref.ref(self)),
            codec=self.spill_codec,
        )
        self._blocks = StoreBlocks(self.store, inline_bytes, self._collect_garbage)
        self.budget = Budget(
            bounds, self.store, self._blocks.collect_if_nearly_full, self._library_loaded
        )
        keep_some_of_heap(self.memory_limit)
        near = self.memory_limit - limits.slack_bytes(self.memory_limit) * 2 // 3
        stop = limits.stop_bytes(self.memory_limit)
        self.guard = _native.MemoryGuard(self.store, near, stop, limits.SHARED_CODE_BYTES)
        self._kept = Kept(bounds, self.guard.peak)
        self._impatience = Impatience()
        self.table = ObjectTable(self.store)

    def _assemble_tasks(self) -> None:
        """Makes the parts that run tasks, from the workers up to the parts that take tasks in."""
        results = Results(self.table)
        home = Home(
            self.store,
            self.guard,
            self.memory_limit,
            self.num_cpus,
            results,
            self._hello,
            self._requests,
            self.waiting_for_tasks,
        )
        self.pool = ProcessPool(home, self.budget, self._impatience, self.table.check_open)
        threads = Threads(self._blocks, results)
        runner = Runner(self.table, self.store, self.budget, self._impatience, threads, self.pool)
        self._outcomes = Outcomes(self.table, self.pool, self.num_cpus)
        self._scheduler = Scheduler(
            self.table,
            self._resources,
            runner,
            self._outcomes,
            functools.partial(set_task_engine, self),
        )
        self.table.start = self._scheduler.start
        self._waits = Waits(self.table, self._scheduler)
        self._helpless = Helpless(self._waits, self.memory_limit, self._collect_garbage)
        self._objects = ObjectAccess(self.table, self._waits, self.store, self._blocks, self._kept)
        parts = ActorParts(self.table, self._scheduler, runner, self._outcomes, threads, self.pool)
        self._submissions = Submissions(parts, self._objects)
        self._demands = Demands(self._resources, self.budget, self._scheduler)
        self._tasks = Calling(self._submissions, self._demands, self.pool, self._objects)
        self._about = About(self.table, self.store, self._resources, self._submissions)

    def _hello(self) -> wire.Hello:
        """Returns what a worker is told when it starts."""
        from exoshuffle.engines.local.workers import wire

        return wire.Hello(
            self._blocks.inline_bytes,
            self.memory_limit,
            self.budget_bytes,
            self.spill_dirs,
            self.spill_codec,
            self.num_cpus,
            least_level(),
        )

    def _requests(self) -> Requests:
        """Returns the part that answers the questions of a new worker."""
        from exoshuffle.engines.local.workers.requests import Requests

        return Requests(self._blocks, self._objects, self._tasks, self._about)

    @property
    def budget_bytes(self) -> int:
        """See ``Engine``; workers that run, and libraries that were loaded since the start, have been taken off."""
        self.table.check_process()
        return self._demands.budget_bytes

    # --- tasks and actors --------------------------------------------------------------------------------------

    def submit(
        self,
        fn: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        return self._tasks.submit(fn, args, kwargs, options)

    def create_actor(
        self, cls: type, args: tuple[object, ...], kwargs: dict[str, object], options: ActorOptions
    ) -> Ref:
        """See ``Engine``."""
        return self._tasks.create_actor(cls, args, kwargs, options)

    def call_actor(
        self,
        actor: Ref,
        method: str,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        return self._tasks.call_actor(actor, method, args, kwargs, options)

    def kill_actor(self, actor: Ref) -> None:
        """See ``Engine``."""
        self._tasks.kill_actor(actor)

    # --- objects -----------------------------------------------------------------------------------------------

    def put(self, value: object) -> Ref:
        """See ``Engine``."""
        return self._objects.put(value)

    def get(self, ref: Ref | SliceRef, timeout: float | None = None) -> Value:
        """See ``Engine``."""
        return self._objects.get(ref, timeout)

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        """See ``Engine``."""
        return self._objects.wait(refs, num_ready, timeout)

    def error(self, ref: Ref) -> BaseException | None:
        """See ``Engine``."""
        return self._objects.error(ref)

    def running(self, ref: Ref) -> RunningTask | None:
        """See ``TimingEngine``."""
        return self._objects.running(ref)

    def cancel(self, ref: Ref) -> bool:
        """See ``Engine``."""
        return self._objects.cancel(ref)

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        """See ``Engine``."""
        return self._objects.slice_bytes(refs)

    def locate(self, ref: Ref) -> list[str]:
        """See ``Engine``."""
        return self._objects.locate(ref)

    def allocate_block(self, offsets: Sequence[int]) -> BlockBuffer:
        """See ``Engine``."""
        return self._blocks.allocate(offsets)

    # --- about the engine --------------------------------------------------------------------------------------

    def workers_bytes(self, executor: Executor) -> int:
        """See ``Engine``."""
        if executor == "thread":
            return 0
        return max(0, self.pool.room.all_bytes - self.budget.workers_bytes)

    def waiting(self) -> contextlib.AbstractContextManager[None]:
        """See ``Engine``."""
        return self._scheduler.slot_given_back()

    def waiting_for_tasks(self) -> contextlib.AbstractContextManager[None]:
        """See ``Engine``."""
        return self._waits.for_tasks()

    def nodes(self) -> list[Node]:
        """See ``Engine``."""
        return self._about.nodes()

    def stats(self) -> dict[str, int]:
        """Returns counters of the store, tasks submitted, objects in the store and objects recovered."""
        return self._about.stats()

    def add_observer(self, observer: Observer) -> None:
        """Calls ``observer`` with every event from now on, on the thread where it happens."""
        self._outcomes.observers.append(observer)

    def remove_observer(self, observer: Observer) -> None:
        """Ends ``add_observer``."""
        self._outcomes.observers.remove(observer)

    def close(self) -> None:
        """See ``Engine``; in a forked child there is nothing to close."""
        if self.table.is_inherited:
            return
        with self.table.lock:
            if self.table.closed:
                return
            self.table.close()
            self._kept.look()
            for actor in self._submissions.actors:
                actor.wake()
        # All steps are taken, also if one is interrupted; the last one named comes first.
        with contextlib.ExitStack() as steps:
            if self._watchdog is not None:
                steps.callback(self._watchdog.close)
            steps.callback(self.guard.close)
            steps.callback(self.pool.end_servers)
            steps.callback(self._scheduler.close)
            steps.callback(self.pool.close)
            steps.callback(self.store.close)

    def _library_loaded(self) -> None:
        """Gives back the pages that loading a library touched; the program does not keep them."""
        _native.release_libraries()
        self.guard.restart_peak()

    def help_store(self, num_bytes: int, quiet_seconds: float) -> None:
        """See ``asking.Helper``."""
        self.pool.end_idle()
        self.pool.offer_idle()
        self._impatience.check()
        self._helpless(num_bytes, quiet_seconds)

    def _collect_garbage(self) -> None:
        gc.collect()
        self.pool.collect_garbage()
        self.table.settle()
