"""The commit of an output directory: whatever comes, the old or the new result is in place, and it is said which."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exoshuffle._native import StoredPath
from exoshuffle.dataset.write import commit, replacing
from exoshuffle.dataset.write.directory import OutputDirectory
from exoshuffle.dataset.write.existing import existing_of
from exoshuffle.errors import OptionsError, OutputError


def _make(place: Path, content: str, overwrite: bool = True) -> None:
    """Commits a directory with one file."""
    with OutputDirectory(place, [], overwrite) as output:
        Path(output.staging / "part").write_text(content)
        output.commit([{"name": "part", "rows": 1, "bytes": len(content), "crc32": 0}])


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=[signal.SIGINT, signal.SIGHUP])
def ending(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal that interrupts the program, as the command has it for all that end a program."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(request.param, interrupt)
    yield request.param
    signal.signal(request.param, before)


def _with_interrupt(
    monkeypatch: pytest.MonkeyPatch, ending: signal.Signals, owner: Any, name: str, when: str
) -> None:
    """A signal before or after every call of a function."""
    plain = getattr(owner, name)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if when == "before":
            signal.raise_signal(ending)
        result = plain(*arguments, **options)
        if when == "after":
            signal.raise_signal(ending)
        return result

    monkeypatch.setattr(owner, name, interrupted)


@pytest.fixture(params=["exchange", "two renames"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of replacing a directory."""
    if request.param == "two renames":
        monkeypatch.setattr(replacing, "exchange", lambda *_: False)
    return str(request.param)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_of_a_replacement_waits_for_it(
    when: str,
    way: str,
    ending: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _make(tmp_path / "out", "old")
    if way == "exchange":
        _with_interrupt(monkeypatch, ending, replacing, "exchange", when)
    else:
        _with_interrupt(monkeypatch, ending, replacing, "rename", when)
    with pytest.raises(KeyboardInterrupt, match=r"out is complete and in place"):
        _make(tmp_path / "out", "new")
    assert (tmp_path / "out" / "part").read_text() == "new"
    assert _names(tmp_path) == ["out"]


def test_an_interrupt_while_the_old_result_is_removed(
    way: str, ending: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del way
    _make(tmp_path / "out", "old")
    with monkeypatch.context() as patched:
        _with_interrupt(patched, ending, replacing, "remove_all", "before")
        with pytest.raises(KeyboardInterrupt, match=r"out is complete and in place"):
            _make(tmp_path / "out", "new")
    assert (tmp_path / "out" / "part").read_text() == "new"
    _make(tmp_path / "out", "newer")
    assert _names(tmp_path) == ["out"]


def test_an_interrupt_before_the_commit_leaves_the_old_result(tmp_path: Path) -> None:
    _make(tmp_path / "out", "old")
    with (
        pytest.raises(KeyboardInterrupt, match="nothing was written"),
        OutputDirectory(tmp_path / "out", [], overwrite=True),
    ):
        signal.raise_signal(signal.SIGINT)
    assert (tmp_path / "out" / "part").read_text() == "old"
    assert _names(tmp_path) == ["out"]


def test_readers_always_find_a_result(tmp_path: Path) -> None:
    _make(tmp_path / "out", "0")
    stop = threading.Event()
    missing: list[int] = []

    def read() -> None:
        while not stop.is_set():
            if not (tmp_path / "out").exists():
                missing.append(1)

    reader = threading.Thread(target=read)
    reader.start()
    for count in range(100):
        _make(tmp_path / "out", str(count))
    stop.set()
    reader.join()
    assert missing == []


KILLED = """
import os, sys
from pathlib import Path
from exoshuffle.dataset.write import replacing
from exoshuffle.dataset.write.directory import OutputDirectory

replacing.exchange = lambda *_: False
plain, left = replacing.rename, [int(sys.argv[2])]

def rename(*arguments):
    if not left[0]:
        os._exit(9)
    left[0] -= 1
    return plain(*arguments)

replacing.rename = rename
with OutputDirectory(sys.argv[1], [], True) as output:
    Path(output.staging / "part").write_text("new")
    output.commit([{"name": "part", "rows": 1, "bytes": 3, "crc32": 0}])
"""


@pytest.mark.parametrize("num_renames", [0, 1, 2, 3])
def test_the_only_copy_of_a_result_is_put_back_after_a_kill(
    num_renames: int, tmp_path: Path
) -> None:
    _make(tmp_path / "out", "old")
    arguments = [sys.executable, "-c", KILLED, str(tmp_path / "out"), str(num_renames)]
    ended = subprocess.run(arguments, check=False, timeout=60)
    assert ended.returncode == (0 if num_renames == 3 else 9)
    if num_renames < 2:
        with pytest.raises(OutputError, match="exists"):
            OutputDirectory(tmp_path / "out", [], overwrite=False)
        assert (tmp_path / "out" / "part").read_text() == "old"
    with OutputDirectory(tmp_path / "out", [], overwrite=True):
        pass
    assert (tmp_path / "out" / "part").read_text() == ("old" if num_renames < 2 else "new")
    assert _names(tmp_path) == ["out"]


def test_a_result_is_not_put_back_under_a_run_that_is_replacing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "exchange", lambda *_: False)
    _make(tmp_path / "out", "old")
    plain = replacing.rename
    seen: list[bool] = []

    def rename(path: StoredPath, target: StoredPath) -> None:
        plain(path, target)
        if Path(path) == tmp_path / "out":
            with OutputDirectory(tmp_path / "out", [], overwrite=False):
                seen.append((tmp_path / "out").exists())

    monkeypatch.setattr(replacing, "rename", rename)
    _make(tmp_path / "out", "new")
    assert seen == [False]
    assert (tmp_path / "out" / "part").read_text() == "new"


def test_what_somebody_else_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    with OutputDirectory(tmp_path / "out", [], overwrite=False) as output:
        _make(tmp_path / "out", "theirs")
        with pytest.raises(OutputError, match="made by somebody else meanwhile"):
            output.commit([])
    assert (tmp_path / "out" / "part").read_text() == "theirs"
    assert _names(tmp_path) == ["out"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_was_not_written_here_needs_another_word(
    overwrite: bool, way: str, tmp_path: Path
) -> None:
    del way
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("")
    with pytest.raises(OutputError, match="overwrite"):
        _make(tmp_path / "out", "new", overwrite)
    assert _names(tmp_path / "out") == ["precious"]
    with OutputDirectory(tmp_path / "out", [], overwrite="anything") as output:
        Path(output.staging / "part").write_text("new")
        output.commit([{"name": "part"}])
    _make(tmp_path / "out", "newer")
    assert (tmp_path / "out" / "part").read_text() == "newer"
    assert _names(tmp_path) == ["out"]


def test_what_somebody_else_put_there_meanwhile_is_not_removed(way: str, tmp_path: Path) -> None:
    del way
    _make(tmp_path / "out", "old")
    with OutputDirectory(tmp_path / "out", [], overwrite=True) as output:
        Path(output.staging / "part").write_text("new")
        (tmp_path / "out" / "precious").touch()
        with pytest.raises(OutputError, match='overwrite="anything"'):
            output.commit([{"name": "part"}])
    assert (tmp_path / "out" / "part").read_text() == "old"
    assert (tmp_path / "out" / "precious").exists()
    assert _names(tmp_path) == ["out"]


def test_what_a_killed_worker_left_is_no_part_of_the_result(tmp_path: Path) -> None:
    with OutputDirectory(tmp_path / "out", [], overwrite=False) as output:
        for name in ("k=1/part", "k=1/other", "k=2/part", "_attempt-1/part", "part"):
            Path(output.staging / name).parent.mkdir(exist_ok=True)
            Path(output.staging / name).write_text("x")
        output.commit([{"name": "k=1/part"}, {"name": "part"}])
    files = [path for path in (tmp_path / "out").rglob("*") if not path.name.startswith(".")]
    names = sorted(str(path.relative_to(tmp_path / "out")) for path in files)
    assert names == ["k=1", "k=1/part", "part"]
    _make(tmp_path / "out", "new")


@pytest.mark.parametrize("overwrite", [1, 0, None, "ours", "", []])
def test_other_words_are_refused(overwrite: Any) -> None:
    with pytest.raises(OptionsError, match=r"overwrite is .*; write True, False or 'anything'"):
        existing_of(overwrite, None)


@pytest.mark.parametrize("name", ["out[1]", "o*t", "o?t", "[!o]ut"])
def test_names_that_look_like_patterns(name: str, tmp_path: Path) -> None:
    others = [".out1.exoshuffle-0", ".out.exoshuffle-0", ".xut.exoshuffle-0"]
    left = f".{name}.exoshuffle-0"
    for folder in (*others, left):
        (tmp_path / folder).mkdir()
    _make(tmp_path / name, "new")
    assert _names(tmp_path) == sorted([*others, name])


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_parents_go_with_a_failure(failure: type[BaseException], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with (
        pytest.raises(failure),
        OutputDirectory(tmp_path / "there" / "a" / "b" / "out", [], overwrite=False),
    ):
        raise failure
    assert _names(tmp_path) == ["there"]
    assert _names(tmp_path / "there") == []
    _make(tmp_path / "there" / "a" / "b" / "out", "new")
    assert _names(tmp_path / "there" / "a" / "b") == ["out"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_cannot_be_brought_to_disk_is_not_put_in_place(
    overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if overwrite:
        _make(tmp_path / "out", "old")

    def fails(_path: StoredPath) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(replacing, "sync", fails)
    with pytest.raises(OutputError, match=r"cannot put .*out in place: Input/output error"):
        _make(tmp_path / "out", "new", overwrite)
    assert _names(tmp_path) == (["out"] if overwrite else [])
    assert not overwrite or (tmp_path / "out" / "part").read_text() == "old"


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit])
def test_an_end_while_the_directory_is_made_leaves_nothing(
    failure: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body of the with statement is not reached, so nobody else would clean up."""

    def interrupted(folder: StoredPath) -> None:
        assert folder.kind() == "directory"
        raise failure

    monkeypatch.setattr(commit, "locked", interrupted)
    begun: list[int] = []
    with (
        pytest.raises(failure) as caught,
        OutputDirectory(tmp_path / "a" / "out", [], overwrite=False),
    ):
        begun.append(1)
    assert begun == []
    assert _names(tmp_path) == []
    assert str(caught.value) == ("nothing was written" if failure is KeyboardInterrupt else "")


def test_a_place_where_nothing_can_be_made_is_named() -> None:
    begun: list[int] = []
    with (
        pytest.raises(
            OutputError, match=r"cannot write to /proc: [\w ]+; name a place where you may write"
        ),
        OutputDirectory("/proc/out", [], overwrite=False),
    ):
        begun.append(1)
    assert begun == []


def test_parents_with_something_of_others_stay(tmp_path: Path) -> None:
    with OutputDirectory(tmp_path / "a" / "b" / "out", [], overwrite=False):
        (tmp_path / "a" / "precious").write_text("")
    assert _names(tmp_path / "a") == ["precious"]


def test_all_is_on_disk_before_it_is_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    plain: Callable[[StoredPath], None] = replacing.sync

    def sync(path: StoredPath) -> None:
        state = "there" if (tmp_path / "a" / "out" / "part").exists() else "not there"
        synced.append(f"{path.name} {state}".replace(path.name, path.name.split("-")[0]))
        plain(path)

    monkeypatch.setattr(replacing, "sync", sync)
    _make(tmp_path / "a" / "out", "new")
    before = {"part not there", ".exoshuffle not there", ".out.exoshuffle not there"}
    assert set(synced[:3]) == before
    assert synced[2] == ".out.exoshuffle not there"
    assert set(synced[3:]) == {"a there", f"{tmp_path.name.split('-')[0]} there"}
