"""File systems of limited size, so that a disk can be full; and how those may mount them who are not the administrator.

Whom the kernel lets have a user namespace may mount there. A process with threads cannot go into one. So a test that
needs it is run again, by itself, by a pytest that was started in one.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

MOUNT, UMOUNT, UNSHARE = (shutil.which(name) or "" for name in ("mount", "umount", "unshare"))
#: Commands that start a process in a namespace of its own: mounts go with the process.
HERE, INSIDE = [UNSHARE, "--mount"], [UNSHARE, "--user", "--map-root-user", "--mount"]


class CannotMountError(Exception):
    """Says why there can be no file system."""


def mount(path: Path, size: str) -> None:
    """Mounts a file system of this size in memory at an empty directory."""
    subprocess.run(mounting(path, size), check=True)


def unmount(path: Path) -> None:
    """Ends ``mount``; nobody may have a file open there."""
    subprocess.run([UMOUNT, str(path)], check=True)


def mounting(path: Path, size: str) -> list[str]:
    """The command behind ``mount``."""
    return [MOUNT, "-t", "tmpfs", "-o", f"size={size}", "exoshuffle-test", str(path)]


@functools.cache
def may_mount() -> bool:
    """Whether this process may; if not, one in a namespace may.

    Raises:
        CannotMountError: Neither may.
    """
    if not (MOUNT and UMOUNT and UNSHARE):
        raise CannotMountError("there is no mount, umount or unshare")
    reasons = []
    for where in (HERE, INSIDE):
        with tempfile.TemporaryDirectory() as path:
            command = [*where, *mounting(Path(path), "1m")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return where is HERE
        reasons.append(done.stderr.strip())
    raise CannotMountError("; ".join(reasons))


def run_inside(test: pytest.Item, folder: Path) -> None:
    """Runs a test in a namespace, with its temporary files in this folder, and fails as it does."""
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(folder / "inside")]
    done = subprocess.run(
        [*INSIDE, sys.executable, "-m", "pytest", *options, test.nodeid],
        cwd=test.config.rootpath,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or "1 passed" not in done.stdout:
        pytest.fail(f"in a namespace:\n{done.stdout}{done.stderr}", pytrace=False)
