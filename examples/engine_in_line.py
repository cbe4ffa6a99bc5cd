"""The smallest engine: runs every task at once, in line, in the program's own thread.

Run it: ``python examples/engine_in_line.py`` sorts with it. It passes the parts of the conformance suite that need
neither concurrency nor processes; see docs/writing-an-engine.md.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle

import exoshuffle as xs
from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.errors import (
    ActorDiedError,
    ClosedError,
    EngineError,
    OptionsError,
    TaskCancelledError,
    TaskError,
)
from exoshuffle.futures import (
    ActorOptions,
    Column,
    Node,
    Ref,
    Refs,
    RefStream,
    SliceRef,
    TaskOptions,
)
from exoshuffle.futures.engine import set_task_engine
from exoshuffle.observe.events import TaskFinished

# --- values --------------------------------------------------------------------------------------------------------


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Pickles a value, but leaves the handles of the references inside it as they are, in a list of their own."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.handles: list[Handle] = []

    def persistent_id(self, value: Any) -> int | None:
        """Says which values stay as they are, and where they are."""
        if not isinstance(value, Handle):
            return None
        self.handles.append(value)
        return len(self.handles) - 1


class Unpickler(pickle.Unpickler):
    """Ends what ``Pickler`` began."""

    def __init__(self, file: io.BytesIO, handles: list[Handle]) -> None:
        super().__init__(file)
        self._handles = handles

    def persistent_load(self, index: Any) -> Any:
        """The value that stayed as it was."""
        return self._handles[index]


class Pickled:
    """A value at rest: nobody can change it, and what it refers to lives."""

    def __init__(self, value: Any) -> None:
        file = io.BytesIO()
        pickler = Pickler(file)
        pickler.dump(value)
        self._data, self._handles = file.getvalue(), pickler.handles

    def __len__(self) -> int:
        return len(self._data)

    def load(self) -> Any:
        """The value, made anew."""
        return Unpickler(io.BytesIO(self._data), self._handles).load()


class Block(bytearray):
    """What ``allocate_block`` returns."""

    def __init__(self, offsets: Sequence[int]) -> None:
        super().__init__(offsets[-1])
        self._offsets = list(offsets)

    def slices(self) -> list[memoryview]:
        """Views of the slices that cannot be written to."""
        view = memoryview(self).toreadonly()
        return [view[a:b] for a, b in zip(self._offsets, self._offsets[1:], strict=False)]


class Handle:
    """One object: its slices, or the error of its task. Python's own reference counts say how long it lives."""

    def __init__(self, num_slices: int = 1) -> None:
        self.num_slices = num_slices
        self.slices: list[Any] = []
        self.error: BaseException | None = None

    def add_handle(self) -> None:
        """See ``ObjectHandle``. Nothing to count."""

    def drop_handle(self) -> None:
        """See ``ObjectHandle``. Nothing to count."""

    def fill(self, returned: Any) -> None:
        """Takes what a task returned."""
        if isinstance(returned, Block):
            self.slices = list(returned.slices())
        else:
            several = isinstance(returned, Sequence) and not isinstance(returned, str | bytes)
            values = returned if several and self.num_slices > 1 else [returned]
            self.slices = [Pickled(value) for value in values]
        if len(self.slices) != self.num_slices:
            raise EngineError(
                f"the task returned {len(self.slices)} values; num_returns is {self.num_slices}"
            )

    def slice_bytes(self) -> list[int]:
        """Bytes of each slice."""
        if self.error is not None:
            raise self.error
        return [len(part) for part in self.slices]

    def value(self, index: int | range | None = None) -> Any:
        """The value of a slice, of a range of slices or of the whole object."""
        if self.error is not None:
            raise self.error
        if index is None:
            index = range(self.num_slices) if self.num_slices > 1 else 0
        if isinstance(index, range):
            return [self.value(i) for i in index]
        stored = self.slices[index]
        return stored.load() if isinstance(stored, Pickled) else stored


def resolved(argument: Any) -> Any:
    """What a reference stands for; anything else as it is."""
    if isinstance(argument, Ref):
        return handle_of(argument).value()
    if isinstance(argument, SliceRef):
        return handle_of(argument.ref).value(argument.index)
    if isinstance(argument, Refs):
        return [resolved(ref) for ref in argument]
    if isinstance(argument, Column):
        return [resolved(ref[argument.index]) for ref in argument.refs]
    return argument


def handle_of(ref: Ref) -> Handle:
    """What this engine put behind a reference."""
    handle = ref._object
    assert isinstance(handle, Handle)
    return handle


class Stream:
    """The items of a generator task, each made when it is asked for."""

    def __init__(self, engine: InLineEngine, task: Task) -> None:
        self._engine, self._task = engine, task
        self._items: Iterator[Any] | None = None
        self._has_ended = self._is_cancelled = False

    def next_ref(self, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle``."""
        del index, timeout
        self._engine.check_open()
        if self._is_cancelled:
            raise TaskCancelledError(f"{self._task.name} was cancelled")
        handle = Handle()
        try:
            with self._engine.inside_task():
                if self._items is None:
                    self._items = iter(self._task.call())
                handle.fill(next(self._items))
        except StopIteration:
            self._has_ended = True
            return None
        except Exception as error:
            self._has_ended = True
            raise self._task.failed(error, attempt=1) from error
        return Ref(handle)

    def limit_ahead(self, count: int) -> None:
        """Nothing to do: the task is never ahead."""

    def cancel(self) -> bool:
        """There are no more items, unless that was so already."""
        self._engine.check_open()
        if self._is_cancelled or self._has_ended:
            return False
        self._is_cancelled = True
        return True

    def drop(self) -> None:
        """See ``StreamHandle``."""
        self._items = iter(())


class Task:
    """A function and its arguments, at rest."""

    def __init__(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.name = name
        self._fn = fn
        self._args = [_at_rest(arg, f"argument {i} of {name}") for i, arg in enumerate(args)]
        self._kwargs = {
            key: _at_rest(arg, f"argument {key} of {name}") for key, arg in kwargs.items()
        }

    def call(self) -> Any:
        """Runs the function, each time with new values."""
        args = [resolved(arg.load()) for arg in self._args]
        kwargs = {key: resolved(arg.load()) for key, arg in self._kwargs.items()}
        return self._fn(*args, **kwargs)

    def failed(self, error: Exception, attempt: int) -> Exception:
        """What ``get`` raises; the error of an argument as it is."""
        if isinstance(error, TaskError | ActorDiedError):
            return error
        return TaskError(self.name, attempt, error, InLineEngine.name)


def _at_rest(value: Any, what: str) -> Pickled:
    try:
        return Pickled(value)
    except Exception as error:
        raise OptionsError(f"{what} cannot be pickled: {error}") from error


# --- the engine ----------------------------------------------------------------------------------------------------


class InLineEngine:
    """See ``exoshuffle.futures.Engine`` for what its methods have to do."""

    name = "in-line"

    def __init__(
        self, num_cpus: int = 1, num_gpus: float = 0, resources: Mapping[str, float] | None = None
    ) -> None:
        self.num_cpus = num_cpus
        self.memory_limit = self.budget_bytes = 1_000_000_000
        self.spill_dirs: list[str] = []
        self._resources = {"CPU": num_cpus, "GPU": num_gpus, **(resources or {})}
        self._observers: list[Callable[[Any], None]] = []
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
        fn = _at_rest(fn, f"function {name}").load()
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
        """The value, which is there: tasks have run when ``submit`` returns."""
        self.check_open()
        del timeout
        return resolved(ref)

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        """All are done."""
        self.check_open()
        del num_ready, timeout
        return list(refs), []

    def error(self, ref: Ref) -> BaseException | None:
        """Whether a task failed."""
        self.check_open()
        return handle_of(ref).error

    def cancel(self, ref: Ref) -> bool:
        """All are done."""
        self.check_open()
        del ref
        return False

    def allocate_block(self, offsets: Sequence[int]) -> Any:
        """Memory for a result."""
        return Block(offsets)

    def workers_bytes(self, executor: str) -> int:
        """There are none."""
        del executor
        return 0

    def waiting(self) -> contextlib.AbstractContextManager[None]:
        """Nobody else could run."""
        return contextlib.nullcontext()

    def nodes(self) -> list[Node]:
        """This program."""
        self.check_open()
        return [Node(self.name, self._resources)]

    def locate(self, ref: Ref) -> list[str]:
        """Everything is here."""
        self.check_open()
        return [self.name] if handle_of(ref).slices else []

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        """What a block has, or a pickle."""
        self.check_open()
        return [handle_of(ref).slice_bytes() for ref in refs]

    def stats(self) -> dict[str, int]:
        """``spilled_bytes`` is what the summary of a dataset shows."""
        return {"num_tasks": self._num_tasks, "spilled_bytes": 0}

    def add_observer(self, observer: Callable[[Any], None]) -> None:
        """Calls ``observer`` with events."""
        self._observers.append(observer)

    def remove_observer(self, observer: Callable[[Any], None]) -> None:
        """Ends ``add_observer``."""
        self._observers.remove(observer)

    def close(self) -> None:
        """Nothing was started."""
        self._closed = True

    def check_open(self) -> None:
        """Refuses what comes after ``close``."""
        if self._closed:
            raise ClosedError("the engine is closed; call exoshuffle.init() to start another")

    @contextlib.contextmanager
    def inside_task(self) -> Iterator[None]:
        """``allocate_block`` works inside, also after a task inside the task has ended."""
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
        """Refuses what can never run."""
        self.check_open()
        for resource, amount in options.demand.items():
            available = self._resources.get(resource, 0)
            if amount > available:
                raise OptionsError(f"{name} needs {amount} of {resource}; there is {available}")
        if options.memory > self.budget_bytes:
            raise OptionsError(
                f"{name} needs {options.memory} bytes; there are {self.budget_bytes}"
            )


def main() -> None:
    """Sorts a hundred thousand records and checks the result."""
    xs.init(InLineEngine())
    with tempfile.TemporaryDirectory() as folder:
        records, output = Path(folder, "records"), Path(folder, "sorted")
        gensort(records, 100_000)
        result = xs.read_records(records).sort(num_partitions=4).write_records(output)
        checked = valsort(output)
        assert checked.is_sorted
        assert checked.checksum == valsort(records).checksum
        print(f"{result.rows} records in {len(result.files)} files, sorted")
    xs.shutdown()


if __name__ == "__main__":
    main()
