"""What a worker process may ask of the engine, and the blocks and streams that it has open meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

from exoshuffle._native import Block
from exoshuffle.engines.local.objects import calls
from exoshuffle.engines.local.objects.calls import Call, Code, Reference
from exoshuffle.engines.local.objects.loading import Loaded
from exoshuffle.engines.local.objects.state import is_over
from exoshuffle.engines.local.objects.values import StoreBlocks, StoredValue
from exoshuffle.engines.local.workers import wire
from exoshuffle.futures.engine import Node
from exoshuffle.futures.options import ActorOptions, TaskOptions
from exoshuffle.futures.refs import Ref, RefStream, SliceRef


class Objects(Protocol):
    """What a worker may ask about objects; see ``Engine`` for each."""

    def keep(self, stored: StoredValue) -> Ref:
        """A reference to a value that is stored already."""

    def get_loaded(self, ref: Ref | SliceRef, timeout: float | None) -> Loaded:
        """What ``get`` returns, before it is decoded."""

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None
    ) -> tuple[list[Ref], list[Ref]]:
        """Waits until so many are done."""

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        """The bytes of the slices of each."""

    def error(self, ref: Ref) -> BaseException | None:
        """Why it has failed."""

    def cancel(self, ref: Ref) -> bool:
        """Stops its task."""

    def locate(self, ref: Ref) -> list[str]:
        """The nodes that have it."""


class Tasks(Protocol):
    """What a worker may have run: as in ``Engine``, but packed."""

    def submit_call(
        self, call: Call, references: tuple[Reference, ...], name: str, options: TaskOptions
    ) -> Ref | RefStream:
        """A task."""

    def create_actor_call(
        self, call: Call, references: tuple[Reference, ...], name: str, options: ActorOptions
    ) -> Ref:
        """An actor."""

    def call_actor_call(
        self, actor: Ref, call: Call, references: tuple[Reference, ...], options: TaskOptions
    ) -> Ref | RefStream:
        """A call of an actor."""

    def kill_actor(self, actor: Ref) -> None:
        """Ends an actor."""


class About(Protocol):
    """What a worker may ask about the engine."""

    def nodes(self) -> list[Node]:
        """The nodes that are alive."""

    def stats(self) -> dict[str, int]:
        """Its counters."""


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

    def serve(self, name: str, args: tuple[Any, ...]) -> Any:
        """Answers a request by name."""
        return getattr(self, name)(*args)

    def stored(self, encoded: wire.Encoded) -> StoredValue:
        """What the worker encoded, as the engine keeps it; its block is sealed."""
        inline, block, pickled, inside = encoded
        block_id = None if block is None else self._blocks.pop(block).seal()
        return StoredValue(inline, block_id, pickled, inside)

    def discard(self, blocks: list[int]) -> None:
        """Blocks that no task returned, and that the worker can write to no more."""
        for number in blocks:
            self._blocks.pop(number, None)

    def drop_streams(self, streams: list[int]) -> None:
        """Streams that the worker takes no more items of."""
        for number in streams:
            del self._streams[number]

    def close(self) -> None:
        """The worker is gone."""
        self._blocks.clear()
        self._streams.clear()

    # --- blocks ------------------------------------------------------------------------------------------------

    def allocate(self, offsets: list[int]) -> tuple[int, list[tuple[int, int]] | None, bool]:
        """A block to fill: its number, where it lies, and whether the store is about to spill.

        It may lie where a worker cannot map it (None); see ``fill``.
        """
        block = self._store_blocks.allocate(offsets)
        number = next(self._numbers)
        self._blocks[number] = block
        return number, block.pieces(), self._store_blocks.is_nearly_full(0)

    def fill(self, number: int, start: int, data: bytes) -> None:
        """Bytes of a block that could not be mapped, piece by piece."""
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
        """Which of the objects are done; see ``Engine``."""
        self._objects.wait(refs, num_ready, timeout)
        return [is_over(ref) for ref in refs]

    def slice_bytes(self, refs: list[Ref]) -> list[list[int]]:
        """See ``Engine``."""
        return self._objects.slice_bytes(refs)

    def error(self, ref: Ref) -> BaseException | None:
        """See ``Engine``."""
        return self._objects.error(ref)

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
        """A task whose function and arguments the worker has packed."""
        made = self._tasks.submit_call(self._call(code, "", call), call[1], name, options)
        return self._result(made)

    def create_actor(
        self,
        code: wire.PackedCode,
        call: calls.Packed,
        name: str,
        options: ActorOptions,
    ) -> Ref:
        """An actor whose class and arguments the worker has packed."""
        return self._tasks.create_actor_call(self._call(code, "", call), call[1], name, options)

    def call_actor(
        self,
        actor: Ref,
        method: str,
        call: calls.Packed,
        options: TaskOptions,
    ) -> Ref | int:
        """A call of a method whose arguments the worker has packed."""
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
        """A reference, or the number of a stream."""
        if isinstance(made, Ref):
            return made
        number = next(self._numbers)
        self._streams[number] = made
        return number
