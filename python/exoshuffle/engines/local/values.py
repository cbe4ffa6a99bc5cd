"""How values become bytes in the store and values again.

Guarantee: what a task gets is never shared mutable state with what another returned; large buffers (Arrow, NumPy,
bytes) are copied once, into the store, and read from there without a copy.

A value is kept in one of three ways: *inline* (pickled, up to ``INLINE_BYTES``), as a *pickled block* (pickle protocol
5, buffers out of band, one slice per returned value) or as a *raw block* that the task filled itself
(``allocate_block``).
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle

from exoshuffle import _native
from exoshuffle.errors import EngineError

#: Values up to this size stay out of the store: a block costs a mapping and at least 64 KiB.
INLINE_BYTES = 100 * 1024

_ALIGNMENT = 64


@dataclass(frozen=True)
class StoredValue:
    """Where the value of an object is: inline pickles, or a block in the store."""

    inline: tuple[bytes, ...] | None
    block_id: int | None
    pickled: bool

    def decode(self, buffer: Any) -> Any:
        """The value that a fetched slice stands for."""
        return _unpack(memoryview(buffer)) if self.pickled else buffer


def encode(store: Any, value: Any, num_slices: int) -> StoredValue:
    """Puts what a task returned into the store.

    Raises:
        EngineError: The task returned another number of values than ``num_returns``.
    """
    if isinstance(value, _native.Block):
        if value.num_slices != num_slices:
            raise EngineError(
                f"the task returned a block of {value.num_slices} slices; num_returns is {num_slices}"
            )
        return StoredValue(None, value.seal(), pickled=False)
    values = [value] if num_slices == 1 else _checked(value, num_slices)
    packed = [_Packed(item) for item in values]
    if sum(item.num_bytes for item in packed) <= INLINE_BYTES:
        return StoredValue(tuple(item.in_band() for item in packed), None, pickled=True)
    offsets = [0]
    for item in packed:
        offsets.append(offsets[-1] + item.num_bytes)
    block = store.allocate(offsets)
    with memoryview(block) as view:
        for item, start in zip(packed, offsets, strict=False):
            item.write(view[start : start + item.num_bytes])
    return StoredValue(None, block.seal(), pickled=True)


def _checked(value: Any, num_slices: int) -> Sequence[Any]:
    if (
        not isinstance(value, Sequence)
        or isinstance(value, str | bytes)
        or len(value) != num_slices
    ):
        count = len(value) if isinstance(value, Sequence) else 1
        raise EngineError(f"the task returned {count} values; num_returns is {num_slices}")
    return value


def decode_inline(data: bytes) -> Any:
    """The value of an inline pickle."""
    return pickle.loads(data)  # noqa: S301  written by this process


class _Packed:
    """One pickled value: ``[count][lengths][pickle][buffers]``, buffers aligned for zero-copy readers."""

    def __init__(self, value: Any) -> None:
        self._value = value
        buffers: list[pickle.PickleBuffer] = []
        try:
            self._pickle = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        except (pickle.PicklingError, AttributeError, TypeError):
            buffers.clear()
            self._pickle = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        self._parts = [memoryview(self._pickle), *(buffer.raw() for buffer in buffers)]
        header = struct.pack(f"<{len(self._parts) + 1}Q", len(self._parts), *map(len, self._parts))
        self._header = header
        self.num_bytes = _aligned(len(header)) + sum(_aligned(len(part)) for part in self._parts)

    def in_band(self) -> bytes:
        """The pickle alone, buffers inside."""
        if len(self._parts) == 1:
            return self._pickle
        data: bytes = cloudpickle.dumps(self._value, protocol=5)
        return data

    def write(self, out: memoryview) -> None:
        """Fills ``num_bytes`` bytes."""
        position = 0
        for part in (memoryview(self._header), *self._parts):
            out[position : position + len(part)] = part
            position += _aligned(len(part))


def _unpack(view: memoryview) -> Any:
    (count,) = struct.unpack_from("<Q", view)
    lengths = struct.unpack_from(f"<{count}Q", view, 8)
    position = _aligned(8 * (count + 1))
    parts = []
    for length in lengths:
        parts.append(view[position : position + length])
        position += _aligned(length)
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301  written by this process


def _aligned(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT
