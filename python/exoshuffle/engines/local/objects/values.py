"""Turns values into bytes in the store, and back into values.

Guarantee: a value that a task gets shares no mutable state with the value that another task returned. Large buffers
(Arrow, NumPy, bytes) are copied once, into the store, and read from there without a copy. Arrow data that a worker
process returns as it got it is not copied at all.

A value is kept in one of three ways. *Inline* values are pickled, up to a limit. A *pickled block* has pickle protocol
5, buffers out of band, and one slice per returned value. The task itself fills a *raw block* (``allocate_block``).
"""

from __future__ import annotations

import pickle
import struct
import sys
from collections.abc import Callable, Sequence, Sized
from typing import NamedTuple, Protocol, cast

from exoshuffle import _native
from exoshuffle.arguments import is_whole
from exoshuffle.engines import by_value
from exoshuffle.engines.local.objects import identity
from exoshuffle.engines.local.objects.collecting import Collecting
from exoshuffle.engines.returned import check_block, values_of
from exoshuffle.engines.unpicklable import pickled
from exoshuffle.errors import OptionsError
from exoshuffle.futures.engine import BlockBuffer
from exoshuffle.futures.refs import Ref

#: Values up to this size stay out of the store: a block costs a mapping and at least 64 KiB.
INLINE_BYTES = 100 * 1024

#: A slice that was fetched: from the store, mapped from another process, or as its bytes.
Readable = _native.Slice | _native.MappedSlice | memoryview

_ALIGNMENT = 64
#: The store spills from this share of its budget on.
_SPILL_PERCENT = 80


def check_inline_bytes(value: object) -> None:
    """Raises ``OptionsError`` unless the value is a number of bytes."""
    if not is_whole(value) or value < 0:
        raise OptionsError(
            f"inline_bytes is {value!r}; it must be a whole number of bytes, at least 0"
        )


class StoredValue(NamedTuple):
    """The place of an object's value: inline pickles, or a block in the store.

    Attributes:
        inline: One pickle per slice, or None.
        block_id: The store's number of the block, or None.
        pickled: Whether the slices of the block are pickles.
        contained: The references inside the value, which live as long as the value does.
        same_as: The number of the slice of another object that is this value; ``contained`` names the object.
        num_bytes: The size of a block of one slice, whose index on disk then tells nothing new; else None.
    """

    inline: tuple[bytes, ...] | None
    block_id: int | None
    pickled: bool
    contained: tuple[Ref, ...] = ()
    same_as: int | None = None
    num_bytes: int | None = None

    @property
    def is_lasting(self) -> bool:
        """Whether the value can stay as long as its object is known: it takes no store memory, itself or by others."""
        return self.inline is not None and not self.contained


class Blocks(Protocol):
    """The source of blocks: the store, or the engine that a worker process talks to."""

    inline_bytes: int

    def allocate(self, offsets: Sequence[int]) -> BlockBuffer:
        """Returns a block to fill."""

    def num_slices(self, value: object) -> int | None:
        """Returns the number of slices of a block from ``allocate``; None for any other value."""

    def seal(self, block: object) -> int:
        """Ends filling, and returns the block's number."""


class StoreBlocks:
    """Blocks of the store in this process.

    Before the store begins to spill, ``collect`` has the garbage collector find references in cycles, here and in
    worker processes. The objects behind these need not be written.
    """

    def __init__(
        self, store: _native.Store, inline_bytes: int, collect: Callable[[], None]
    ) -> None:
        self._store = store
        self._collecting = Collecting(collect)
        self.inline_bytes = inline_bytes

    def allocate(self, offsets: Sequence[int]) -> _native.Block:
        """See ``Blocks``."""
        self.collect_if_nearly_full(offsets[-1])
        return self._store.allocate(offsets)

    def collect_if_nearly_full(self, more_bytes: int) -> None:
        """Has garbage collected if so many more bytes would make the store spill; called before they are taken."""
        if self._collecting.is_due() and self.is_nearly_full(more_bytes):
            self._collecting.run()

    def is_nearly_full(self, more_bytes: int) -> bool:
        """Whether the store spills once it holds so much more."""
        stats = self._store.stats()
        used = stats["used_blocks_bytes"] + stats["reserved_bytes"] + more_bytes
        return 100 * used > _SPILL_PERCENT * stats["budget_bytes"]

    def num_slices(self, value: object) -> int | None:
        """See ``Blocks``."""
        return value.num_slices if isinstance(value, _native.Block) else None

    def seal(self, block: object) -> int:
        """See ``Blocks``."""
        assert isinstance(block, _native.Block)
        return block.seal()


def encode(blocks: Blocks, value: object, num_slices: int) -> StoredValue:
    """Stores the value that a task returned, so that it can be read.

    Raises:
        EngineError: The task returned another number of values than ``num_returns``, or a value that cannot be pickled.
    """
    found = blocks.num_slices(value)
    if found is not None:
        check_block(found, num_slices)
        num_bytes = len(cast("Sized", value)) if found == 1 else None
        return StoredValue(None, blocks.seal(value), pickled=False, num_bytes=num_bytes)
    values = values_of(value, num_slices)
    with identity.Capturing() as captured:
        packed = [pickled(_Packed, item) for item in values]
        if sum(item.num_bytes for item in packed) <= blocks.inline_bytes:
            inline = tuple(item.in_band() for item in packed)
            return StoredValue(inline, None, pickled=True, contained=_references(captured))
    offsets = [0]
    for item in packed:
        offsets.append(offsets[-1] + item.num_bytes)
    block = blocks.allocate(offsets)
    with memoryview(block) as view:
        for item, start in zip(packed, offsets, strict=False):
            item.write(view[start : start + item.num_bytes])
    num_bytes = offsets[-1] if num_slices == 1 else None
    inside = _references(captured)
    return StoredValue(None, blocks.seal(block), True, inside, num_bytes=num_bytes)


def _references(handles: list[identity.Handle]) -> tuple[Ref, ...]:
    return tuple(Ref(handle) for handle in handles)


def assemble(
    stored: StoredValue, num_slices: int, index: int | range | None, buffers: Sequence[Readable]
) -> object:
    """Makes the value of an object, or of one or some of its slices, from the fetched buffers."""
    if stored.inline is not None:
        chosen = stored.inline
        if index is not None:
            chosen = (
                chosen[index.start : index.stop] if isinstance(index, range) else (chosen[index],)
            )
        decoded = [pickle.loads(data) for data in chosen]  # noqa: S301  written by this application
    elif stored.pickled:
        decoded = [_unpack(_unpinned(buffer)) for buffer in buffers]
    else:
        decoded = list(buffers)
    many = isinstance(index, range) or (index is None and num_slices > 1)
    return decoded if many else decoded[0]


def is_arrow(value: object) -> bool:
    """Whether a value is Arrow data, which nobody can have changed since it was read."""
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(
        value, arrow.Table | arrow.RecordBatch | arrow.ChunkedArray | arrow.Array
    )


def dumps(value: object, buffers: list[pickle.PickleBuffer] | None = None) -> bytes:
    """Pickles a value. Large buffers go to ``buffers``, if given.

    Functions and classes that other processes cannot import are pickled by value.
    """
    keep = None if buffers is None else buffers.append
    try:
        data = pickle.dumps(value, protocol=5, buffer_callback=keep)
        if b"__main__" not in data:
            return data
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    if buffers is not None:
        buffers.clear()
    return by_value.dumps(value, keep)


class _Packed:
    """One pickled value: ``[count][lengths][pickle][buffers]``, buffers aligned for zero-copy readers."""

    def __init__(self, value: object) -> None:
        self._value = value
        buffers: list[pickle.PickleBuffer] = []
        self._pickle = dumps(value, buffers)
        self._parts: list[bytes | memoryview] = [self._pickle]
        self._parts.extend(buffer.raw() for buffer in buffers)
        self.num_bytes = _aligned(8 * (len(self._parts) + 1)) + sum(
            [_aligned(len(part)) for part in self._parts]
        )

    def in_band(self) -> bytes:
        """Returns the pickle alone, with the buffers inside."""
        return self._pickle if len(self._parts) == 1 else dumps(self._value)

    def write(self, out: memoryview) -> None:
        """Writes the value into ``num_bytes`` bytes."""
        position = 0
        header = struct.pack(f"<{len(self._parts) + 1}Q", len(self._parts), *map(len, self._parts))
        for part in (header, *self._parts):
            out[position : position + len(part)] = part
            position += _aligned(len(part))


def _unpinned(buffer: Readable) -> memoryview:
    """Copies a small buffer: a program that keeps the buffer would keep all of its block in memory.

    Three ends of pieces, kept by the program beside rows of 100 MB, left 600 MB without room for the next piece.
    """
    view = memoryview(buffer)
    return memoryview(bytes(view)) if len(view) <= INLINE_BYTES else view


def _unpack(view: memoryview) -> object:
    (count,) = struct.unpack_from("<Q", view)
    lengths = struct.unpack_from(f"<{count}Q", view, 8)
    position = _aligned(8 * (count + 1))
    parts = []
    for length in lengths:
        parts.append(view[position : position + length])
        position += _aligned(length)
    value: object = pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301  written by this application
    return value


def _aligned(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT
