"""How much a Ray that was started here has spilled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.cloudsort import gensort
from exoshuffle.engines.ray import RayEngine
from exoshuffle.engines.ray.written_files import WrittenFiles

pytestmark = pytest.mark.usefixtures("without_node")


def test_files_count_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "before").write_bytes(bytes(1_000))
    written = WrittenFiles(str(tmp_path))
    try:
        for number in range(300):
            (tmp_path / str(number)).write_bytes(bytes(number))
        assert written.num_bytes() == sum(range(300))
        for number in range(300):
            (tmp_path / str(number)).unlink()
        with (tmp_path / "open").open("wb") as file:
            file.write(bytes(50))
            file.flush()
            assert written.num_bytes() == sum(range(300))
        assert written.num_bytes() == sum(range(300)) + 50
        (tmp_path / "before").read_bytes()
        assert written.num_bytes() == sum(range(300)) + 50
    finally:
        written.close()


def test_the_folder_may_go_first(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    written = WrittenFiles(str(tmp_path / "in"))
    try:
        (tmp_path / "in" / "file").write_bytes(bytes(7))
        assert written.num_bytes() == 7
        shutil.rmtree(tmp_path / "in")
        assert written.num_bytes() == 7
    finally:
        written.close()


def test_no_folder_and_no_watch(tmp_path: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="inotify_add_watch"):
        WrittenFiles(str(tmp_path / "missing"))
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_what_ray_spills_is_counted(tmp_path: Path) -> None:
    engine = xs.init(engine="ray", memory_limit="500MB", spill_dirs=str(tmp_path), num_cpus=2)
    try:
        assert isinstance(engine, RayEngine)
        assert engine.stats()["spilled_bytes"] == 0
        refs = [xs.put(bytes(20_000_000)) for _ in range(15)]
        spilled = engine.stats()["spilled_bytes"]
        written = sum(file.stat().st_size for file in tmp_path.rglob("*-multi-*"))
        # The store has 150 MB; the last files may not be closed yet.
        assert 100_000_000 <= spilled <= written
        del refs
    finally:
        xs.shutdown()


def test_summaries_tell_it(tmp_path: Path) -> None:
    gensort(tmp_path / "in", 2_000_000, partitions=2)
    program = [sys.executable, "-c", "from exoshuffle.cli import main; main()", "sort"]
    files = [str(tmp_path / "in"), str(tmp_path / "out"), "--format", "records"]
    options = ["--engine", "ray", "--num-cpus", "2", "--memory-limit", "400MB", "--json"]
    done = subprocess.run(
        [*program, *files, *options], capture_output=True, text=True, timeout=100, check=True
    )
    # 200 MB go through a store of 120 MB, once or twice.
    assert 50_000_000 < json.loads(done.stdout)["spilled_bytes"] < 600_000_000


def test_a_program_that_closes_nothing_ends() -> None:
    """The thread that counts is in nobody's way."""
    program = "import exoshuffle as xs; xs.init(engine='ray', num_cpus=1); print(xs.get(xs.put(3)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout == "3\n"
