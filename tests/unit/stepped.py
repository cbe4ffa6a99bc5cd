"""An engine that runs tasks step by step, on a clock of its own, as a script says."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import heapq
import itertools
import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from exoshuffle.errors import TaskCancelledError, TaskError
from exoshuffle.futures import (
    Column,
    Engine,
    Node,
    Ref,
    Refs,
    RunningTask,
    SliceRef,
    TaskOptions,
    adopt,
)

NEVER = float("inf")


@dataclasses.dataclass(frozen=True)
class Call:
    """A task as a script sees it: the ``number``-th of its name, from 0."""

    name: str
    number: int


@dataclasses.dataclass(frozen=True)
class Script:
    """The ways of tasks; the default is that each takes a second and nothing goes wrong."""

    seconds: Callable[[Call], float] = lambda _: 1.0
    fails: Callable[[Call], bool] = lambda _: False
    is_lost: Callable[[Call], bool] = lambda _: False
    node: Callable[[TaskOptions], str] = lambda options: options.node or "node0"
    can_cancel: Callable[[Call], bool] = lambda _: True


class Task:
    """A task and its result; what the engine puts behind a ``Ref``."""

    def __init__(
        self, call: Call, fn: Callable[..., Any], args: tuple[Any, ...], options: TaskOptions
    ) -> None:
        self.call, self.fn, self.args = call, fn, args
        self.num_slices = options.num_slices
        self.node = ""
        self.is_over = False
        self.began: float | None = None
        self.value: Any = None
        self.error: BaseException | None = None

    def add_handle(self) -> None: ...

    def drop_handle(self) -> None: ...


class SteppedEngine:
    """An engine on the clock of a script."""

    num_cpus = 2
    budget_bytes = 10**9

    def __init__(self, script: Script, num_nodes: int = 1) -> None:
        self.script = script
        self.now = 0.0
        self.submitted: collections.Counter[str] = collections.Counter()
        self.asked_nodes: collections.defaultdict[str, list[str | None]] = collections.defaultdict(
            list
        )
        self.cancelled: list[Call] = []
        self.reduced: list[tuple[Call, ...]] = []
        self.reduced_at: list[tuple[int, str]] = []
        self.merged_by_node: list[tuple[str, tuple[Call, ...]]] = []
        self._nodes = [Node(f"node{i}", {"CPU": 2}) for i in range(num_nodes)]
        self._waiting: list[Task] = []
        self._events: list[tuple[float, int, Task]] = []
        self._sequence = itertools.count()

    def clock(self) -> float:
        return self.now

    def submit(
        self, fn: Callable[..., Any], args: tuple[Any, ...], _: dict[str, Any], options: TaskOptions
    ) -> Ref:
        call = Call(options.name, self.submitted[options.name])
        self.submitted[options.name] += 1
        self.asked_nodes[options.name].append(options.node)
        task = Task(call, fn, args, options)
        task.node = self.script.node(options)
        sources = tuple(task_of(ref).call for ref in _refs(args))
        if call.name == "reduce":
            self.reduced.append(sources)
            self.reduced_at.append((args[0], task.node))
        if call.name == "merge":
            self.merged_by_node.append((task.node, sources))
        self._waiting.append(task)
        self._start_ready()
        return Ref(task)

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        deadline = NEVER if timeout is None else self.now + timeout
        while sum(task_of(ref).is_over for ref in refs) < num_ready:
            if not self._events or self._events[0][0] > deadline:
                assert deadline < NEVER, "waits for what never comes"
                # A little later, as ever: the sum may have been rounded down.
                self.now = max(self.now, math.nextafter(deadline, NEVER))
                break
            self._step()
        over = [ref for ref in refs if task_of(ref).is_over]
        return over, [ref for ref in refs if not task_of(ref).is_over]

    def get(self, ref: Ref | SliceRef, timeout: float | None = None) -> Any:
        assert timeout is None
        self.wait([ref.ref if isinstance(ref, SliceRef) else ref], 1)
        return _resolved(ref)

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        values = [(self.get(ref), task_of(ref).num_slices) for ref in refs]
        return [list(map(_num_bytes, value if count > 1 else [value])) for value, count in values]

    def error(self, ref: Ref) -> BaseException | None:
        return task_of(ref).error

    def running(self, ref: Ref) -> RunningTask | None:
        task = task_of(ref)
        if task.is_over:
            return None
        return (
            RunningTask() if task.began is None else RunningTask(self.now - task.began, task.node)
        )

    def cancel(self, ref: Ref) -> bool:
        task = task_of(ref)
        self.cancelled.append(task.call)
        if task.is_over or not self.script.can_cancel(task.call):
            return False
        self._end(task, TaskCancelledError(f"{task.call} was cancelled"))
        return True

    def nodes(self) -> list[Node]:
        return self._nodes

    def locate(self, ref: Ref) -> list[str]:
        task = task_of(ref)
        # Some engines keep an error as an object, and say where that is.
        exists = task.is_over and not self.script.is_lost(task.call)
        return [task.node] if exists else []

    def _start_ready(self) -> None:
        ready = [
            task for task in self._waiting if all(task_of(ref).is_over for ref in _refs(task.args))
        ]
        for task in ready:
            self._waiting.remove(task)
            task.began = self.now
            end = self.now + self.script.seconds(task.call)
            if end < NEVER:
                heapq.heappush(self._events, (end, next(self._sequence), task))

    def _step(self) -> None:
        self.now, _, task = heapq.heappop(self._events)
        if task.is_over:
            return  # It comes after it was cancelled.
        if self.script.fails(task.call):
            self._end(task, TaskError(task.call.name, 4, ValueError("by script")))
            return
        try:
            task.value = task.fn(*map(_resolved, task.args))
        except TaskError as error:
            self._end(task, error)
        else:
            self._end(task, None)

    def _end(self, task: Task, error: BaseException | None) -> None:
        task.is_over, task.error = True, error
        self._start_ready()


def _num_bytes(part: Any) -> int:
    """Buffers are written as they are."""
    return len(part) if isinstance(part, bytes) else len(pickle.dumps(part))


def task_of(ref: Ref) -> Task:
    return cast("Task", ref._object)


def _refs(args: tuple[Any, ...]) -> list[Ref]:
    found: list[Ref] = []
    for arg in args:
        if isinstance(arg, Column):
            found += arg.refs
        elif isinstance(arg, Refs):
            found += arg
        elif isinstance(arg, SliceRef):
            found.append(arg.ref)
        elif isinstance(arg, Ref):
            found.append(arg)
    return found


def _resolved(arg: Any) -> Any:
    if isinstance(arg, Column):
        return [_resolved(arg.refs.slice(number, arg.index)) for number in range(len(arg.refs))]
    if not isinstance(arg, Ref | SliceRef):
        return arg
    task = task_of(arg.ref if isinstance(arg, SliceRef) else arg)
    if task.error is not None:
        raise task.error
    if isinstance(arg, Ref):
        return task.value
    slices = task.value if task.num_slices > 1 else [task.value]
    return [slices[i] for i in arg.index] if isinstance(arg.index, range) else slices[arg.index]


@contextlib.contextmanager
def stepped(script: Script | None = None, num_nodes: int = 1) -> Iterator[SteppedEngine]:
    """Makes a stepped engine the current one."""
    engine = SteppedEngine(script or Script(), num_nodes)
    adopt(cast("Engine", engine))
    try:
        yield engine
    finally:
        adopt(cast("Engine", None))
