"""Another Ray than the supported ones, or none: whoever asks for this engine is told, in a program of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exoshuffle.engines.ray.versions import SUPPORTED

PROGRAM = """
import exoshuffle as xs
try:
    xs.init(engine="ray")
except xs.errors.OptionsError as error:
    print(error)
"""


def told(installed: Path) -> str:
    """The error in a program that finds this package of Ray first, and has read nothing of another."""
    path = os.pathsep.join([str(installed), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def install(directory: Path, source: str) -> Path:
    (directory / "ray").mkdir()
    (directory / "ray" / "__init__.py").write_text(source)
    return directory


@pytest.mark.parametrize("version", ["2.9.3", "2.49.2", "2.61.0", "3.0.0.dev0"])
def test_other_versions_of_ray(tmp_path: Path, version: str) -> None:
    # It has nothing else, as a version has not that moved what the engine uses.
    answer = told(install(tmp_path, f"__version__ = {version!r}"))
    low, high = (".".join(map(str, bound)) for bound in SUPPORTED)
    assert f"Ray {version} is installed; supported are {low} to below {high}" in answer
    assert 'pip install "exoshuffle[ray]"' in answer


def test_without_ray(tmp_path: Path) -> None:
    missing = "raise ModuleNotFoundError(\"No module named 'ray'\", name='ray')"
    answer = told(install(tmp_path, missing))
    assert 'not installed; run pip install "exoshuffle[ray]"' in answer
