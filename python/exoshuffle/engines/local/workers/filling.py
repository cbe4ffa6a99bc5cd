"""Blocks of the engine's store that a worker process fills: mapped where possible, sent piece by piece otherwise."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Sequence

from exoshuffle._native import MappedBlock
from exoshuffle.engines.local.objects import values
from exoshuffle.engines.local.objects.collecting import Collecting
from exoshuffle.engines.local.workers import wire
from exoshuffle.engines.local.workers.link import Link
from exoshuffle.engines.local.workers.questions import Questions

#: The size of a message with bytes of a block that cannot be mapped.
_FILL_BYTES = 1 << 20

#: A block that is filled in place, or bytes that are sent when they are complete.
Fillable = MappedBlock | bytearray


class WorkerBlocks:
    """Blocks of the engine's store that are filled in this process. See ``values.Blocks``."""

    def __init__(self, questions: Questions, link: Link, inline_bytes: int) -> None:
        self._questions = questions
        self._link = link
        self.inline_bytes = inline_bytes
        self._collecting = Collecting(gc.collect)
        #: Blocks being filled, by identity: (the block, its number, its slices).
        self._open: dict[int, tuple[Fillable, int, int]] = {}

    def allocate(self, offsets: Sequence[int]) -> Fillable:
        """See ``Blocks``."""
        offsets = list(offsets)
        number, pieces, is_nearly_full = self._questions.ask("allocate", offsets)
        if is_nearly_full and self._collecting.is_due():
            # The references that it finds go back with the next message.
            self._collecting.run()
        block: Fillable = bytearray(offsets[-1]) if pieces is None else self._link.block(pieces)
        self._open[id(block)] = (block, number, len(offsets) - 1)
        return block

    def num_slices(self, value: object) -> int | None:
        """See ``Blocks``."""
        found = self._open.get(id(value))
        return None if found is None else found[2]

    def seal(self, block: object) -> int:
        """See ``Blocks``."""
        opened, number, _ = self._open.pop(id(block))
        if isinstance(opened, bytearray):
            # Memory is short, else there would be a block to map.
            for start in range(0, len(opened), _FILL_BYTES):
                self._questions.ask(
                    "fill", number, start, bytes(opened[start : start + _FILL_BYTES])
                )
        else:
            opened.release()
        return number

    def encoded(self, value: object, num_slices: int) -> wire.Encoded:
        """Stores a value where the engine finds it, and returns where that is."""
        stored = values.encode(self, value, num_slices)
        return stored.inline, stored.block_id, stored.pickled, stored.contained

    def clear(self) -> None:
        """Drops blocks that a finished task did not return, once nothing can write to them any more."""
        for key, (block, number, _) in list(self._open.items()):
            with contextlib.suppress(BufferError):
                if not isinstance(block, bytearray):
                    block.release()
                del self._open[key]
                self._link.discarded.append(number)
