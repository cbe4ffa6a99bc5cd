"""The disks behind directories: how much room they have, and of which kind they are."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from exoshuffle import _native
from exoshuffle.futures.engine import DiskKind

#: File systems whose bytes come over a network.
_NETWORK_TYPES = ("9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "lustre", "nfs", "smb")
#: Disks of virtual machines: they say that they rotate, since nothing tells them otherwise.
_VIRTUAL_NAMES = ("vd", "xvd")
_DEVICES = Path("/sys/dev/block")
#: How the kernel writes blanks, line ends and backslashes in the names of folders.
_ESCAPED = re.compile(r"\\([0-7]{3})")


def free_bytes(directories: Sequence[str]) -> int | None:
    """Returns the free space of the disks behind the directories, each counted once; None if it is not known.

    A directory may be in any storage, which answers itself.
    """
    disks = _disks(directories)
    return sum(disks.values()) if disks else None


def is_same_disk(folder: str, others: Sequence[str]) -> bool:
    """Returns whether there are other folders, all on the disk of this one; False if that is not known."""
    disks = _disks((folder, *others))
    return bool(others) and disks is not None and len(disks) == 1


def disk_kind(directories: Sequence[str]) -> DiskKind:
    """Returns the kind of disk behind the directories, the slowest if they differ; an unknown disk counts as an SSD."""
    kinds = {_kind(directory) for directory in directories}
    if "rotational" in kinds:
        return "rotational"
    return "network" if "network" in kinds else "ssd"


def file_system(directory: str) -> str:
    """Returns the type of the file system behind a directory, such as ``tmpfs``; empty if it is not known."""
    types = _types_of_mounts()
    path = os.path.realpath(directory)
    while path not in types and path != "/":
        path = os.path.dirname(path)
    return types.get(path, "")


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


def _disks(directories: Sequence[str]) -> dict[int, int] | None:
    """Returns the free bytes of each disk behind the directories; None if one of them is not known."""
    found = [_native.StoredPath(directory).disk() for directory in directories]
    known = [disk for disk in found if disk is not None]
    return dict(known) if len(known) == len(found) else None


def _kind(directory: str) -> DiskKind:
    if file_system(directory).removeprefix("fuse.").startswith(_NETWORK_TYPES):
        return "network"
    try:
        return "rotational" if is_rotational(os.stat(directory).st_dev) else "ssd"
    except OSError:
        return "ssd"


def _types_of_mounts() -> dict[str, str]:
    """Returns the types of file systems by where they are mounted; the last mount on a folder counts."""
    try:
        lines = os.fsdecode(Path("/proc/self/mounts").read_bytes()).splitlines()
    except OSError:  # other systems; importing this takes 20 ms
        import psutil

        return {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}
    fields = (line.split(" ") for line in lines)
    return {_ESCAPED.sub(_unescaped, mounted): kind for _, mounted, kind, *_ in fields}


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))
