"""Modules of the user in tasks: a Ray that is started here finds what the program finds; elsewhere errors say how."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.errors import TaskError

PACKAGE = Path(xs.__file__).parent

SCRIPT = """
import sys
sys.path.insert(0, {library!r})
import exoshuffle as xs
import beside

xs.init("ray", num_cpus=1, memory_limit="500MB")

def files():
    import beside
    return beside.__file__, xs.__file__

def outer():
    return xs.get(xs.remote(files).remote())

def late():
    import late
    return late.__file__

class Actor:
    def files(self):
        return files()

expected = beside.__file__, xs.__file__
assert xs.get(xs.remote(beside.file).remote()) == beside.__file__
assert xs.get(xs.remote(files).remote()) == expected
assert xs.get(xs.remote(outer).remote()) == expected
assert xs.get(xs.remote(Actor).remote().files.remote()) == expected
assert next(xs.remote(beside.files, num_returns="streaming").remote()) is not None
sys.path.append({later!r})
import late as found
assert xs.get(xs.remote(late).remote()) == found.__file__
xs.shutdown()
print("done")
"""
BESIDE = """
def file():
    return __file__

def files():
    yield __file__
"""


def _run(arguments: list[str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A program with a module beside it, another in a folder that it adds later, and this package in a third folder."""
    library, later = tmp_path / "library", tmp_path / "later"
    for folder in (library, later, tmp_path / "app"):
        folder.mkdir()
    (library / "exoshuffle").symlink_to(PACKAGE)
    (tmp_path / "app" / "beside.py").write_text(BESIDE)
    (later / "late.py").write_text("")
    program = SCRIPT.format(library=str(library), later=str(later))
    (tmp_path / "app" / "program.py").write_text(program)
    return program


@pytest.mark.usefixtures("without_node", "script")
def test_modules_beside_a_script(tmp_path: Path) -> None:
    # Ray itself would take this one first.
    (tmp_path / "beside.py").write_text("raise ImportError('another module of this name')")
    _run(["app/program.py"], tmp_path)


@pytest.mark.usefixtures("without_node", "script")
def test_modules_of_a_package_that_runs(tmp_path: Path) -> None:
    program = (tmp_path / "app" / "program.py").read_text()
    program = program.replace("import beside", "from app import beside")
    (tmp_path / "app" / "__main__.py").write_text(program)
    _run(["-m", "app"], tmp_path)


@pytest.mark.usefixtures("without_node")
def test_modules_of_a_notebook(tmp_path: Path, script: str) -> None:
    """The cells of a notebook are run by ``exec``, and it has no script."""
    (tmp_path / "app" / "cells.py").write_text(script)
    run = "import sys; sys.path[0] = ''; exec(open('cells.py').read())"
    _run(["-c", run], tmp_path / "app")


@pytest.mark.usefixtures("node")
def test_the_error_says_how_a_cluster_gets_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def double(value):\n    return 2 * value\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here  # type: ignore[import-not-found]

    def in_a_batch(table: pa.Table) -> pa.Table:
        import only_here

        return table.set_column(0, "a", pa.array(map(only_here.double, table["a"].to_pylist())))

    xs.init("ray")
    remedy = (
        r"No module named 'only_here' on node [0-9.]+ of the cluster; install it on every node, or "
        r"begin with ray\.init\(runtime_env=\{\"working_dir\": \"\.\"\}\), or \"py_modules\""
    )
    try:
        with pytest.raises(TaskError, match=remedy):
            xs.get(xs.remote(only_here.double).remote(1))
        with pytest.raises(TaskError, match=remedy) as caught:
            xs.from_pydict({"a": [1]}).map_batches(in_a_batch).to_arrow()
        assert isinstance(caught.value.__cause__, ModuleNotFoundError)
        assert caught.value.__cause__.name == "only_here"
    finally:
        xs.shutdown()
