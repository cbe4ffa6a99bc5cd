"""A seat: the place of one consumer at a coordinator, in the program itself or in another process of the machine.

Guarantee: a seat that is pickled opens the door, and its copy takes shares by it. A seat in a process that was forked
from the program's is refused, because locks and the engine stayed behind.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Generator

from exoshuffle.dataset.splitting.coordinator import Asked, Coordinator, Share
from exoshuffle.dataset.splitting.door import Address, Caller, Door
from exoshuffle.errors import OptionsError
from exoshuffle.futures.engine import waiting_for_tasks


class Seat(ABC):
    """The place of one consumer."""

    @abstractmethod
    def begin(self, asked: Asked) -> None:
        """See ``Coordinator``."""

    @abstractmethod
    def share(self, step: int) -> Share | None:
        """See ``Coordinator``."""

    @abstractmethod
    def leave(self) -> None:
        """See ``Coordinator``."""

    @abstractmethod
    def close(self) -> None:
        """Says that the consumer will begin no other iteration."""

    def shares(self, asked: Asked) -> Generator[Share, None, None]:
        """Yields the shares of the next iteration, in order. It begins with the first share that is asked for."""
        self.begin(asked)
        step = 0
        try:
            while (share := self.share(step)) is not None:
                yield share
                del share
                step += 1
        finally:
            self.leave()


class Table:
    """The seats at a coordinator, and the door to it, which is opened when the first of them is pickled."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._door: Door | None = None

    def open(self, folder: str | None = None) -> Address:
        """Opens the door unless it is open; returns where it is.

        Args:
            folder: See ``Door``.
        """
        with self._lock:
            if self._door is None:
                self._door = Door(self.coordinator, folder)
                self.coordinator.when_all_have_gone = self._door.close
            return self._door.address


class OwnSeat(Seat):
    """A seat in the program that has the coordinator."""

    def __init__(self, table: Table, number: int) -> None:
        self._table = table
        self._number = number
        self._gone = weakref.finalize(self, table.coordinator.go, number)
        self._gone.atexit = False

    def begin(self, asked: Asked) -> None:
        """See ``Coordinator``.

        Raises:
            OptionsError: This is a forked process.
        """
        if self._table.process != os.getpid():
            raise OptionsError(
                f"this shard was made in process {self._table.process}, and came here by fork; hand it to processes "
                "started by spawn or forkserver, as an argument"
            )
        with waiting_for_tasks():
            self._table.coordinator.begin(self._number, asked)

    def share(self, step: int) -> Share | None:
        """See ``Coordinator``."""
        with waiting_for_tasks():
            return self._table.coordinator.share(self._number, step)

    def leave(self) -> None:
        """See ``Coordinator``."""
        if self._table.process == os.getpid():
            self._table.coordinator.leave(self._number)

    def close(self) -> None:
        """See ``Seat``."""
        if self._table.process == os.getpid():
            self._gone()

    def wait_for_others(self) -> None:
        """Waits until all other consumers have left the iteration."""
        self._table.coordinator.wait_for_others(self._number)

    def __reduce__(self) -> tuple[type[FarSeat], tuple[Caller]]:
        self._gone.detach()
        return FarSeat, (Caller(self._table.open(), self._number),)


class FarSeat(Seat):
    """A seat in another process."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def begin(self, asked: Asked) -> None:
        """See ``Coordinator`` and ``Caller``."""
        with waiting_for_tasks():
            self._caller.begin(asked)

    def share(self, step: int) -> Share | None:
        """See ``Coordinator``."""
        with waiting_for_tasks():
            return self._caller.share(step)

    def leave(self) -> None:
        """See ``Coordinator``."""
        self._caller.leave()

    def close(self) -> None:
        """See ``Seat``."""
        self._caller.close()

    def __reduce__(self) -> tuple[type[FarSeat], tuple[Caller]]:
        return FarSeat, (self._caller,)


def seats_at(coordinator: Coordinator) -> list[Seat]:
    """Returns the seats of all consumers."""
    table = Table(coordinator)
    return [OwnSeat(table, number) for number in range(coordinator.num_consumers)]
