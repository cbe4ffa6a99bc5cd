"""Kinds of nodes by name: files of the package, or of the user, with where each figure comes from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from exoshuffle.engines.sim.cluster import tables
from exoshuffle.engines.sim.cluster.description import Disk, Machine
from exoshuffle.errors import OptionsError

_FOLDER = Path(__file__).parent / "machines"
_KEYS = ("name", "date", "sources", "num_cpus", "memory_bytes", "network_bytes_per_second", "disk")
_DISK_KEYS = (
    "read_bytes_per_second",
    "write_bytes_per_second",
    "request_seconds",
    "num_disks",
    "remote_read_bytes_per_second",
)


def machine_names() -> list[str]:
    """Returns the names of the kinds of nodes that the package has."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def machine(name: str) -> Machine:
    """Returns a kind of node.

    Args:
        name: A name of the package, such as ``i4i.4xlarge``, or the path of a TOML file of your own.

    Raises:
        OptionsError: There is no such name, a figure cannot work, or it does not say where it comes from.
        InputError: The file cannot be read.
    """
    path = tables.known_path(_FOLDER, "machine", name)
    table = tables.read(path)
    tables.check_keys(path.name, table, _KEYS)
    tables.check_sources(path, table)
    disk = table.get("disk")
    if disk is not None:
        tables.check_keys(f"[disk] of {path.name}", disk, _DISK_KEYS)
    given = {key: table[key] for key in _KEYS[3:6] if key in table}
    try:
        return Machine(**given, disk=None if disk is None else Disk(**disk))
    except TypeError as error:
        raise OptionsError(f"{path.name} lacks a figure: {error}; add it") from error


def with_store(kind: Machine, percent: float) -> Machine:
    """Returns a kind of node whose budget for blocks and tasks is a share of its memory.

    Raises:
        OptionsError: It is no share.
    """
    if not 0 < percent <= 100:
        raise OptionsError(f"store_percent is {percent}; choose above 0 and at most 100")
    return replace(kind, memory_bytes=max(1, int(kind.memory_bytes * percent / 100)))
