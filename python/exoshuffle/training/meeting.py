"""The meeting of ranks that a launcher starts: rank 0 opens a door in a folder, and the others wait for it.

Guarantee: the folder belongs to this user alone (mode 0700), and so do its files (0600). Rank 0 removes them at the
end of its program. A folder of a program that was killed can be used again, because no two doors have one name. A
rank 0 that does not come is named by a warning of the logger ``exoshuffle``, and is an error after half an hour.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import stat
import time
import weakref

from exoshuffle.dataset.splitting.coordinator import MEET_SECONDS, Coordinator
from exoshuffle.dataset.splitting.door import Address, Caller
from exoshuffle.dataset.splitting.seat import FarSeat, OwnSeat, Seat, Table
from exoshuffle.errors import OptionsError, WorkerDiedError, shown
from exoshuffle.observe.watchdog import STALL_SECONDS

#: The file with the address of the door.
_ADDRESS = "address"
#: Seconds between looks for the door.
_LOOK_SECONDS = 0.05

_logger = logging.getLogger("exoshuffle")


def check_door(folder: object) -> str:
    """Returns the path of the folder.

    Raises:
        OptionsError: It is no path, or a folder that others may use.
    """
    if not isinstance(folder, str | os.PathLike):
        raise OptionsError(
            f"door is {shown(folder)}; give the path of a folder for the ranks of this machine"
        )
    path = os.path.abspath(os.fspath(folder))
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise OptionsError(
                f"door is {shown(path)}, which is no folder that only this user may use (mode 0700); give one, or a "
                "path where nothing is yet"
            )
    return path


def opened(folder: str, coordinator: Coordinator) -> OwnSeat:
    """Opens the door for other ranks, and returns the seat of rank 0.

    Raises:
        OptionsError: Another program uses the folder.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    file = os.path.join(folder, _ADDRESS)
    if _caller(file, 0) is not None:
        raise OptionsError(f"door {shown(folder)} is used by another program; give each its own")
    _clear(folder)
    table = Table(coordinator)
    seat = OwnSeat(table, 0)
    address = table.open(folder)
    descriptor = os.open(f"{file}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w") as out:
        json.dump(address, out)
    os.rename(f"{file}.new", file)
    weakref.finalize(coordinator, _remove, folder, os.getpid())
    return seat


def awaited(
    folder: str,
    rank: int,
    *,
    stall_seconds: float = STALL_SECONDS,
    meet_seconds: float = MEET_SECONDS,
) -> Seat:
    """Waits for the door of rank 0, and returns the seat of another rank.

    Raises:
        WorkerDiedError: It has not been opened in time.
    """
    begun = warned = time.monotonic()
    while (caller := _caller(os.path.join(folder, _ADDRESS), rank)) is None:
        time.sleep(_LOOK_SECONDS)
        now = time.monotonic()
        if now - begun >= meet_seconds:
            raise WorkerDiedError(
                f"rank 0 has not opened the door {shown(folder)} within {meet_seconds:.0f} s; see why it did not "
                "start, and begin all ranks again"
            )
        if now - warned >= stall_seconds:
            warned = now
            _logger.warning(
                "rank %d has waited %.0f s for rank 0, which has not opened the door %s",
                rank,
                now - begun,
                folder,
            )
    return FarSeat(caller)


def _caller(file: str, rank: int) -> Caller | None:
    """Returns the connection of a rank to the door, unless nobody is behind it."""
    with contextlib.suppress(FileNotFoundError, ValueError, WorkerDiedError), open(file) as text:
        caller = Caller(Address(*json.load(text)), rank)
        caller.connect()
        return caller
    return None


def _remove(folder: str, process: int) -> None:
    if process == os.getpid():
        with contextlib.suppress(OSError):
            _clear(folder)
            os.rmdir(folder)


def _clear(folder: str) -> None:
    """Removes what programs leave in a folder."""
    for name in os.listdir(folder):
        if name == _ADDRESS or name.startswith("door-"):
            os.unlink(os.path.join(folder, name))
