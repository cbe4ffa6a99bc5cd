"""Fixtures of the fault tests: records to sort, a disk that can be filled, and damage to spill files."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import exoshuffle as xs
from benchmarks.experiments.loss import damage_spill_files
from exoshuffle.cloudsort import gensort, valsort
from tests.support import disks

#: Twice and more of what the small engine keeps in memory.
MANY_RECORDS = 1_500_000


@pytest.fixture(scope="session")
def made_records(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """150 MB of records in four files, and their checksum."""
    path = tmp_path_factory.mktemp("made") / "records"
    gensort(path, MANY_RECORDS, partitions=4)
    return path, valsort(path).checksum


@pytest.fixture
def records(made_records: tuple[Path, str], tmp_path: Path) -> Path:
    """The same files, in a directory of the test's own."""
    shutil.copytree(made_records[0], tmp_path / "records", copy_function=os.link)
    return tmp_path / "records"


@pytest.fixture
def check_sorted(made_records: tuple[Path, str]) -> Callable[[Path], None]:
    """Checks that a directory holds exactly ``records``, in order."""

    def check(output: Path) -> None:
        after = valsort(output)
        assert after.is_sorted
        assert (after.records, after.checksum) == (MANY_RECORDS, made_records[1])

    return check


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts file systems of a given size, so that a disk can be full."""
    try:
        disks.may_mount()
    except disks.CannotMountError as error:
        pytest.skip(f"no file system of limited size can be mounted here: {error}")
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        path = tmp_path / f"disk-{len(mounted)}"
        path.mkdir()
        disks.mount(path, size)
        mounted.append(path)
        return path

    yield mount
    xs.shutdown()
    gc.collect()
    for path in mounted:
        disks.unmount(path)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Calls a test that needs a small disk where it may mount one."""
    if "small_disk" not in pyfuncitem.fixturenames or disks.may_mount():
        return None
    disks.run_inside(pyfuncitem, pyfuncitem.funcargs["tmp_path"])
    return True


@pytest.fixture
def damage(tmp_path: Path) -> Callable[[], int]:
    """Damages everything that the ``engine`` fixture has spilled; returns the number of files."""
    return lambda: damage_spill_files(tmp_path / "spill")
