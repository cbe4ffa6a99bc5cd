"""Answers what a worker process asks of the engine, and holds the blocks and streams that the worker has open."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

from exoshuffle._native import Block
from exoshuffle.engines.local.objects import calls
from exoshuffle.engines.local.objects.calls import Call, Code, Reference
from exoshuffle.engines.local.objects.loading import Loaded
from exoshuffle.engines.local.objects.state import is_over
from exoshuffle.engines.local.objects.values import StoreBlocks, StoredValue
from exoshuffle.engines.local.workers import wire
from exoshuffle.futures.engine import Node, RunningTask
from exoshuffle.futures.options import ActorOptions, TaskOptions
from exoshuffle.futures.refs import Ref, RefStream, SliceRef


class Objects(Protocol):
    """Answers questions about objects; see ``Engine`` for each."""

    def keep(self, stored: StoredValue) -> Ref:
        """Returns a reference to a value that is stored already."""

    def get_loaded(self, ref: Ref | SliceRef, timeout: float | None) -> Loaded:
        """Returns the value for ``get``, before it is decoded."""

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None
    ) -> tuple[list[Ref], list[Ref]]:
        """Waits until so many objects are done."""

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        """Returns the bytes of the slices of each object."""

    def error(self, ref: Ref) -> BaseException | None:
        """Returns why the object has failed, if it has."""

    def running(self, ref: Ref) -> RunningTask | None:
        """Returns how long the task of the object has been running, and where."""

    def cancel(self, ref: Ref) -> bool:
        """Stops the task of the object."""

    def locate(self, ref: Ref) -> list[str]:
        """Returns the nodes that have the object."""


class Tasks(Protocol):
    """Runs tasks and actors: as in ``Engine``, but packed."""

    def submit_call(
        self, call: Call, references: tuple[Reference, ...], name: str, options: TaskOptions
    ) -> Ref | RefStream:
        """Submits a task."""

    def create_actor_call(
        self, call: Call, references: tuple[Reference, ...], name: str, options: ActorOptions
    ) -> Ref:
        """Creates an actor."""

    def call_actor_call(
        self, actor: Ref, call: Call, references: tuple[Reference, ...], options: TaskOptions
    ) -> Ref | RefStream:
        """Submits a call of an actor."""

    def kill_actor(self, actor: Ref) -> None:
        """Ends an actor."""


class About(Protocol):
    """Answers questions about the engine."""

    def nodes(self) -> list[Node]:
        """Returns the nodes that are alive."""

    def stats(self) -> dict[str, int]:
        """Returns the engine's counters."""


class Requests:
    """The requests of one worker; each public method is one."""

    def __init__(self, blocks: StoreBlocks, objects: Objects, tasks: Tasks, about: About) -> None:
        self._store_blocks = blocks
        self._objects = objects
        self._tasks = tasks
        self._about = about
        self._numbers = itertools.count()
        self._blocks: dict[int, Block] = {}
        self._streams: dict[int, RefStream] = {}
        self._codes: dict[bytes, Code] = {}

    def serve(self, name: str, args: tuple[object, ...]) -> object:
        """Answers a request by name."""
        answer: object = getattr(self, name)(*args)
        return answer

    def stored(self, encoded: wire.Encoded) -> StoredValue:
        """Seals the block of a value that the worker encoded, and returns the value as the engine keeps it."""
        inline, block, pickled, inside = encoded
        if block is None:
            return StoredValue(inline, None, pickled, inside)
        filled = self._blocks.pop(block)
        num_bytes = len(filled) if filled.num_slices == 1 else None
        return StoredValue(inline, filled.seal(), pickled, inside, num_bytes=num_bytes)

    def discard(self, blocks: list[int]) -> None:
        """Drops blocks that no task returned, and that the worker can write to no more."""
        for number in blocks:
            self._blocks.pop(number, None)

    def drop_streams(self, streams: list[int]) -> None:
        """Drops streams that the worker takes no more items of."""
        for number in streams:
            del self._streams[number]

    def close(self) -> None:
        """Drops all blocks and streams, since the worker is gone."""
        self._blocks.clear()
        self._streams.clear()

    # --- blocks ------------------------------------------------------------------------------------------------

    def allocate(self, offsets: list[int]) -> tuple[int, list[tuple[int, int]] | None, bool]:
        """Returns a block to fill: its number, its pieces, and whether the store is about to spill.

        The pieces are None where a worker cannot map the block; see ``fill``.
        """
        block = self._store_blocks.allocate(offsets)
        number = next(self._numbers)
        self._blocks[number] = block
        return number, block.pieces(), self._store_blocks.is_nearly_full(0)

    def fill(self, number: int, start: int, data: bytes) -> None:
        """Writes a piece of a block that could not be mapped."""
        with memoryview(self._blocks[number]) as view:
            view[start : start + len(data)] = data

    # --- objects -----------------------------------------------------------------------------------------------

    def put(self, encoded: wire.Encoded) -> Ref:
        """See ``Engine``."""
        return self._objects.keep(self.stored(encoded))

    def get(self, ref: Ref | SliceRef, timeout: float | None) -> Loaded:
        """See ``Engine``."""
        return self._objects.get_loaded(ref, timeout)

    def wait(self, refs: list[Ref], num_ready: int, timeout: float | None) -> list[bool]:
        """Waits, and returns for each object whether it is done; see ``Engine``."""
        self._objects.wait(refs, num_ready, timeout)
        return [is_over(ref) for ref in refs]

    def slice_bytes(self, refs: list[Ref]) -> list[list[int]]:
        """See ``Engine``."""
        return self._objects.slice_bytes(refs)

    def error(self, ref: Ref) -> BaseException | None:
        """See ``Engine``."""
        return self._objects.error(ref)

    def running(self, ref: Ref) -> RunningTask | None:
        """See ``TimingEngine``."""
        return self._objects.running(ref)

    def cancel(self, ref: Ref) -> bool:
        """See ``Engine``."""
        return self._objects.cancel(ref)

    def locate(self, ref: Ref) -> list[str]:
        """See ``Engine``."""
        return self._objects.locate(ref)

    def nodes(self) -> list[Node]:
        """See ``Engine``."""
        return self._about.nodes()

    def stats(self) -> dict[str, int]:
        """See ``Engine``."""
        return self._about.stats()

    # --- tasks, actors and streams -----------------------------------------------------------------------------

    def submit(
        self,
        code: wire.PackedCode,
        call: calls.Packed,
        name: str,
        options: TaskOptions,
    ) -> Ref | int:
        """Submits a task whose function and arguments the worker has packed."""
        made = self._tasks.submit_call(self._call(code, "", call), call[1], name, options)
        return self._result(made)

    def create_actor(
        self,
        code: wire.PackedCode,
        call: calls.Packed,
        name: str,
        options: ActorOptions,
    ) -> Ref:
        """Creates an actor whose class and arguments the worker has packed."""
        return self._tasks.create_actor_call(self._call(code, "", call), call[1], name, options)

    def call_actor(
        self,
        actor: Ref,
        method: str,
        call: calls.Packed,
        options: TaskOptions,
    ) -> Ref | int:
        """Submits a call of a method whose arguments the worker has packed."""
        made = self._tasks.call_actor_call(actor, self._call(None, method, call), call[1], options)
        return self._result(made)

    def kill_actor(self, actor: Ref) -> None:
        """See ``Engine``."""
        self._tasks.kill_actor(actor)

    def next_item(self, stream: int, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle``."""
        return self._streams[stream].handle.next_ref(index, timeout)

    def limit_ahead(self, stream: int, count: int) -> None:
        """See ``StreamHandle``."""
        self._streams[stream].handle.limit_ahead(count)

    def cancel_stream(self, stream: int) -> bool:
        """See ``StreamHandle``."""
        return self._streams[stream].handle.cancel()

    def _call(
        self,
        code: wire.PackedCode | None,
        method: str,
        call: calls.Packed,
    ) -> Call:
        known = None
        if code is not None:
            digest, data, inside = code
            if data is None:
                known = self._codes[digest]
            else:
                known = Code(data, digest, tuple(inside))
                if not inside:
                    self._codes[digest] = known
        data, _, handles = call
        return Call(known, method, data, handles)

    def _result(self, made: Ref | RefStream) -> Ref | int:
        """Returns a reference, or the number of a stream."""
        if isinstance(made, Ref):
            return made
        number = next(self._numbers)
        self._streams[number] = made
        return number
