"""Spill directories that are missing, not directories or full: told before any work, or survived, or named."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.dataset.jobs import spilling
from exoshuffle.dataset.write import output
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.errors import DiskFullError, OptionsError, OutputError, TaskError
from exoshuffle.futures import Ref

on_thread = functools.partial(xs.remote, executor="thread")

BLOCK_BYTES = 5_000_000
BUDGET_BYTES = 72_000_000


def start(*spill_dirs: Path) -> LocalEngine:
    memory_limit = limits.limit_for(BUDGET_BYTES)
    engine = xs.init(
        memory_limit=memory_limit, spill_dirs=[str(path) for path in spill_dirs], num_cpus=2
    )
    assert isinstance(engine, LocalEngine)
    return engine


@on_thread
def make(seed: int) -> bytes:
    return bytes([seed]) * BLOCK_BYTES


def check_blocks(count: int) -> list[Ref]:
    refs = [make.remote(seed) for seed in range(count)]
    for seed, ref in enumerate(refs):
        assert xs.get(ref) == bytes([seed]) * BLOCK_BYTES
    return refs


@pytest.fixture(autouse=True)
def stop() -> object:
    yield
    xs.shutdown()


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="missing"):
        start(tmp_path, tmp_path / "missing")


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionsError, match=r"file.*not a directory"):
        start(tmp_path / "file")


def test_spill_files_have_no_name_and_are_the_users_alone(tmp_path: Path, no_mask: None) -> None:
    """Whoever can read the directory cannot read what is spilled there, nor find it afterwards."""
    del no_mask
    spill = tmp_path / "spill"
    spill.mkdir(mode=0o777)
    engine = start(spill)
    refs = check_blocks(30)
    assert engine.stats()["spilled_bytes"] > 0
    files = list(open_files(spill))
    assert files
    for file in files:
        assert stat.S_IMODE(file.st_mode) == 0o600
        assert file.st_uid == os.geteuid()
        assert file.st_nlink == 0
    assert list(spill.iterdir()) == []
    del refs


@pytest.fixture
def no_mask() -> Iterator[None]:
    """Nothing is taken off the mode of new files."""
    before = os.umask(0)
    yield
    os.umask(before)


def open_files(folder: Path) -> Iterator[os.stat_result]:
    """The files of a folder that this process has open."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.readlink(descriptor).startswith(f"{folder.resolve()}/"):
                yield descriptor.stat()


def test_a_full_directory_is_left_alone(tmp_path: Path, small_disk: Callable[[str], Path]) -> None:
    engine = start(small_disk("20m"), tmp_path)
    refs = check_blocks(40)
    stats = engine.stats()
    assert stats["failed_spill_dirs"] == 1
    assert stats["spilled_bytes"] > 100_000_000
    del refs


def test_full_disks_are_named_with_the_remedy(small_disk: Callable[[str], Path]) -> None:
    disks = [small_disk("20m"), small_disk("20m")]
    start(*disks)
    refs = [make.remote(seed) for seed in range(40)]
    # Whoever asks for memory last is told: a task, or this thread when it wants a value back from disk.
    with pytest.raises((TaskError, DiskFullError)) as caught:
        xs.get(refs)
    error = caught.value.__cause__ if isinstance(caught.value, TaskError) else caught.value
    assert isinstance(error, DiskFullError)
    message = str(error)
    assert all(str(disk) in message for disk in disks)
    assert "free disk space or name more directories" in message
    assert "\n" not in message


def test_freed_blocks_make_room_on_disk(small_disk: Callable[[str], Path]) -> None:
    engine = start(small_disk("80m"))
    for _ in range(4):
        check_blocks(20)
    assert engine.stats()["spilled_bytes"] > 80_000_000


def test_a_sort_that_fills_the_disk_leaves_nothing(
    records: Path, small_disk: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = small_disk("40m")
    engine = start(disk)
    output = records.parent / "output"
    with pytest.raises(DiskFullError, match=rf"will spill about 2\d\d MB, and {disk} has 41\.9 MB"):
        xs.read_records(records).sort().write_records(output)
    assert engine.stats()["num_tasks"] == 0
    # As if it had been free when it was looked at.
    monkeypatch.setattr(spilling, "free_bytes", lambda _: None)
    words = rf"{disk}: No space left.*; free disk space or name more directories in spill_dirs="
    with pytest.raises(DiskFullError, match=words) as caught:
        xs.read_records(records).sort().write_records(output)
    assert "\n" not in str(caught.value)
    assert [path.name for path in records.parent.iterdir() if "output" in path.name] == []
    assert len(list(records.iterdir())) == 5
    assert list(disk.iterdir()) == []


def test_an_output_disk_that_fills_leaves_nothing(
    tmp_path: Path,
    records: Path,
    small_disk: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = small_disk("60m")
    start(tmp_path)
    with pytest.raises(DiskFullError, match=r"at least 142 MB, and .* has 62\.9 MB free"):
        xs.read_records(records).sort().write_records(disk / "output")
    assert list(disk.iterdir()) == []
    # As if it had been free when it was looked at.
    monkeypatch.setattr(output, "free_bytes", lambda _: None)
    with pytest.raises(OutputError, match=r"(?i)no space left|full"):
        xs.read_records(records).sort().write_records(disk / "output")
    assert list(disk.iterdir()) == []
