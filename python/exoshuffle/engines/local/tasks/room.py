"""Checks whether a task can ever have its working memory and its arguments at once; else it would wait for ever.

Guarantee: a refused task could not run even if it were alone. The check counts the least that the store can hold for
the arguments. That is whole pages of slices that it brings back, or the block if that is less. A block that several
arguments share counts once; a block that lies in a file does not count. So a task that misses the room by no more than
a page per slice may still wait.

Cost: a look at the store's counters as long as all blocks fit. From then on, a look at the sizes of slices for each
argument of each task, or once for a sequence that many tasks share.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence

from exoshuffle._native import Store
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.memory.budget import Budget
from exoshuffle.engines.local.objects import arguments, loading
from exoshuffle.engines.local.objects.state import Bundle, ObjectState, Status, ValueGoneError
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.errors import MemoryLimitError, StorageError
from exoshuffle.futures.refs import Column, Ref, Refs, SliceRef
from exoshuffle.units import format_bytes

_PAGE_BYTES = Store.PAGE_BYTES
_UNIT_BYTES = Store.UNIT_BYTES
_ENTRY_BYTES = Store.ENTRY_BYTES


def check(budget: Budget, store: Store, task: Task, memory: int) -> None:
    """Refuses a task whose arguments can never be in memory beside the memory that it, or its actor, holds.

    Args:
        budget: The engine's budget.
        store: Has the arguments.
        task: A task whose arguments have come.
        memory: Bytes of the budget that are held while the arguments are fetched.

    Raises:
        MemoryLimitError: The task is refused.
    """
    room_bytes = budget.room_bytes
    least = 0
    if memory <= room_bytes:
        args = (*(task.args or ()), *(task.kwargs or {}).values())
        least = _too_many_bytes(store, args, room_bytes - memory)
    if memory + least > room_bytes:
        limit = limits.raised(budget.memory_limit, memory + least - room_bytes)
        raise MemoryLimitError(
            f"task {task.name} needs {format_bytes(memory)} of working memory and {format_bytes(least)} for its "
            f"arguments at once, and at most {format_bytes(room_bytes)} can be free. Raise memory_limit to "
            f"{format_bytes(limit)}, or give the task less at a time"
        )


def _too_many_bytes(store: Store, args: Sequence[object], room_bytes: int) -> int:
    """Returns the least that the arguments take, if that is more than there can be; else 0."""
    stats = store.stats()
    # Blocks in files take no memory, and may be among the arguments.
    room_bytes += stats["fallback_bytes"]
    if stats["used_blocks_bytes"] + stats["spilled_bytes"] + _UNIT_BYTES <= room_bytes:
        return 0
    # The fetch finds blocks that are damaged or gone.
    with contextlib.suppress(StorageError, ValueGoneError):
        if sum(_most_bytes(store, arg) for arg in args) > room_bytes:
            wanted = [one for arg in args for one in arguments.wanted(arg)]
            least = least_bytes(store, wanted)
            return least if least > room_bytes else 0
    return 0


def least_bytes(store: Store, wanted: Sequence[arguments.Wanted]) -> int:
    """Returns the bytes of the budget that a fetch of these objects takes at least.

    Raises:
        ValueGoneError: One of the objects is gone.
        StorageError: The index of a spilled block cannot be read.
    """
    slices: dict[int, set[int]] = {}
    sizes: dict[int, list[int]] = {}
    for state, index in wanted:
        found = _sizes(store, state)
        chosen = range(len(found))[_as_slice(index)]
        if found and chosen:
            slices.setdefault(id(state), set()).update(chosen)
            sizes[id(state)] = found
    return _rounded(sum(_held(sizes[key], slices[key]) for key in slices), _UNIT_BYTES)


def _held(sizes: Sequence[int], chosen: set[int]) -> int:
    """Returns the bytes that slices of a block take: the pages that they lie in if brought back, or the whole block.

    A page that several slices share counts once.
    """
    bounds = [0, *itertools.accumulate(sizes)]
    image = _rounded(_rounded(bounds[-1], 8) + _ENTRY_BYTES * len(bounds), _PAGE_BYTES)
    pages = counted_to = 0
    for index in sorted(chosen):
        start, end = bounds[index], bounds[index + 1]
        if start < end:
            first = max(start // _PAGE_BYTES * _PAGE_BYTES, counted_to)
            counted_to = _rounded(end, _PAGE_BYTES)
            pages += counted_to - first
    return min(image, pages)


def _most_bytes(store: Store, arg: object) -> int:
    """Returns no less than ``least_bytes`` of one argument; is cheaper for sequences."""
    index: int | range | None = None
    if isinstance(arg, Refs | Column):
        bundle = arguments.bundle(arg if isinstance(arg, Refs) else arg.refs)
        sizes, count = _bundle_sizes(store, bundle), len(bundle.objects)
        if isinstance(arg, Column):
            index = arg.index
    elif isinstance(arg, Ref | SliceRef):
        ((state, index),) = arguments.wanted(arg)
        sizes, count = _sizes(store, state), 1
    else:
        return 0
    chosen = sizes[_as_slice(index)]
    return sum(chosen) + count * len(chosen) * 2 * _PAGE_BYTES + _UNIT_BYTES


def _bundle_sizes(store: Store, bundle: Bundle) -> list[int]:
    """Returns the sums over the objects of a sequence, by column."""
    if bundle.slice_bytes is None:
        sums: list[int] = []
        for state, first in zip(bundle.objects, bundle.firsts, strict=True):
            sizes = [0] * first + _sizes(store, state)
            pairs = itertools.zip_longest(sums, sizes, fillvalue=0)
            sums = [so_far + size for so_far, size in pairs]
        bundle.slice_bytes = sums
    return bundle.slice_bytes


def _sizes(store: Store, state: ObjectState) -> list[int]:
    """Returns the sizes of the slices of an object in the store; an empty list if it is not in the store."""
    source, index = arguments.sourced(state, None)
    if isinstance(index, int):
        return _sizes(store, source)[index : index + 1]
    stored = state.stored
    if stored is None or state.status is not Status.DONE:
        raise ValueGoneError(f"{state!r}: its value is gone")
    return [] if stored.block_id is None else loading.block_slice_bytes(store, stored)


def _as_slice(index: int | range | None) -> slice:
    if index is None:
        return slice(None)
    return slice(index.start, index.stop) if isinstance(index, range) else slice(index, index + 1)


def _rounded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
