"""The contracts of imports have no exceptions, and the linter knows the native module by a file that has a use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import exoshuffle as xs

PACKAGE = Path(xs.__file__).parent


def test_no_contract_has_exceptions() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert "[[tool.importlinter.contracts]]" in text
    assert "ignore_imports" not in text


def test_a_tree_that_is_not_built_says_so(tmp_path: Path) -> None:
    copy = tmp_path / "exoshuffle"
    copy.mkdir()
    for path in PACKAGE.iterdir():
        if path.suffix != ".so" and path.name != "__pycache__":
            (copy / path.name).symlink_to(path)
    done = subprocess.run(
        [sys.executable, "-c", "import exoshuffle as xs; xs.Dataset"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.endswith(
        "ImportError: the native module of exoshuffle is not built: run `make build`, or install a wheel\n"
    )
