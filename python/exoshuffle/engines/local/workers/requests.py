"""What a worker process may ask of the engine, and the blocks and streams that it has open meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from exoshuffle.engines.local.objects.calls import Call, Code
from exoshuffle.engines.local.objects.loading import Loaded
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.engines.local.tasks.waits import is_over
from exoshuffle.futures.engine import Node
from exoshuffle.futures.options import ActorOptions, TaskOptions
from exoshuffle.futures.refs import Ref, RefStream, SliceRef

if TYPE_CHECKING:
    from exoshuffle.engines.local.engine import LocalEngine

#: How a worker names what it encoded: inline pickles, number of its block, whether pickled, references inside.
Encoded = tuple["tuple[bytes, ...] | None", "int | None", bool, tuple[Ref, ...]]


class Requests:
    """The requests of one worker; each public method is one."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._numbers = itertools.count()
        self._blocks: dict[int, Any] = {}
        self._streams: dict[int, RefStream] = {}
        self._codes: dict[bytes, Code] = {}

    def serve(self, name: str, args: tuple[Any, ...]) -> Any:
        """Answers a request by name."""
        return getattr(self, name)(*args)

    def stored(self, encoded: Encoded) -> StoredValue:
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

    def allocate(self, offsets: list[int]) -> tuple[int, Any, bool]:
        """A block to fill: its number, where it lies, and whether the store is about to spill.

        It may lie where a worker cannot map it (None); see ``fill``.
        """
        block = self._engine.blocks.allocate(offsets)
        number = next(self._numbers)
        self._blocks[number] = block
        return number, block.pieces(), self._engine.blocks.is_nearly_full(0)

    def fill(self, number: int, start: int, data: bytes) -> None:
        """Bytes of a block that could not be mapped, piece by piece."""
        with memoryview(self._blocks[number]) as view:
            view[start : start + len(data)] = data

    # --- objects -----------------------------------------------------------------------------------------------

    def put(self, encoded: Encoded) -> Ref:
        """See ``Engine``."""
        return self._engine.keep(self.stored(encoded))

    def get(self, ref: Ref | SliceRef, timeout: float | None) -> Loaded:
        """See ``Engine``."""
        return self._engine.get_loaded(ref, timeout)

    def wait(self, refs: list[Ref], num_ready: int, timeout: float | None) -> list[bool]:
        """Which of the objects are done; see ``Engine``."""
        self._engine.wait(refs, num_ready, timeout)
        return [is_over(ref) for ref in refs]

    def slice_bytes(self, refs: list[Ref]) -> list[list[int]]:
        """See ``Engine``."""
        return self._engine.slice_bytes(refs)

    def error(self, ref: Ref) -> BaseException | None:
        """See ``Engine``."""
        return self._engine.error(ref)

    def cancel(self, ref: Ref) -> bool:
        """See ``Engine``."""
        return self._engine.cancel(ref)

    def locate(self, ref: Ref) -> list[str]:
        """See ``Engine``."""
        return self._engine.locate(ref)

    def nodes(self) -> list[Node]:
        """See ``Engine``."""
        return self._engine.nodes()

    def stats(self) -> dict[str, int]:
        """See ``Engine``."""
        return self._engine.stats()

    # --- tasks, actors and streams -----------------------------------------------------------------------------

    def submit(
        self,
        code: tuple[bytes, bytes | None, Sequence[Any]],
        call: tuple[bytes, tuple[Any, ...], Sequence[Any]],
        name: str,
        options: TaskOptions,
    ) -> Any:
        """A task whose function and arguments the worker has packed."""
        made = self._engine.submit_call(self._call(code, "", call), call[1], name, options)
        return self._result(made)

    def create_actor(
        self,
        code: tuple[bytes, bytes | None, Sequence[Any]],
        call: tuple[bytes, tuple[Any, ...], Sequence[Any]],
        name: str,
        options: ActorOptions,
    ) -> Ref:
        """An actor whose class and arguments the worker has packed."""
        return self._engine.create_actor_call(self._call(code, "", call), call[1], name, options)

    def call_actor(
        self,
        actor: Ref,
        method: str,
        call: tuple[bytes, tuple[Any, ...], Sequence[Any]],
        options: TaskOptions,
    ) -> Any:
        """A call of a method whose arguments the worker has packed."""
        made = self._engine.call_actor_call(actor, self._call(None, method, call), call[1], options)
        return self._result(made)

    def kill_actor(self, actor: Ref) -> None:
        """See ``Engine``."""
        self._engine.kill_actor(actor)

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
        code: tuple[bytes, bytes | None, Sequence[Any]] | None,
        method: str,
        call: tuple[bytes, tuple[Any, ...], Sequence[Any]],
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

    def _result(self, made: Ref | RefStream) -> Any:
        """A reference, or the number of a stream."""
        if isinstance(made, Ref):
            return made
        number = next(self._numbers)
        self._streams[number] = made
        return number
