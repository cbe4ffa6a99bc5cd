"""Committing on a storage that is no disk: objects in memory, which builds with debug assertions have for tests.

So nothing in the commit of an output assumes a path of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from exoshuffle._native import StoredPath
from exoshuffle.dataset.write import replacing
from exoshuffle.dataset.write.commit import Output
from exoshuffle.dataset.write.directory import OutputDirectory
from exoshuffle.dataset.write.existing import Existing
from exoshuffle.dataset.write.file import OutputFile
from exoshuffle.errors import OutputError
from exoshuffle.operators.core.sinks import PartFile

ROOT = "memory://commits"


@pytest.fixture
def root() -> Iterator[StoredPath]:
    root = StoredPath(ROOT)
    root.create_directories()
    yield root
    root.remove_all()


def _add(path: StoredPath, content: str) -> PartFile:
    file = path.create()
    file.write(content.encode())
    file.finish()
    return {"name": path.name, "rows": 1, "bytes": len(content), "crc32": 0}


def _make(output: Output, *contents: str) -> list[str]:
    """Commits files, and returns their names."""
    with output:
        files = [
            _add(output.staging / f"part-{number:05}.csv", content)
            for number, content in enumerate(contents)
        ]
        return [file["name"] for file in output.commit(files)]


def _directory(root: StoredPath, overwrite: Existing = False) -> OutputDirectory:
    return OutputDirectory(root / "a" / "out", ["/somewhere/else"], overwrite)


def _read(folder: StoredPath) -> dict[str, str]:
    """Returns the files in a directory, without its seal."""
    found = sorted(name for name, kind, _ in folder.below() if kind == "file")
    return {name: (folder / name).start(100).decode() for name in found}


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_directory_is_made_replaced_and_added_to(
    can_exchange: bool, root: StoredPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_exchange:
        monkeypatch.setattr(replacing, "exchange", lambda *_: False)
    out = root / "a" / "out"
    _make(_directory(root), "x", "y")
    with pytest.raises(OutputError, match="exists"):
        _directory(root)
    assert _read(out) == {"part-00000.csv": "x", "part-00001.csv": "y"}
    _make(_directory(root, overwrite=True), "z")
    assert _read(out) == {"part-00000.csv": "z"}
    assert _make(_directory(root, "append"), "1", "2") == ["part-00001.csv", "part-00002.csv"]
    assert _read(out) == {"part-00000.csv": "z", "part-00001.csv": "1", "part-00002.csv": "2"}
    # Nothing else is left, and the seal is that of all three.
    assert (root / "a").names() == ["out"]
    _add(out / "of-others.csv", "?")
    with pytest.raises(OutputError, match="did not write"):
        _directory(root, overwrite=True)


def test_what_is_given_up_leaves_nothing(root: StoredPath) -> None:
    with _directory(root) as output:
        _add(output.staging / "part-00000.csv", "x")
    assert root.names() == []


def test_what_a_killed_run_left_is_removed_and_what_a_running_one_has_is_not(
    root: StoredPath,
) -> None:
    left = root / "a" / ".out.exoshuffle-0123"
    left.create_directories()
    with _directory(root) as other:
        assert left.kind() is None
        _make(_directory(root), "x")
        assert other.staging.kind() == "directory"


def test_a_file_is_made_and_replaced_if_it_is_ours(root: StoredPath) -> None:
    place = root / "out.csv"
    for content, overwrite in (("x", False), ("y", True)):
        _make(OutputFile(place, [], overwrite, file=""), content)
        assert _read(root) == {"out.csv": content}
    with pytest.raises(OutputError, match="exists"):
        OutputFile(place, [], overwrite=False, file="")
    place.remove()
    _add(place, "of others")
    with pytest.raises(OutputError, match="was not written by exoshuffle"):
        OutputFile(place, [], overwrite=True, file="")
