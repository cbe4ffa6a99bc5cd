"""Commands of programs that have closed standard output or standard error, as some services do."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-c", "from exoshuffle.cli import main; main()"]


def run(folder: Path, output: str, closed: str) -> subprocess.CompletedProcess[str]:
    (folder / "in.csv").write_text("id\n2\n1\n")
    arguments = [*PROGRAM, "sort", "in.csv", output, "--by", "id", "--spill-dir", str(folder)]
    command = f"{' '.join(map(shlex.quote, arguments))} {closed}"
    return subprocess.run(  # noqa: S602
        command, shell=True, cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", ">&- 2>&- <&-"])
def test_files_are_written(closed: str, tmp_path: Path) -> None:
    """Without standard error there was no file and no word: progress asked whether it is a terminal."""
    done = run(tmp_path, "out.csv", closed)
    assert (done.returncode, (tmp_path / "out.csv").read_text()) == (0, "id\n1\n2\n")


def test_rows_go_out_without_standard_error(tmp_path: Path) -> None:
    done = run(tmp_path, "-", "2>&-")
    assert (done.returncode, done.stdout) == (0, "id\n1\n2\n")


def test_closed_standard_output_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "-", ">&-")
    assert done.returncode == 1
    assert done.stderr.startswith("exoshuffle: standard output is closed, or is no stream")
    assert len(done.stderr.splitlines()) == 1
