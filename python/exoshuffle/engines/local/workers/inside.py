"""The engine as tasks in a worker process see it: the engine protocol, answered by the engine of the program."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence

from exoshuffle.engines.local.objects import calls
from exoshuffle.engines.local.workers import wire
from exoshuffle.engines.local.workers.filling import Fillable, WorkerBlocks
from exoshuffle.engines.local.workers.link import Link
from exoshuffle.engines.local.workers.questions import Questions
from exoshuffle.errors import EngineError
from exoshuffle.futures.engine import Node, RunningTask
from exoshuffle.futures.events import Observer
from exoshuffle.futures.options import ActorOptions, Executor, TaskOptions
from exoshuffle.futures.refs import Ref, RefStream, SliceRef, Value


class WorkerStream:
    """See ``StreamHandle``: a stream of the engine."""

    def __init__(self, questions: Questions, link: Link, number: int) -> None:
        self._questions = questions
        self._link = link
        self._number = number

    def next_ref(self, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle``."""
        ref: Ref | None = self._questions.ask("next_item", self._number, index, timeout)
        return ref

    def limit_ahead(self, count: int) -> None:
        """See ``StreamHandle``."""
        self._questions.ask("limit_ahead", self._number, count)

    def cancel(self) -> bool:
        """See ``StreamHandle``."""
        return bool(self._questions.ask("cancel_stream", self._number))

    def drop(self) -> None:
        """See ``StreamHandle``."""
        self._link.dropped_streams.append(self._number)


class WorkerEngine:
    """The engine, seen from a task in a worker process."""

    name = "local"

    def __init__(
        self, link: Link, questions: Questions, blocks: WorkerBlocks, hello: wire.Hello
    ) -> None:
        self._link = link
        self._questions = questions
        self._blocks = blocks
        self._known_code: set[bytes] = set()
        self.inline_bytes = hello.inline_bytes
        self.memory_limit = hello.memory_limit
        self.budget_bytes = hello.budget_bytes
        self.spill_dirs = hello.spill_dirs
        self.spill_codec = hello.spill_codec
        self.num_cpus = hello.num_cpus

    def submit(
        self,
        fn: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        name = options.name or getattr(fn, "__name__", "task")
        code = self._packed_code(fn, name)
        return self._made(
            self._questions.ask("submit", code, calls.pack(self, name, args, kwargs), name, options)
        )

    def create_actor(
        self, cls: type, args: tuple[object, ...], kwargs: dict[str, object], options: ActorOptions
    ) -> Ref:
        """See ``Engine``."""
        name = options.name or cls.__name__
        code = self._packed_code(cls, name)
        ref: Ref = self._questions.ask(
            "create_actor", code, calls.pack(self, name, args, kwargs), name, options
        )
        return ref

    def call_actor(
        self,
        actor: Ref,
        method: str,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Ref | RefStream:
        """See ``Engine``."""
        packed = calls.pack(self, options.name or method, args, kwargs)
        return self._made(self._questions.ask("call_actor", actor, method, packed, options))

    def kill_actor(self, actor: Ref) -> None:
        """See ``Engine``."""
        self._questions.ask("kill_actor", actor)

    def put(self, value: object) -> Ref:
        """See ``Engine``."""
        ref: Ref = self._questions.ask("put", self._blocks.encoded(value, 1))
        return ref

    def get(self, ref: Ref | SliceRef, timeout: float | None = None) -> Value:
        """See ``Engine``."""
        return self._questions.ask("get", ref, timeout)

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        """See ``Engine``."""
        done: list[bool] = self._questions.ask("wait", list(refs), num_ready, timeout)
        ready = list(itertools.compress(refs, done))
        return ready, list(itertools.compress(refs, (not one for one in done)))

    def error(self, ref: Ref) -> BaseException | None:
        """See ``Engine``."""
        error: BaseException | None = self._questions.ask("error", ref)
        return error

    def running(self, ref: Ref) -> RunningTask | None:
        """See ``TimingEngine``."""
        found: RunningTask | None = self._questions.ask("running", ref)
        return found

    def cancel(self, ref: Ref) -> bool:
        """See ``Engine``."""
        return bool(self._questions.ask("cancel", ref))

    def allocate_block(self, offsets: Sequence[int]) -> Fillable:
        """See ``Engine``."""
        return self._blocks.allocate(offsets)

    def workers_bytes(self, executor: Executor) -> int:
        """See ``Engine``; the workers' memory is off the budget of this process already."""
        del executor
        return 0

    def waiting(self) -> contextlib.AbstractContextManager[None]:
        """See ``Engine``."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def waiting_for_tasks(self) -> Iterator[None]:
        """See ``Engine``."""
        self._questions.waits(begins=True)
        try:
            yield
        finally:
            self._questions.waits(begins=False)

    def nodes(self) -> list[Node]:
        """See ``Engine``."""
        nodes: list[Node] = self._questions.ask("nodes")
        return nodes

    def locate(self, ref: Ref) -> list[str]:
        """See ``Engine``."""
        names: list[str] = self._questions.ask("locate", ref)
        return names

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        """See ``Engine``."""
        sizes: list[list[int]] = self._questions.ask("slice_bytes", list(refs))
        return sizes

    def stats(self) -> dict[str, int]:
        """See ``Engine``."""
        stats: dict[str, int] = self._questions.ask("stats")
        return stats

    def add_observer(self, observer: Observer) -> None:
        """Refuses: events happen in the process of the engine."""
        raise EngineError(
            f"{observer!r} observes from the program that called init(), not from a task"
        )

    def remove_observer(self, observer: Observer) -> None:
        """See ``add_observer``."""

    def close(self) -> None:
        """Does nothing: the engine belongs to the program that called ``init``."""

    def _packed_code(self, fn: Callable[..., object], name: str) -> wire.PackedCode:
        code = calls.code_of(fn, name)
        known = code.digest in self._known_code
        if not code.inside:
            self._known_code.add(code.digest)
        return code.digest, None if known else code.data, list(code.inside)

    def _made(self, answer: Ref | int) -> Ref | RefStream:
        if isinstance(answer, Ref):
            return answer
        return RefStream(WorkerStream(self._questions, self._link, answer))
