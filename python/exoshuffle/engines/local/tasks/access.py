"""Objects as programs and workers ask for them: put, get, wait, cancel, error, place and sizes.

Guarantee: a reference of another engine, or of a closed one, is refused by name.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence

from exoshuffle import _native
from exoshuffle.engines.local.memory.kept import Kept
from exoshuffle.engines.local.objects import arguments, loading, values
from exoshuffle.engines.local.objects.loading import Loaded
from exoshuffle.engines.local.objects.state import ObjectState, Status
from exoshuffle.engines.local.objects.streams import Stream
from exoshuffle.engines.local.objects.table import ObjectTable
from exoshuffle.engines.local.objects.task import maker_of
from exoshuffle.engines.local.objects.values import StoreBlocks, StoredValue
from exoshuffle.engines.local.tasks.outcomes import ENGINE_NAME
from exoshuffle.engines.local.tasks.waits import Waits
from exoshuffle.futures.engine import RunningTask
from exoshuffle.futures.refs import Ref, SliceRef


class ObjectAccess:
    """The part of the engine protocol that is about objects; methods are as in ``Engine``.

    Args:
        table: Has the objects.
        waits: Waits for them.
        store: Has their bytes.
        blocks: Takes values that are put.
        kept: Looks at what the program keeps, whenever the program gets something.
    """

    def __init__(
        self,
        table: ObjectTable,
        waits: Waits,
        store: _native.Store,
        blocks: StoreBlocks,
        kept: Kept,
    ) -> None:
        self.inline_bytes = blocks.inline_bytes
        self._table = table
        self._waits = waits
        self._store = store
        self._blocks = blocks
        self._kept = kept

    def check_open(self) -> None:
        """Raises ``ClosedError`` once the engine is closed."""
        self._table.check_open()

    def put(self, value: object) -> Ref:
        """See ``Engine``."""
        self.check_open()
        return self.keep(values.encode(self._blocks, value, 1))

    def keep(self, stored: StoredValue) -> Ref:
        """Returns a reference to a value that is stored already."""
        with self._table.lock:
            self.check_open()
            state = ObjectState(self._table, 1, None)
            ref = Ref(state)
            self._table.fulfil(state, stored)
        return ref

    def get(self, ref: Ref | SliceRef, timeout: float | None) -> object:
        """See ``Engine``."""
        ((state, index),) = arguments.wanted(ref)
        self._table.own(state)
        stored = state.stored
        if stored is not None and stored.inline is not None:
            return values.assemble(stored, state.num_slices, index, [])
        return self.get_loaded(ref, timeout).value()

    def get_loaded(self, ref: Ref | SliceRef, timeout: float | None) -> Loaded:
        """Returns the value for ``get``, before it is decoded."""
        ((state, index),) = arguments.wanted(ref)
        self._table.own(state)
        self._kept.look()
        return self._waits.look(
            state, timeout, lambda state: loading.load(self._store, [(state, index)])[0]
        )

    def slice_bytes(self, refs: Sequence[Ref]) -> list[list[int]]:
        """See ``Engine``."""
        look = functools.partial(loading.slice_bytes, self._store)
        return [self._waits.look(self.state_of(ref), None, look) for ref in refs]

    def wait(
        self, refs: Sequence[Ref], num_ready: int, timeout: float | None
    ) -> tuple[list[Ref], list[Ref]]:
        """See ``Engine``."""
        for ref in refs:
            self.state_of(ref)
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
        return self.state_of(ref).error

    def locate(self, ref: Ref) -> list[str]:
        """See ``Engine``."""
        return [ENGINE_NAME] if self.state_of(ref).status is Status.DONE else []

    def running(self, ref: Ref) -> RunningTask | None:
        """See ``TimingEngine``."""
        state = self.state_of(ref)
        with self._table.lock:
            task = maker_of(state)
            if state.status is not Status.PENDING or task is None:
                return None
            if not task.started:
                return RunningTask()
            return RunningTask(time.monotonic() - task.began, ENGINE_NAME)

    def cancel(self, ref: Ref) -> bool:
        """See ``Engine``; a generator that runs on a thread, or in an actor, ends with its next item."""
        state = self.state_of(ref)
        with self._table.lock:
            task = maker_of(state)
            if state.status is not Status.PENDING or task is None or state.actor is not None:
                return False
            interrupt = task.interrupt
            if task.started and interrupt is None and task.stream is None:
                return False
            self._table.cancel(task)
        if interrupt is not None:
            interrupt()
        self._table.settle()
        return True

    def state_of(self, ref: Ref) -> ObjectState:
        """Returns the object behind a reference, if it is of this engine; see ``ObjectTable.own``."""
        return self._table.own(ref._object)
