"""Carries values through Ray's object store and back.

Guarantee: buffers (Arrow, NumPy, raw blocks) are copied once, into the store, and read from there read-only and without
a copy. References inside values are handed to Ray one by one, so that Ray counts them.

Why not Ray's own pickling alone: it does not tell the size of a value before it is sent. Nor does it name a value that
cannot be pickled. And a reference that a function closes over would never be freed.
"""

from __future__ import annotations

import array
import io
import itertools
import pickle
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import ray

from exoshuffle.engines import by_value
from exoshuffle.engines.ray.objects import Shape
from exoshuffle.engines.returned import check_block, values_of
from exoshuffle.engines.unpicklable import pickled
from exoshuffle.futures.refs import Value

if TYPE_CHECKING:
    from typing_extensions import Buffer

    RayHandle: TypeAlias = ray.ObjectRef | ray.actor.ActorHandle

#: Ray keeps smaller objects in the memory of the program that submitted the task, and copies them into every task that
#: takes them. That is fine for a number and ruinous for the parts of many blocks, so parts are padded to this size.
STORED_BYTES = 100 * 1024
#: Parts of this mean size and less are not padded, so that tiny blocks stay small.
SMALL_PART_BYTES = 8 * 1024

_PADDING = memoryview(bytes(STORED_BYTES))
_loading = threading.local()
#: The block that was allocated last, if any. When nobody uses it, it has two references: the list's, and the one that
#: counting takes.
_last: list[Block] = []
_UNUSED_REFERENCES = 2
_allocating = threading.Lock()


class Status(NamedTuple):
    """The status of a task that did not fail.

    Attributes:
        attempt: The attempt that ended, from 1.
        seconds: How long that attempt ran.
        node: The node where it ran.
        sizes: Bytes of each slice of the result, as 64-bit numbers back to back. To learn them later would bring
            spilled slices back.
    """

    attempt: int
    seconds: float
    node: str
    sizes: bytes = b""

    def slice_bytes(self) -> list[int]:
        """Returns the sizes as numbers."""
        return list(memoryview(self.sizes).cast("Q"))


class Block(bytearray):
    """A block that ``allocate_block`` returns; its content is undefined.

    Attributes:
        offsets: Where the slices begin, and where the last one ends.
    """

    offsets: list[int]

    @classmethod
    def allocate(cls, offsets: Sequence[int]) -> Block:
        """Returns the last block again if nobody refers to it any more, else a new one.

        The first use of the pages of a block of 32 MB costs as much as filling it and copying it into the object store.
        """
        with _allocating:
            is_free = bool(_last) and sys.getrefcount(_last[0]) == _UNUSED_REFERENCES
            block = _last.pop() if is_free else cls()
            _last[:] = [block]
            missing = offsets[-1] - len(block)
            if missing > 0:
                block += bytes(missing)
            else:
                del block[offsets[-1] :]
            block.offsets = list(offsets)
            return block


class Packed:
    """A pickled value.

    Attributes:
        data: The pickle.
        buffers: Its buffers, out of band.
        references: Ray's references inside, which the pickle names by position.
    """

    __slots__ = ("buffers", "data", "references")

    def __init__(self, data: bytes, buffers: list[Buffer], references: list[RayHandle]) -> None:
        self.data = data
        self.buffers = buffers
        self.references = references

    @property
    def num_bytes(self) -> int:
        """The size of the pickle and its buffers."""
        return len(self.data) + sum(memoryview(buffer).nbytes for buffer in self.buffers)

    def load(self) -> Value:
        """Returns the value."""
        outer = getattr(_loading, "references", None)
        _loading.references = self.references
        try:
            return pickle.loads(self.data, buffers=self.buffers)  # noqa: S301  written by this application
        finally:
            _loading.references = outer

    def __reduce__(
        self,
    ) -> tuple[type[Packed], tuple[bytes, list[pickle.PickleBuffer], list[RayHandle]]]:
        buffers = [pickle.PickleBuffer(buffer) for buffer in self.buffers]
        return Packed, (self.data, buffers, self.references)


def pack(value: object) -> Packed:
    """Pickles a value; functions and classes that other processes cannot import are pickled by value."""
    out = io.BytesIO()
    packed = Packed(b"", [], [])
    _Pickler(out, packed).dump(value)
    packed.data = out.getvalue()
    return packed


class _Pickler(by_value.Pickler):
    """Takes Ray's references out of what it pickles."""

    def __init__(self, out: io.BytesIO, packed: Packed) -> None:
        super().__init__(out, protocol=5, buffer_callback=packed.buffers.append)
        self._references = packed.references

    def reducer_override(self, obj: object) -> object:
        if isinstance(obj, ray.ObjectRef | ray.actor.ActorHandle):
            self._references.append(obj)
            return _reference, (len(self._references) - 1,)
        if isinstance(obj, memoryview):  # a slice of a raw block on its way to another task
            return memoryview, (pickle.PickleBuffer(obj),)
        reduced: object = super().reducer_override(obj)
        return reduced


def _reference(index: int) -> RayHandle:
    found: RayHandle = _loading.references[index]
    return found


class ValuePart:
    """The content of a Ray object that holds values, each pickled for itself."""

    __slots__ = ("padding", "values")

    def __init__(self, values: list[Packed], padding: Buffer = b"") -> None:
        self.values = values
        self.padding = padding

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> object:
        return self.values[index].load()

    @property
    def num_bytes(self) -> int:
        """Size without padding."""
        return sum(self.slice_bytes)

    @property
    def slice_bytes(self) -> list[int]:
        """Size of each slice."""
        return [value.num_bytes for value in self.values]

    def __reduce__(self) -> tuple[type[ValuePart], tuple[list[Packed], pickle.PickleBuffer]]:
        return ValuePart, (self.values, pickle.PickleBuffer(self.padding))


class BlockPart:
    """The content of a Ray object that holds slices of a raw block, back to back."""

    __slots__ = ("buffer", "offsets", "padding")

    def __init__(self, buffer: Buffer, offsets: list[int], padding: Buffer = b"") -> None:
        self.buffer = buffer
        self.offsets = offsets
        self.padding = padding

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> memoryview:
        return memoryview(self.buffer)[self.offsets[index] : self.offsets[index + 1]]

    @property
    def num_bytes(self) -> int:
        """Size without padding."""
        return self.offsets[-1]

    @property
    def slice_bytes(self) -> list[int]:
        """Size of each slice."""
        return [end - start for start, end in itertools.pairwise(self.offsets)]

    def __reduce__(
        self,
    ) -> tuple[type[BlockPart], tuple[pickle.PickleBuffer, list[int], pickle.PickleBuffer]]:
        buffers = pickle.PickleBuffer(self.buffer), pickle.PickleBuffer(self.padding)
        return BlockPart, (buffers[0], self.offsets, buffers[1])


Part = ValuePart | BlockPart


def encode(value: object, shape: Shape) -> list[Part]:
    """Returns the parts of the value that a task returned.

    Raises:
        EngineError: The task returned another number of values than ``num_returns``, or a value that cannot be pickled.
    """
    if isinstance(value, Block):
        parts = list(_block_parts(value, shape))
    else:
        values = values_of(value, shape.num_slices)
        parts = [
            ValuePart([pickled(pack, item) for item in values[part.start : part.stop]])
            for part in shape.parts
        ]
    if len(parts) > 1 and sum(part.num_bytes for part in parts) > SMALL_PART_BYTES * len(parts):
        for part in parts:
            part.padding = _PADDING[: max(0, STORED_BYTES - part.num_bytes)]
    return parts


def packed_sizes(parts: Sequence[Part]) -> bytes:
    """Returns the sizes of all slices, for ``Status.sizes``."""
    return array.array("Q", [size for part in parts for size in part.slice_bytes]).tobytes()


def _block_parts(block: Block, shape: Shape) -> Iterator[Part]:
    num_slices = len(block.offsets) - 1
    check_block(num_slices, shape.num_slices)
    view = memoryview(block).toreadonly()
    for part in shape.parts:
        offsets = block.offsets[part.start : part.stop + 1]
        start = offsets[0]
        yield BlockPart(view[start : offsets[-1]], [offset - start for offset in offsets])
