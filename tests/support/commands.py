"""Fixtures: the command line in this process and in one of its own; and how it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from exoshuffle.cli.main import _run
from exoshuffle.futures import shutdown
from tests.support.world import contents, fill


@dataclass(frozen=True)
class Outcome:
    """The output and the exit code of a command."""

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
