"""The engine: takes tasks and actors, and runs each where it is submitted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from examples.engine_in_line.tasks import NAME, Stream, Task, at_rest
from examples.engine_in_line.values import Block, Handle, handle_of, resolved
from exoshuffle.errors import ActorDiedError, ClosedError, OptionsError
from exoshuffle.futures import ActorOptions, Node, Ref, RefStream, SliceRef, TaskOptions
from exoshuffle.futures.engine import set_task_engine
from exoshuffle.futures.events import Observer, TaskFinished


class InLineEngine:
    """Implements ``exoshuffle.futures.Engine``, which says what each method has to do."""

    name = NAME

    def __init__(
        self, num_cpus: int = 1, num_gpus: float = 0, resources: Mapping[str, float] | None = None
    ) -> None:
        self.num_cpus = num_cpus
        self.memory_limit = self.budget_bytes = 1_000_000_000
        self.spill_dirs: list[str] = []
        self.spill_codec: str | None = None
        self._resources = {"CPU": num_cpus, "GPU": num_gpus, **(resources or {})}
        self._observers: list[Observer] = []
        self._num_tasks = 0
        self._depth = 0
        self._closed = False

    def submit(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """Runs a task."""
        name = options.name or getattr(fn, "__name__", "task")
        self._check(name, options)
        fn = at_rest(fn, f"function {name}").load()
        return self._run(Task(name, fn, args, kwargs), options)

    def create_actor(
        self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any], options: ActorOptions
    ) -> Ref:
        """Makes an object, which stays in the handle as it is."""
        self._check(cls.__name__, options)
        handle = Handle()

        def construct(*args: Any, **kwargs: Any) -> None:
            handle.slices = [cls(*args, **kwargs)]

        constructed = self._run(Task(cls.__name__, construct, args, kwargs), TaskOptions())
        assert isinstance(constructed, Ref)
        handle.error = handle_of(constructed).error
        return Ref(handle)

    def call_actor(
        self,
        actor: Ref,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """Calls a method."""
        self._check(method, options)

        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(handle_of(actor).value(), method)(*args, **kwargs)

        return self._run(Task(options.name or method, call, args, kwargs), options)

    def kill_actor(self, actor: Ref) -> None:
        """Lets go of the object."""
        self.check_open()
        handle_of(actor).slices = []
        handle_of(actor).error = ActorDiedError("the actor was killed")

    def put(self, value: Any) -> Ref:
        """Keeps a value."""
        self.check_open()
        handle = Handle()
        handle.fill(value)
        return Ref(handle)

    def get(self, ref: Ref | SliceRef, timeout: float | None = None) -> Any:
        """Returns the value, which is there: tasks have run when ``submit`` returns."""
        self.check_open()
        del timeout
        return resolved(ref)

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        """Returns all references as ready, since all tasks are done."""
        self.check_open()
        del num_ready, timeout
        return list(refs), []

    def error(self, ref: Ref) -> BaseException | None:
        """Returns the error of a task that failed."""
        self.check_open()
        return handle_of(ref).error

    def cancel(self, ref: Ref) -> bool:
        """Cancels nothing, since all tasks are done."""
        self.check_open()
        del ref
        return False

    def allocate_block(self, offsets: Sequence[int]) -> Any:
        """Returns memory for a result."""
        return Block(offsets)

    def workers_bytes(self, executor: str) -> int:
        """Returns 0, since there are no workers."""
        del executor
        return 0

    def waiting(self) -> contextlib.AbstractContextManager[None]:
        """Does nothing, since no other task could run."""
        return contextlib.nullcontext()

    def waiting_for_tasks(self) -> contextlib.AbstractContextManager[None]:
        """Does nothing, likewise."""
        return contextlib.nullcontext()

    def nodes(self) -> list[Node]:
        """Returns the one node, which is this program."""
        self.check_open()
        return [Node(self.name, self._resources)]

    def locate(self, ref: Ref) -> list[str]:
        """Returns the one node, since every object is here."""
        self.check_open()
        return [self.name] if handle_of(ref).slices else []

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        """Returns the bytes of the slices of each object, be they of a block or pickled."""
        self.check_open()
        return [handle_of(ref).slice_bytes() for ref in refs]

    def stats(self) -> dict[str, int]:
        """Returns counters; the summary of a dataset shows ``spilled_bytes``."""
        return {"num_tasks": self._num_tasks, "spilled_bytes": 0}

    def add_observer(self, observer: Observer) -> None:
        """Calls ``observer`` with events."""
        self._observers.append(observer)

    def remove_observer(self, observer: Observer) -> None:
        """Ends ``add_observer``."""
        self._observers.remove(observer)

    def close(self) -> None:
        """Marks the engine as closed; there is nothing to stop."""
        self._closed = True

    def check_open(self) -> None:
        """Raises ``ClosedError`` after ``close``."""
        if self._closed:
            raise ClosedError("the engine is closed; call exoshuffle.init() to start another")

    @contextlib.contextmanager
    def inside_task(self) -> Iterator[None]:
        """A context in which ``allocate_block`` works, also after a task inside the task has ended."""
        self._depth += 1
        set_task_engine(self)
        try:
            yield
        finally:
            self._depth -= 1
            set_task_engine(self if self._depth else None)

    def _run(self, task: Task, options: TaskOptions) -> Ref | RefStream:
        self._num_tasks += 1
        if options.is_streaming:
            return RefStream(Stream(self, task))
        handle = Handle(options.num_slices)
        attempt, again = 0, True
        while again:
            attempt, again = attempt + 1, False
            started = time.monotonic()
            try:
                with self.inside_task():
                    handle.fill(task.call())
            except Exception as error:  # noqa: BLE001  whatever it is, it belongs to the task
                again = getattr(error, "retryable", False) and attempt <= options.max_retries
                handle.error = None if again else task.failed(error, attempt)
            else:
                self._tell(TaskFinished(task.name, attempt, time.monotonic() - started))
        return Ref(handle)

    def _tell(self, event: TaskFinished) -> None:
        for observer in self._observers:
            observer(event)

    def _check(self, name: str, options: TaskOptions | ActorOptions) -> None:
        """Refuses a task or actor that can never run."""
        self.check_open()
        for resource, amount in options.demand.items():
            available = self._resources.get(resource, 0)
            if amount > available:
                raise OptionsError(f"{name} needs {amount} of {resource}; there is {available}")
        if options.memory > self.budget_bytes:
            raise OptionsError(
                f"{name} needs {options.memory} bytes; there are {self.budget_bytes}"
            )
