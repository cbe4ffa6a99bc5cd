"""Fetches values of finished objects from the store: for this process, or to be mapped by another.

Guarantee: one fetch brings all that a task needs, or nothing; fetched values stay in memory as long as they are held.
"""

from __future__ import annotations

from typing import cast

from exoshuffle._native import Slice, Store
from exoshuffle.engines.local.objects import arguments, values
from exoshuffle.engines.local.objects.arguments import Wanted
from exoshuffle.engines.local.objects.state import ObjectState, Status, ValueGoneError
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.late_dataclasses import dataclass


@dataclass(frozen=True)
class Loaded:
    """An object, or one or some of its slices: how it is stored, and its bytes.

    Attributes:
        stored: How the object is stored.
        num_slices: Slices of the whole object.
        index: The slice, a range of slices, or None for all.
        buffers: A buffer per slice, unless the value is inline.
    """

    stored: StoredValue
    num_slices: int
    index: int | range | None
    buffers: list[Slice]

    def value(self) -> object:
        """Returns the value, for this process."""
        return values.assemble(self.stored, self.num_slices, self.index, self.buffers)


#: A loaded argument: its value, or the values of a sequence.
Arguments = Loaded | list[Loaded]


def take(task: Task) -> list[Arguments]:
    """Takes the loaded arguments of a packed task, so that they end with the run that gets them."""
    loaded, task.values = cast("list[Arguments] | None", task.values), None
    return loaded or []


def slice_bytes(store: Store, state: ObjectState) -> list[int]:
    """Returns the bytes of each slice of an object that is done.

    Raises:
        ValueGoneError: The value is gone again.
        CorruptBlockError: The index on disk is not what was written.
    """
    source, index = arguments.sourced(state, None)
    if isinstance(index, int):
        return [slice_bytes(store, source)[index]]
    stored = state.stored
    if stored is None or state.status is not Status.DONE:
        raise ValueGoneError(f"{state!r}: its value is gone")
    if stored.inline is not None:
        return [len(data) for data in stored.inline]
    assert stored.block_id is not None
    return block_slice_bytes(store, stored)


def block_slice_bytes(store: Store, stored: StoredValue) -> list[int]:
    """Returns the bytes of each slice of a value that is a block; reads the index of a spilled one if need be."""
    assert stored.block_id is not None
    if stored.num_bytes is not None:
        return [stored.num_bytes]
    return store.slice_bytes(stored.block_id)


def load(store: Store, wanted: list[Wanted]) -> list[Loaded]:
    """Fetches objects that are done.

    Raises:
        ValueGoneError: One of them is gone again.
        CorruptBlockError: A spilled object is not what was written.
    """
    # Each slice is asked for once: the store would read, and hold, a spilled slice as often as it is asked for.
    requests: dict[tuple[int, int], None] = {}
    found: list[tuple[StoredValue, int, int | range | None, list[tuple[int, int]]]] = []
    for state, index in (arguments.sourced(*one) for one in wanted):
        stored = state.stored
        if stored is None or state.status is not Status.DONE:
            raise ValueGoneError(f"{state!r}: its value is gone")
        slices: list[tuple[int, int]] = []
        if stored.block_id is not None:
            chosen = range(state.num_slices) if index is None else index
            indices = (chosen,) if isinstance(chosen, int) else chosen
            slices = [(stored.block_id, i) for i in indices]
        requests.update(dict.fromkeys(slices))
        found.append((stored, state.num_slices, index, slices))
    buffers = dict(zip(requests, store.fetch(list(requests)) if requests else (), strict=True))
    return [
        Loaded(stored, num_slices, index, [buffers[one] for one in slices])
        for stored, num_slices, index, slices in found
    ]
