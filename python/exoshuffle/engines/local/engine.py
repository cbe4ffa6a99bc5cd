"""``LocalEngine``: the engine protocol, over the table of objects, the scheduler, the worker processes and the store.

Guarantees: references are counted exactly; a corrupt spilled block is computed again from its lineage and never
returned; the death of a worker loses no object; ``close`` ends every thread and process and leaves no block, file or
mapping behind.

All state is under one lock, the table's; waiting, I/O and user code happen outside it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exoshuffle import _native
from exoshuffle.engines.allocators import keep_some_of_heap
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.memory.helpless import Helpless
from exoshuffle.engines.local.memory.kept import Kept
from exoshuffle.engines.local.memory.libraries import Libraries
from exoshuffle.engines.local.objects import arguments, loading, values
from exoshuffle.engines.local.objects.calls import Call, code_of, pack
from exoshuffle.engines.local.objects.loading import Loaded
from exoshuffle.engines.local.objects.state import ObjectState, Status, Task
from exoshuffle.engines.local.objects.streams import Stream
from exoshuffle.engines.local.objects.table import ObjectTable
from exoshuffle.engines.local.tasks.activity import activities
from exoshuffle.engines.local.tasks.actors import LocalActor, creation_options
from exoshuffle.engines.local.tasks.attempts import Attempts
from exoshuffle.engines.local.tasks.resources import Need, Resources
from exoshuffle.engines.local.tasks.scheduler import Scheduler
from exoshuffle.engines.local.tasks.submissions import Submissions
from exoshuffle.engines.local.tasks.waits import Waits
from exoshuffle.engines.local.workers import forks
from exoshuffle.engines.local.workers.pool import ProcessPool
from exoshuffle.engines.local.workers.processes import WORKER_BYTES
from exoshuffle.futures.engine import BlockBuffer, Node
from exoshuffle.futures.options import CPU, GPU, ActorOptions, Executor, TaskOptions
from exoshuffle.futures.refs import Ref, RefStream, SliceRef
from exoshuffle.observe.events import Observer
from exoshuffle.observe.watchdog import STALL_SECONDS, check_stall_seconds, watch


class LocalEngine:
    """Runs tasks on threads and worker processes of this machine, over a store with one byte budget.

    See ``exoshuffle.init`` for the arguments that every engine has.

    Args:
        memory_limit: For the whole program, worker processes included.
        spill_dirs: One or several directories.
        num_cpus: Tasks that run at once.
        num_gpus: Declared GPUs.
        resources: Further declared resources.
        inline_bytes: Values up to this size are kept with their object instead of in the store.
        stall_seconds: After so long without a finished task the logger ``exoshuffle`` warns, and says which tasks run,
            where, and what the others wait for; None: never.
    """

    name = "local"

    def __init__(  # noqa: PLR0913  what init() passes on
        self,
        memory_limit: int | str | None = None,
        spill_dirs: str | Sequence[str] | None = None,
        num_cpus: int | None = None,
        num_gpus: float = 0,
        resources: Mapping[str, float] | None = None,
        *,
        inline_bytes: int = values.INLINE_BYTES,
        stall_seconds: float | None = STALL_SECONDS,
    ) -> None:
        limits.check_num_cpus(num_cpus)
        values.check_inline_bytes(inline_bytes)
        check_stall_seconds(stall_seconds)
        self.num_cpus = num_cpus or limits.usable_cpus()
        self.memory_limit, self._budget_bytes = limits.limit_and_budget(memory_limit, self.num_cpus)
        if spill_dirs is None:
            spill_dirs = limits.default_spill_dir()
        self.spill_dirs = (
            [spill_dirs] if isinstance(spill_dirs, str) else [str(path) for path in spill_dirs]
        )
        self.inline_bytes = inline_bytes
        self.store = _native.Store(
            self._budget_bytes, self.spill_dirs, helpless=functools.partial(_ask, weakref.ref(self))
        )
        self.blocks = values.StoreBlocks(self.store, inline_bytes, self._collect_garbage)
        self._libraries = Libraries(self._reserve_library, self._loaded)
        keep_some_of_heap(self.memory_limit)
        near = self.memory_limit - limits.slack_bytes(self.memory_limit) * 2 // 3
        stop = limits.stop_bytes(self.memory_limit)
        self.guard = _native.MemoryGuard(self.store, near, stop, limits.SHARED_CODE_BYTES)
        self._kept = Kept(self.memory_limit, self.guard.peak)
        self.table = ObjectTable(self.store)
        self.lock = self.table.lock
        self._resources = Resources({CPU: self.num_cpus, GPU: num_gpus, **(resources or {})})
        self._scheduler = Scheduler(self, self.lock, self.num_cpus, self._resources)
        self._waits = Waits(self.table, self._scheduler)
        self.helpless = Helpless(self._waits, self.memory_limit, self._collect_garbage)
        self.pool = ProcessPool(self, self.num_cpus)
        self.attempts = Attempts(self)
        self._submissions = Submissions(self, self._scheduler, self._resources)
        self.observers: list[Observer] = []
        self.table.start = self._start
        self._watchdog = watch(
            self, lambda: activities(self, self._scheduler, self._waits), stall_seconds
        )
        forks.tell_children(self)

    @property
    def budget_bytes(self) -> int:
        """What blocks and tasks may use; libraries that were loaded since the start have been taken off."""
        self.table.check_process()
        if self._scheduler.current_task() is not None:
            # Two reduces that loaded DuckDB waited here for memory that blocks had, which only they would free.
            return self._budget_bytes - self._libraries.loaded_bytes
        return self._budget_bytes - self._libraries.taken_bytes()

    @property
    def room_bytes(self) -> int:
        """What can ever be free for a task and its arguments: the budget less what nobody will give back."""
        return self._budget_bytes - self._libraries.reserved_bytes - self.pool.reserved_bytes

    # --- tasks and actors --------------------------------------------------------------------------------------

    def submit(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        self.check_open()
        name = options.name or getattr(fn, "__name__", "task")
        if options.executor == "thread":
            self._submissions.check(name, options)
            return self._submissions.task(Task(fn, args, kwargs, options, 0))
        call, references = self._packed(fn, "", name, args, kwargs)
        return self.submit_call(call, references, name, options)

    def submit_call(
        self, call: Call, references: tuple[Any, ...], name: str, options: TaskOptions
    ) -> Ref | RefStream:
        """A task whose function and arguments are packed."""
        taken_bytes = 0
        if options.executor == "process":
            self.pool.prepare()
            taken_bytes = self.pool.base_bytes
        self._submissions.check(name, options, taken_bytes)
        task = Task(None, references, {}, options, 0)
        task.call, task.name = call, name
        return self._submissions.task(task)

    def create_actor(
        self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any], options: ActorOptions
    ) -> Ref:
        """See ``Engine``."""
        self.check_open()
        name = options.name or cls.__name__
        if options.executor == "thread":
            return self._submissions.actor(
                Task(cls, args, kwargs, creation_options(options), 0), name, options
            )
        call, references = self._packed(cls, "", name, args, kwargs)
        return self.create_actor_call(call, references, name, options)

    def create_actor_call(
        self, call: Call, references: tuple[Any, ...], name: str, options: ActorOptions
    ) -> Ref:
        """An actor whose class and arguments are packed."""
        if options.executor == "process":
            self.pool.prepare()
        task = Task(None, references, {}, creation_options(options), 0)
        task.call = call
        return self._submissions.actor(task, name, options)

    def call_actor(
        self,
        actor: Ref,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        found = self._actor_of(actor)
        if found.is_thread:
            return self._submissions.call(found, method, Task(None, args, kwargs, options, 0))
        call, references = self._packed(None, method, f"{found.name}.{method}", args, kwargs)
        return self.call_actor_call(actor, call, references, options)

    def call_actor_call(
        self, actor: Ref, call: Call, references: tuple[Any, ...], options: TaskOptions
    ) -> Ref | RefStream:
        """A call, packed; see ``call_actor``."""
        found = self._actor_of(actor)
        task = Task(None, references, {}, options, 0)
        task.call = call
        return self._submissions.call(found, call.method, task)

    def kill_actor(self, actor: Ref) -> None:
        """See ``Engine``."""
        found = self._actor_of(actor)
        with self.lock:
            found.kill()
        self.table.settle()

    def _packed(
        self,
        fn: Callable[..., Any] | None,
        method: str,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[Call, tuple[Any, ...]]:
        code = None if fn is None else code_of(fn, name)
        data, references, captured = pack(self, name, args, kwargs)
        return Call(code, method, data, captured), references

    # --- objects -----------------------------------------------------------------------------------------------

    def put(self, value: Any) -> Ref:
        """See ``Engine``."""
        self.check_open()
        return self.keep(values.encode(self.blocks, value, 1))

    def keep(self, stored: values.StoredValue) -> Ref:
        """A reference to a value that is stored already."""
        with self.lock:
            self.check_open()
            state = ObjectState(self.table, 1, None)
            ref = Ref(state)
            self.table.fulfil(state, stored)
        return ref

    def get(self, ref: Ref | SliceRef, timeout: float | None = None) -> Any:
        """See ``Engine``."""
        ((state, index),) = arguments.wanted(ref)
        self.table.own(state)
        stored = state.stored
        if stored is not None and stored.inline is not None:
            return values.assemble(stored, state.num_slices, index, [])
        return self.get_loaded(ref, timeout).value()

    def get_loaded(self, ref: Ref | SliceRef, timeout: float | None) -> Loaded:
        """What ``get`` returns, before it is decoded."""
        ((state, index),) = arguments.wanted(ref)
        self.table.own(state)
        self._kept.look()
        return self._waits.look(
            state, timeout, lambda state: loading.load(self.store, [(state, index)])[0]
        )

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        """See ``Engine``."""
        look = functools.partial(loading.slice_bytes, self.store)
        return [self._waits.look(self.table.own(ref._object), None, look) for ref in refs]

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        """See ``Engine``."""
        for ref in refs:
            self.table.own(ref._object)
        return self._waits.wait(refs, num_ready, timeout)

    def next_item(self, stream: Stream, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle.next_ref``."""
        self.check_open()
        return self._waits.next_item(stream, index, timeout)

    def await_taker(self, stream: Stream) -> None:
        """See ``Waits``."""
        self._waits.await_taker(stream)

    def error(self, ref: Ref) -> BaseException | None:
        """See ``Engine``."""
        return self.table.own(ref._object).error

    def cancel(self, ref: Ref) -> bool:
        """See ``Engine``; a generator that runs on a thread, or in an actor, ends with its next item."""
        state = self.table.own(ref._object)
        with self.lock:
            task = state.task
            if state.status is not Status.PENDING or task is None or state.actor is not None:
                return False
            interrupt = task.interrupt
            if task.started and interrupt is None and task.stream is None:
                return False
            self.table.cancel(task)
        if interrupt is not None:
            interrupt()
        self.table.settle()
        return True

    def allocate_block(self, offsets: Sequence[int]) -> BlockBuffer:
        """See ``Engine``."""
        block: BlockBuffer = self.blocks.allocate(offsets)
        return block

    def workers_bytes(self, executor: Executor) -> int:
        """See ``Engine``."""
        return self.num_cpus * WORKER_BYTES if executor == "process" else 0

    def waiting(self) -> contextlib.AbstractContextManager[None]:
        """See ``Engine``."""
        return self._scheduler.slot_given_back()

    # --- about the engine --------------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """See ``Engine``."""
        self.check_open()
        return [Node(self.name, dict(self._resources.total))]

    def locate(self, ref: Ref) -> list[str]:
        """See ``Engine``."""
        return [self.name] if self.table.own(ref._object).status is Status.DONE else []

    def stats(self) -> dict[str, int]:
        """Counters of the store, tasks submitted, objects in the store and objects recovered."""
        self.table.check_process()
        self.table.settle()
        counters: dict[str, int] = self.store.stats()
        return counters | {
            "num_tasks": self._submissions.num_tasks,
            "num_recovered": self.table.num_recovered,
            "num_objects": self.table.num_blocks,
        }

    def forked(self, process: int) -> None:
        """See ``forks``."""
        self.table.forked(process)

    def close(self) -> None:
        """See ``Engine``; in a forked child there is nothing to close."""
        if self.table.is_inherited:
            return
        with self.lock:
            if self.table.closed:
                return
            self.table.close()
            self._kept.look()
            for actor in self._submissions.actors:
                actor.wake()
        # All of it, also if one step is interrupted; the last one named comes first.
        with contextlib.ExitStack() as steps:
            if self._watchdog is not None:
                steps.callback(self._watchdog.close)
            steps.callback(self.guard.close)
            steps.callback(self.pool.servers.end)
            steps.callback(self._scheduler.close)
            steps.callback(self.pool.close)
            steps.callback(self.store.close)

    def check_open(self) -> None:
        """Raises ``ClosedError`` once the engine is closed."""
        self.table.check_open()

    def add_observer(self, observer: Observer) -> None:
        """Calls ``observer`` with every event from now on, on the thread where it happens."""
        self.observers.append(observer)

    def remove_observer(self, observer: Observer) -> None:
        """Ends ``add_observer``."""
        self.observers.remove(observer)

    # --- called by those who run tasks -------------------------------------------------------------------------

    def reserve(self, num_bytes: int) -> Any:
        """Working memory; blocks until there is room."""
        self.blocks.collect_if_nearly_full(num_bytes)
        return self.store.reserve(num_bytes)

    def _reserve_library(self, num_bytes: int) -> Any:
        """Takes a library off the budget; for one that can never fit it would wait for ever."""
        if num_bytes > self.room_bytes:
            taken_bytes = self.memory_limit - self.room_bytes + num_bytes
            raise limits.too_small(self.memory_limit, taken_bytes, self.num_cpus)
        return self.reserve(num_bytes)

    def running(self, task: Task) -> contextlib.AbstractContextManager[None]:
        """Around running a task on a thread that is not the scheduler's."""
        return self._scheduler.running(task)

    def start_thread(self, loop: Callable[[], None], name: str) -> None:
        """Starts a thread that ``close`` waits for. Lock held."""
        self._scheduler.start_thread(loop, name)

    def actor_ended(self, need: Need) -> None:
        """What an actor occupied is free again. Lock held."""
        self._scheduler.give_back(need)

    def _loaded(self) -> None:
        """Libraries were loaded: what that touched goes back, and is nothing that the program keeps."""
        _native.release_libraries()
        self.guard.restart_peak()

    def _collect_garbage(self) -> None:
        gc.collect()
        self.pool.collect_garbage()
        self.table.settle()

    def _actor_of(self, ref: Ref) -> LocalActor:
        actor = self.table.own(ref._object).actor
        assert actor is not None
        return actor

    def _start(self, task: Task) -> None:
        """The arguments of a task are done. Lock held."""
        if task.actor is not None:
            task.actor.ready(task)
        else:
            self._scheduler.add(
                task, staged=self.attempts.has_references(task) or task.options.memory > 0
            )


def _ask(engine: weakref.ref[LocalEngine], num_bytes: int, quiet_seconds: float) -> None:
    """What a store asks that waits for others; its engine has it, and not the other way round."""
    found = engine()
    if found is not None:
        found.helpless(num_bytes, quiet_seconds)
