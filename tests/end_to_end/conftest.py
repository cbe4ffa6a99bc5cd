"""Fixtures of the end-to-end tests: the command line in this process and in one of its own, engines, a dataset."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.cli.main import _run
from exoshuffle.engines.local import LocalEngine
from exoshuffle.futures import shutdown
from tests.end_to_end.matrix import cut_small
from tests.end_to_end.world import contents, fill


@dataclass(frozen=True)
class Outcome:
    """What a command printed and returned."""

    code: int
    out: str
    err: str

    def sentence(self) -> str:
        """The error message, checked to be one line of plain words."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("exoshuffle: "), self.err
        for noise in ("Traceback", "Error {", "Os {", "Err(", "Some("):
            assert noise not in self.err
        return lines[0].removeprefix("exoshuffle: ")


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Outcome]]:
    """Runs ``exoshuffle ARGUMENTS`` in this process, as ``main`` does but for the exit."""

    def run(*arguments: object) -> Outcome:
        capfd.readouterr()
        code = _run([str(argument) for argument in arguments])
        shutdown()
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    yield run
    shutdown()


@pytest.fixture
def process() -> Callable[..., Outcome]:
    """Runs ``exoshuffle ARGUMENTS`` as a program."""

    def run(*arguments: object) -> Outcome:
        program = [sys.executable, "-c", "from exoshuffle.cli import main; main()"]
        done = subprocess.run(
            [*program, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="module")
def matrix_engine() -> Iterator[LocalEngine]:
    """One engine for all tests of a file, whose plans have many maps, so that worker processes are started once."""
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        made = xs.init(num_cpus=2, memory_limit="2GB")
        assert isinstance(made, LocalEngine)
        yield made
        xs.shutdown()


@pytest.fixture
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> xs.Dataset:
    """The rows that the file with the test calls ``TABLE``."""
    pq.write_table(request.module.TABLE, tmp_path / "in.parquet")
    return xs.read_parquet(tmp_path / "in.parquet")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with files good and bad."""
    root = tmp_path_factory.mktemp("world")
    fill(root)
    return root


@pytest.fixture
def check_refused(
    world: Path, command: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Checks that a command run in the world is refused in one sentence and leaves the world as it is."""
    monkeypatch.chdir(world)

    def check(arguments: list[str], code: int, words: list[str]) -> None:
        before = contents(world)
        done = command(*arguments)
        assert done.code == code, done.err
        message = done.sentence()
        for word in words:
            assert word in message
        assert done.out == ""
        assert contents(world) == before

    return check
