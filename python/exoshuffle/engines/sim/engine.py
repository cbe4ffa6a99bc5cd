"""``SimEngine``: the engine protocol in virtual time, assembled of the parts in ``clock``, ``objects`` and ``tasks``.

Guarantees: one seed, one course of events, one trace hash. Strategies and operators run on it as they are. Either their
functions run (in this process, one at a time), or cost models stand for them and no data exists.

Virtual time passes while the program waits, and by ``Cluster.call_seconds`` for each of its calls.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from exoshuffle.engines.sim.clock.routines import Stopped, current_routine
from exoshuffle.engines.sim.cluster.description import Cluster
from exoshuffle.engines.sim.faults import Faults
from exoshuffle.engines.sim.models import CostModel
from exoshuffle.engines.sim.objects.arguments import chosen, handle_of, state_of
from exoshuffle.engines.sim.objects.state import INLINE_BYTES, State, Status
from exoshuffle.engines.sim.objects.values import Block, Pickled
from exoshuffle.engines.sim.tasks.actors import Actor, Actors, actor_of
from exoshuffle.engines.sim.tasks.demands import check_demand
from exoshuffle.engines.sim.tasks.garbage import Garbage
from exoshuffle.engines.sim.tasks.outcomes import Outcomes, Ran
from exoshuffle.engines.sim.tasks.pending import described
from exoshuffle.engines.sim.tasks.running import Running
from exoshuffle.engines.sim.tasks.scheduler import Scheduler
from exoshuffle.engines.sim.tasks.streams import Streams
from exoshuffle.engines.sim.tasks.submissions import Submissions
from exoshuffle.engines.sim.tasks.task import Attempt, Task
from exoshuffle.engines.sim.tasks.waits import Wait, Waits
from exoshuffle.engines.sim.tasks.world import World
from exoshuffle.engines.unpicklable import pickled as checked
from exoshuffle.errors import OptionsError, TaskCancelledError
from exoshuffle.futures.engine import BlockBuffer, Node, RunningTask
from exoshuffle.futures.events import Observer
from exoshuffle.futures.options import ActorOptions, Executor, TaskOptions
from exoshuffle.futures.refs import Ref, RefStream, SliceRef, Value
from exoshuffle.futures.session import Scoped


class SimEngine(Scoped):
    """Runs tasks in virtual time: ``xs.init(xs.sim.SimEngine(cluster))``.

    Args:
        cluster: The nodes.
        models: Cost models by the name of the task. Then no function runs, and results have sizes but no values.
            Default: all functions run.
        seed: Decides the order of events of one moment.
        faults: The faults to make; default: none.

    Raises:
        OptionsError: The faults name a node that the cluster has not.
    """

    name = "sim"

    def __init__(
        self,
        cluster: Cluster,
        *,
        models: Mapping[str, CostModel] | None = None,
        seed: int = 0,
        faults: Faults | None = None,
    ) -> None:
        self.cluster = cluster
        self.models = models
        self._faults = faults or Faults()
        self.world = World(cluster, seed)
        self._check_faults()
        self.num_cpus = sum(machine.num_cpus for machine in cluster.machines)
        self.memory_limit = sum(machine.memory_bytes for machine in cluster.machines)
        self.spill_dirs: list[str] = []
        self.spill_codec: str | None = None
        self._assemble()

    def _assemble(self) -> None:
        world = self.world
        self._outcomes = outcomes = Outcomes(world)
        self._running = Running(world, self, outcomes, self.models, self._faults)
        self._scheduler = outcomes.scheduler = Scheduler(
            world, self._running.run, outcomes.failed, outcomes.is_ready, outcomes.forget
        )
        self._waits = Waits(
            world,
            self._collect,
            lambda: described(outcomes.unfinished),
            self._scheduler.look,
        )
        self._streams = Streams(world, self._waits, outcomes, self._running)
        self._submissions = Submissions(world, self._streams, has_functions=self.models is None)
        self._actors = Actors(world, self._scheduler, outcomes, self._running)
        self._garbage = Garbage(world, self._actors, self._streams)
        for seconds, name in self._faults.node_deaths:
            dying = functools.partial(outcomes.node_died, world.places[name])
            world.clock.at(seconds, dying)

    def _check_faults(self) -> None:
        for seconds, name in self._faults.node_deaths:
            if name not in self.world.places:
                known = ", ".join(self.world.places)
                raise OptionsError(
                    f"faults has the death of {name!r} after {seconds} s, and there is no such node; known are {known}"
                )

    @property
    def budget_bytes(self) -> int:
        """The memory of the nodes that live."""
        return sum(place.store.budget_bytes for place in self.world.alive())

    @property
    def now(self) -> float:
        """The virtual time in seconds."""
        return self.world.clock.now

    def clock(self) -> float:
        """Returns the virtual time in seconds: the clock for ``Speculation`` and ``MergeOptions``."""
        return self.world.clock.now

    @property
    def trace_hash(self) -> str:
        """The hash of all that has happened."""
        return self.world.clock.trace_hash

    @property
    def ran(self) -> list[Ran]:
        """The attempts that have succeeded."""
        return self._outcomes.ran

    # --- tasks -------------------------------------------------------------------------------------------------

    def submit(
        self,
        fn: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        with self._waits.turn:
            self._waits.check_open()
            name = options.name or getattr(fn, "__name__", "task")
            check_demand(self.cluster, name, options)
            if self.models is not None and name not in self.models:
                raise OptionsError(
                    f"task {name} has no cost model; there are models for {', '.join(sorted(self.models)) or 'none'}"
                )
            task = self._submissions.task(
                name, self._submissions.function(fn, name), args, kwargs, options
            )
            made = self._submissions.result(task)
            self._outcomes.await_arguments(task)
            self._waits.charge()
            return made

    def create_actor(
        self,
        cls: type,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: ActorOptions,
    ) -> Ref:
        """See ``Engine``."""
        with self._waits.turn:
            self._waits.check_open()
            name = options.name or cls.__name__
            check_demand(self.cluster, name, options)
            needs = TaskOptions(
                num_cpus=options.num_cpus,
                num_gpus=options.num_gpus,
                resources=options.resources,
                memory=options.memory,
                node=options.node,
                name=name,
            )
            task = self._submissions.task(
                name, self._submissions.function(cls, name), args, kwargs, needs
            )
            task.actor = actor = Actor(name, options)
            task.is_constructor = True
            actor.constructor = task
            made = self._submissions.result(task)
            assert isinstance(made, Ref)
            self._outcomes.await_arguments(task)
            self._waits.charge()
            return made

    def call_actor(
        self,
        actor: Ref,
        method: str,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        with self._waits.turn:
            self._waits.check_open()
            called = actor_of(actor)
            name = options.name or method
            task = self._submissions.task(name, Pickled(None), args, kwargs, options)
            task.actor, task.method, task.holds = called, method, handle_of(actor)
            made = self._submissions.result(task)
            self._actors.call(called, task)
            self._waits.charge()
            return made

    def kill_actor(self, actor: Ref) -> None:
        """See ``Engine``."""
        with self._waits.turn:
            self._waits.check_open()
            self._actors.kill(actor_of(actor))

    def cancel(self, ref: Ref) -> bool:
        """See ``Engine``; a task that has begun ends, too."""
        with self._waits.turn:
            self._waits.check_open()
            state = state_of(ref)
            task = state.task
            if state.is_over or not isinstance(task, Task) or task.is_constructor:
                return False
            error = TaskCancelledError(f"{task.name} was cancelled")
            attempt = task.attempt
            self._outcomes.fail(task, error)
            if attempt is not None:
                self._outcomes.stop(attempt, error)
            return True

    # --- objects -----------------------------------------------------------------------------------------------

    def put(self, value: object) -> Ref:
        """See ``Engine``; a small value stays with the program, a larger one lies on the node that puts it."""
        with self._waits.turn:
            self._waits.check_open()
            part = checked(Pickled, value)
            state = State(next(self.world.numbers), 1, None, self.world.shared)
            ref = Ref(state.kept())
            state.parts, state.part_bytes = [part], [len(part)]
            self._keep(state)
            self._waits.charge()
            return ref

    def _keep(self, state: State) -> None:
        routine = current_routine()
        attempt = None if routine is None else routine.owner
        alive = self.world.alive()
        # The program is on the first node that lives.
        places = [attempt.place] if isinstance(attempt, Attempt) else alive[:1]
        for place in places if state.num_bytes > INLINE_BYTES else ():
            # A value is there already when it is put, so its memory is taken and not asked for.
            place.store.take(state.num_bytes)
            place.store.keep(state, state.num_bytes, in_memory=True)
        state.end(Status.DONE)

    def get(self, ref: Ref | SliceRef, timeout: float | None = None) -> Value:
        """See ``Engine``.

        Raises:
            OptionsError: The object is modelled, and has no value.
        """
        with self._waits.turn:
            self._waits.check_open()
            whole = ref if isinstance(ref, Ref) else ref.ref
            state = state_of(whole)
            if self.models is not None and isinstance(state.task, Task):
                raise OptionsError(
                    f"get of the result of {state.task.name}, which is modelled and has no value; use wait(), or give "
                    "the engine no models"
                )
            if not self._await([state], 1, timeout):
                raise TimeoutError(f"{state.number} has not come in {timeout} s of virtual time")
            if state.error is not None:
                raise state.error
            assert state.parts is not None
            return chosen(state.parts, None if isinstance(ref, Ref) else ref.index)

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        """See ``Engine``."""
        with self._waits.turn:
            self._waits.check_open()
            self._await([state_of(ref) for ref in refs], num_ready, timeout)
            done = [state_of(ref).is_over for ref in refs]
            return (
                [ref for ref, is_over in zip(refs, done, strict=True) if is_over],
                [ref for ref, is_over in zip(refs, done, strict=True) if not is_over],
            )

    def error(self, ref: Ref) -> BaseException | None:
        """See ``Engine``."""
        self._waits.check_open()
        return state_of(ref).error

    def running(self, ref: Ref) -> RunningTask | None:
        """See ``TimingEngine``; in virtual time."""
        self._waits.check_open()
        state = state_of(ref)
        if state.is_over or state.task is None:
            return None
        return state.task.running(self.world.clock.now)

    def locate(self, ref: Ref) -> list[str]:
        """See ``Engine``."""
        self._waits.check_open()
        state = state_of(ref)
        if state.copy is not None:
            return [state.copy.node]
        return [place.name for place in self.world.alive()[:1]] if state.is_inline else []

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        """See ``Engine``; slices of modelled objects are of equal size."""
        with self._waits.turn:
            self._waits.check_open()
            states = [state_of(ref) for ref in refs]
            self._await(states, len(states), None)
            for state in states:
                if state.error is not None:
                    raise state.error
            return [
                [state.slice_bytes(index) for index in range(len(ref))]
                for state, ref in zip(states, refs, strict=True)
            ]

    def allocate_block(self, offsets: Sequence[int]) -> BlockBuffer:
        """See ``Engine``; the memory counts when the task returns it."""
        return Block(offsets)

    # --- the engine itself -------------------------------------------------------------------------------------

    def workers_bytes(self, executor: Executor) -> int:
        """Returns 0, since there are no workers."""
        del executor
        return 0

    def waiting(self) -> AbstractContextManager[None]:
        """Does nothing: what a function waits for takes no virtual time."""
        return contextlib.nullcontext()

    def waiting_for_tasks(self) -> AbstractContextManager[None]:
        """Does nothing: what a function waits for takes no virtual time."""
        return contextlib.nullcontext()

    def nodes(self) -> list[Node]:
        """See ``Engine``."""
        self._waits.check_open()
        return [Node(place.name, place.machine.amounts) for place in self.world.alive()]

    def stats(self) -> dict[str, int]:
        """See ``Engine``: tasks, bytes by device, requests, objects lost, and microseconds of CPUs."""
        names = ("num_tasks", "spilled_bytes", "restored_bytes", "network_bytes", "num_lost", "num_made_again",
                 "num_deaths", "disk_requests",
                 "storage_read_bytes", "storage_read_requests", "storage_written_bytes", "storage_write_requests",
                 "made_bytes", "cpu_microseconds")  # fmt: skip
        stores = [place.store for place in self.world.places.values()]
        return {name: self.world.counts[name] for name in names} | {
            "used_bytes": sum(store.used_bytes for store in stores),
            "peak_bytes": max(store.peak_bytes for store in stores),
            "fallback_bytes": sum(store.fallback_bytes for store in stores),
            "num_events": self.world.clock.num_events,
        }

    def add_observer(self, observer: Observer) -> None:
        """See ``Engine``."""
        self._outcomes.observers.append(observer)

    def remove_observer(self, observer: Observer) -> None:
        """See ``Engine``."""
        self._outcomes.observers.remove(observer)

    def close(self) -> None:
        """Ends all functions that have paused, and their threads."""
        if self._waits.is_closed:
            return
        self._waits.is_closed = True
        for place in self.world.places.values():
            for attempt in list(place.attempts):
                attempt.is_over = True
                routine = attempt.routine
                if routine is not None and not routine.is_over and routine is not current_routine():
                    routine.resume(Stopped())
        self.world.threads.close()

    # --- inside ------------------------------------------------------------------------------------------------

    def _await(self, states: Sequence[State], num_ready: int, timeout: float | None) -> bool:
        self._waits.charge()
        end = None if timeout is None else self.world.clock.now + timeout
        while True:
            for state in states:
                self._outcomes.need(state)
            left = [state for state in states if not state.is_over]
            num_left = num_ready - (len(states) - len(left))
            if num_left <= 0:
                return True
            wait = Wait(self.world, num_left)
            for state in left:
                state.when_over(wait.one_more)
            if not self._waits.block(wait, None if end is None else end - self.world.clock.now):
                return False

    def _collect(self) -> None:
        # Waits are made before the garbage is.
        self._garbage.collect()
