"""Holds for a worker process the references that the worker has, and the slices that it has mapped.

Guarantee: the engine holds a reference or slice until the worker has given it back as often as it was lent, or ended.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from exoshuffle._native import Slice
from exoshuffle.engines.local.objects import identity
from exoshuffle.engines.local.objects.identity import Handle
from exoshuffle.engines.local.objects.loading import Loaded
from exoshuffle.engines.local.objects.values import StoredValue
from exoshuffle.engines.local.workers import wire
from exoshuffle.futures.refs import Ref


class Lent:
    """The references and slices that one worker has."""

    def __init__(self) -> None:
        self._references: dict[int, tuple[Ref, int]] = {}
        self._pins: dict[int, Slice] = {}
        self._pin_numbers = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._references or self._pins)

    def lend(self, handle: Handle) -> tuple[int, int]:
        """Lends a reference; returns its number, and how many slices the object has."""
        number = identity.number_of(handle)
        ref, count = self._references.get(number) or (Ref(handle), 0)
        self._references[number] = (ref, count + 1)
        return number, handle.num_slices

    def take_back(self, returned: Iterable[tuple[int, int]], unpinned: Iterable[int]) -> None:
        """Takes back references, each with how often it was lent, and slices."""
        for number, count in returned:
            ref, had = self._references.pop(number)
            if had > count:
                self._references[number] = (ref, had - count)
        for pin in unpinned:
            self._pins.pop(pin, None)

    def transfer(self, loaded: Loaded, behind: list[Slice | bytes]) -> wire.Transfer:
        """Lends a value: its slices stay in memory for as long as the worker has mapped them.

        Those that a worker cannot map are added to ``behind``, to be sent behind the frame.
        """
        stored = StoredValue(loaded.stored.inline, None, loaded.stored.pickled)
        slices = [self._pin(buffer, behind) for buffer in loaded.buffers]
        return wire.Transfer(stored, loaded.num_slices, loaded.index, slices)

    def clear(self) -> None:
        """Lets go of everything, since the worker has ended."""
        self._references.clear()
        self._pins.clear()

    def _pin(self, buffer: Slice, behind: list[Slice | bytes]) -> wire.Piece:
        pieces = buffer.pieces()
        if pieces is None:
            behind.append(buffer)
            return len(behind) - 1
        number = next(self._pin_numbers)
        self._pins[number] = buffer
        return number, pieces
