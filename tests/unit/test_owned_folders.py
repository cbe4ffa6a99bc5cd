"""Temporary folders: gone with their program, or with the next sweep if it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from exoshuffle.engines.owned_folders import OwnedFolder, sweep

KILLED = """
import os, signal, sys
from pathlib import Path
from exoshuffle.engines.owned_folders import OwnedFolder
folder = OwnedFolder(sys.argv[1], "exo-")
Path(folder.path, "ray_spilled_objects_1").mkdir()
Path(folder.path, "ray_spilled_objects_1", "object").write_bytes(bytes(1000))
print(folder.path, flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_program_has_left_goes_with_the_next_start(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        folder = Path(program.stdout.readline().strip())
        sweep(str(tmp_path), "exo-")
        assert (folder / "ray_spilled_objects_1" / "object").exists(), "its program lives"
        program.communicate()
    assert program.returncode == -signal.SIGKILL
    assert folder.exists()
    sweep(str(tmp_path), "exo-")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_goes_when_it_is_removed(tmp_path: Path) -> None:
    ours = OwnedFolder(str(tmp_path), "exo-")
    other = OwnedFolder(str(tmp_path), "exo-")
    sweep(str(tmp_path), "exo-")
    assert sorted(map(str, tmp_path.iterdir())) == sorted([ours.path, other.path])
    ours.remove()
    assert list(map(str, tmp_path.iterdir())) == [other.path]
    other.remove()


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    (tmp_path / "exo-without-a-lock").mkdir()
    (tmp_path / "exo-file").write_text("a file")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "owner").touch()
    os.symlink(elsewhere, tmp_path / "exo-link")
    before = sorted(tmp_path.rglob("*"))
    sweep(str(tmp_path), "exo-")
    assert sorted(tmp_path.rglob("*")) == before


def test_what_processes_make_again_in_a_removed_folder_goes(tmp_path: Path) -> None:
    """Two of three killed programs on Ray left a folder for good: a worker that was just starting made it again."""
    ours = OwnedFolder(str(tmp_path), "exo-")
    (tmp_path / "exo-again" / "session_1" / "logs").mkdir(parents=True)
    os.symlink(tmp_path / "exo-again" / "gone", tmp_path / "exo-again" / "session_latest")
    os.symlink(tmp_path, Path(ours.path) / "session_latest")
    sweep(str(tmp_path), "exo-", "session_latest")
    assert list(map(str, tmp_path.iterdir())) == [ours.path], "its program lives"
    ours.remove()
