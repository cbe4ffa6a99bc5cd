"""Takes tasks, actors and calls: from the program as functions and values, from workers packed.

Tasks for a thread are taken as they are; everything else is packed for a worker process.
"""

from __future__ import annotations

from collections.abc import Callable

from exoshuffle.engines.local.objects.calls import Call, Reference, code_of, pack
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.tasks.access import ObjectAccess
from exoshuffle.engines.local.tasks.actors import LocalActor, creation_options
from exoshuffle.engines.local.tasks.demands import Demands
from exoshuffle.engines.local.tasks.submissions import Submissions
from exoshuffle.engines.local.workers.pool import ProcessPool
from exoshuffle.futures.options import ActorOptions, TaskOptions
from exoshuffle.futures.refs import Ref, RefStream


class Calling:
    """Checks, packs and submits tasks, actors and calls. Methods are as in ``Engine``; ``*_call`` take them packed."""

    def __init__(
        self,
        submissions: Submissions,
        demands: Demands,
        pool: ProcessPool,
        objects: ObjectAccess,
    ) -> None:
        self._submissions = submissions
        self._demands = demands
        self._pool = pool
        self._objects = objects

    def submit(
        self,
        fn: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        self._objects.check_open()
        name = options.name or getattr(fn, "__name__", "task")
        if options.executor == "thread":
            self._demands.check(name, options)
            return self._submissions.task(Task(fn, args, kwargs, options, 0))
        code = code_of(fn, name, self._demands.check_code)
        data, references, captured = pack(self._objects, name, args, kwargs)
        return self.submit_call(Call(code, "", data, captured), references, name, options)

    def submit_call(
        self, call: Call, references: tuple[Reference, ...], name: str, options: TaskOptions
    ) -> Ref | RefStream:
        """Submits a task whose function and arguments are packed."""
        taken_bytes = 0
        if options.executor == "process":
            self._pool.check_room()
            taken_bytes = self._pool.room.base_bytes
            self._check_code(call, name)
        self._demands.check(name, options, taken_bytes)
        task = Task(None, references, {}, options, 0)
        task.call, task.name = call, name
        return self._submissions.task(task)

    def create_actor(
        self, cls: type, args: tuple[object, ...], kwargs: dict[str, object], options: ActorOptions
    ) -> Ref:
        """See ``Engine``."""
        self._objects.check_open()
        name = options.name or cls.__name__
        if options.executor == "thread":
            return self._create(
                Task(cls, args, kwargs, creation_options(options), 0), name, options
            )
        code = code_of(cls, name, self._demands.check_code)
        data, references, captured = pack(self._objects, name, args, kwargs)
        return self.create_actor_call(Call(code, "", data, captured), references, name, options)

    def create_actor_call(
        self, call: Call, references: tuple[Reference, ...], name: str, options: ActorOptions
    ) -> Ref:
        """Creates an actor whose class and arguments are packed."""
        if options.executor == "process":
            self._pool.check_room()
            self._check_code(call, name)
        task = Task(None, references, {}, creation_options(options), 0)
        task.call = call
        return self._create(task, name, options)

    def call_actor(
        self,
        actor: Ref,
        method: str,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        found = self._actor_of(actor)
        if found.is_thread:
            return self._submissions.call(found, method, Task(None, args, kwargs, options, 0))
        data, references, captured = pack(self._objects, f"{found.name}.{method}", args, kwargs)
        return self.call_actor_call(actor, Call(None, method, data, captured), references, options)

    def call_actor_call(
        self, actor: Ref, call: Call, references: tuple[Reference, ...], options: TaskOptions
    ) -> Ref | RefStream:
        """Submits a packed call; see ``call_actor``."""
        found = self._actor_of(actor)
        task = Task(None, references, {}, options, 0)
        task.call = call
        return self._submissions.call(found, call.method, task)

    def kill_actor(self, actor: Ref) -> None:
        """See ``Engine``."""
        self._actor_of(actor).kill()

    def _check_code(self, call: Call, name: str) -> None:
        if call.code is not None:
            self._demands.check_code(name, len(call.code.data))

    def _create(self, task: Task, name: str, options: ActorOptions) -> Ref:
        self._demands.check(name, options)
        task.name = name
        return self._submissions.actor(task, options)

    def _actor_of(self, ref: Ref) -> LocalActor:
        actor = self._objects.state_of(ref).actor
        assert isinstance(actor, LocalActor)
        return actor
