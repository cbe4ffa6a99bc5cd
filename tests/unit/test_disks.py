"""Facts about disks: room, and whether they turn."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import psutil
import pytest

from exoshuffle.observe.disks import (
    disk_kind,
    file_system,
    free_bytes,
    is_rotational,
    is_same_disk,
)
from exoshuffle.observe.memory import current_resident_bytes


def device(root: Path, name: str, number: str, rotational: str | None) -> Path:
    """A device as in ``/sys``: a link from its number to a folder of its name."""
    folder = root / "devices" / name
    folder.mkdir(parents=True)
    if rotational is not None:
        (folder / "queue").mkdir()
        (folder / "queue" / "rotational").write_text(f"{rotational}\n")
    numbers = root / "numbers"
    numbers.mkdir(exist_ok=True)
    (numbers / number).symlink_to(folder)
    return numbers


@pytest.mark.parametrize(
    ("name", "says", "turns"),
    [("sda", "1", True), ("nvme0n1", "0", False), ("vda", "1", False), ("dm-0", None, False)],
)
def test_a_disk_turns_if_the_kernel_knows_it_does(
    name: str, says: str | None, turns: bool, tmp_path: Path
) -> None:
    numbers = device(tmp_path, name, "8:0", says)
    assert is_rotational(os.makedev(8, 0), numbers) is turns


def test_a_partition_is_as_its_disk(tmp_path: Path) -> None:
    device(tmp_path, "sda", "8:0", "1")
    numbers = device(tmp_path, "sda/sda1", "8:1", None)
    assert is_rotational(os.makedev(8, 1), numbers)


def test_a_device_that_nobody_knows_does_not_turn(tmp_path: Path) -> None:
    assert not is_rotational(os.makedev(9, 9), tmp_path)


def test_free_space_of_one_file_system_is_counted_once(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    alone, both = free_bytes([str(tmp_path)]), free_bytes([str(tmp_path), str(other)])
    assert alone is not None
    assert both is not None
    assert both < 1.5 * alone


def test_what_cannot_be_told(tmp_path: Path) -> None:
    assert free_bytes([]) is None
    assert free_bytes([str(tmp_path / "missing")]) is None
    assert free_bytes([str(tmp_path), str(tmp_path / "missing")]) is None
    assert disk_kind([]) == "ssd"
    assert disk_kind([str(tmp_path)]) in ("ssd", "rotational", "network")


def test_folders_of_one_file_system(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert is_same_disk(str(tmp_path), [str(tmp_path / "other")])
    assert not is_same_disk(str(tmp_path), [str(tmp_path), "/proc"])
    assert not is_same_disk(str(tmp_path), [])
    assert not is_same_disk(str(tmp_path), [str(tmp_path / "nowhere")])


def test_file_systems_and_room_are_those_that_psutil_tells(tmp_path: Path) -> None:
    mounts = {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}
    assert mounts
    for folder, kind in mounts.items():
        if os.path.realpath(folder) == folder:
            assert file_system(folder) == kind
    assert file_system("/proc/self/fd") == "proc"
    room = shutil.disk_usage(tmp_path).free
    assert abs((free_bytes([str(tmp_path)]) or 0) - room) < max(room // 10, 1 << 30)


def test_folders_with_blanks_in_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a b\\c"
    folder.mkdir()
    name = str(folder).replace("\\", "\\134").replace(" ", "\\040")
    text = f"a / ext4 rw 0 0\nb {name} nfs4 rw 0 0\n"
    monkeypatch.setattr(Path, "read_bytes", lambda _: text.encode())
    assert file_system(str(folder)) == "nfs4"
    assert disk_kind([str(folder)]) == "network"
    assert file_system(str(tmp_path)) == "ext4"


def test_resident_memory_is_what_psutil_tells() -> None:
    known = psutil.Process().memory_info().rss
    assert abs(current_resident_bytes() - known) < known // 10
