"""The disks behind directories: how much room they have, and of which kind they are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import psutil

from exoshuffle.futures.engine import DiskKind

#: File systems whose bytes come over a network.
_NETWORK_TYPES = ("9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "lustre", "nfs", "smb")
#: Disks of virtual machines: they say that they rotate, since nothing tells them otherwise.
_VIRTUAL_NAMES = ("vd", "xvd")
_DEVICES = Path("/sys/dev/block")


def free_bytes(directories: Sequence[str]) -> int | None:
    """Returns the free space of the file systems behind the directories, each counted once; None if it is not known."""
    free: dict[int, int] = {}
    for directory in directories:
        try:
            free[os.stat(directory).st_dev] = shutil.disk_usage(directory).free
        except OSError:
            return None
    return sum(free.values()) if free else None


def is_same_disk(folder: str, others: Sequence[str]) -> bool:
    """Returns whether there are other folders, all on the file system of this one; False if that is not known."""
    try:
        return {os.stat(other).st_dev for other in others} == {os.stat(folder).st_dev}
    except OSError:
        return False


def disk_kind(directories: Sequence[str]) -> DiskKind:
    """Returns the kind of disk behind the directories, the slowest if they differ; an unknown disk counts as an SSD."""
    kinds = {_kind(directory) for directory in directories}
    if "rotational" in kinds:
        return "rotational"
    return "network" if "network" in kinds else "ssd"


def is_rotational(device: int, devices: Path = _DEVICES) -> bool:
    """Returns whether the kernel takes a device for a rotating disk. A partition counts as the disk that it is on."""
    entry = (devices / f"{os.major(device)}:{os.minor(device)}").resolve()
    if entry.name.startswith(_VIRTUAL_NAMES):
        return False
    for folder in (entry, entry.parent):
        try:
            return (folder / "queue" / "rotational").read_text().strip() == "1"
        except OSError:
            continue
    return False


def _kind(directory: str) -> DiskKind:
    path = os.path.realpath(directory)
    mounts = {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}
    while path not in mounts and path != "/":
        path = os.path.dirname(path)
    if mounts.get(path, "").removeprefix("fuse.").startswith(_NETWORK_TYPES):
        return "network"
    try:
        return "rotational" if is_rotational(os.stat(directory).st_dev) else "ssd"
    except OSError:
        return "ssd"
