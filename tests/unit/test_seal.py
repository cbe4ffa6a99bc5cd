"""The seal tells directories that were written here, and are unchanged, from all others."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from exoshuffle._native import StoredPath
from exoshuffle.dataset.write.directory import OutputDirectory
from exoshuffle.dataset.write.seal import PREFIX, is_sealed, seal_of


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A directory with files below it, sealed."""
    folder = tmp_path / "out"
    (folder / "k=1").mkdir(parents=True)
    (folder / "part-0").write_text("abc")
    (folder / "k=1" / "part-1").write_text("de")
    seal_of(StoredPath(folder)).create_directory()
    return folder


def test_it_is_empty_and_hidden(sealed: Path) -> None:
    (seal,) = sealed.glob(".*")
    assert seal.name.startswith(PREFIX)
    assert seal.is_dir()
    assert not any(seal.iterdir())


def test_it_holds_wherever_the_directory_goes(sealed: Path, tmp_path: Path) -> None:
    assert is_sealed(StoredPath(sealed))
    assert is_sealed(StoredPath(sealed.rename(tmp_path / "elsewhere")))


def _seal_with_a_file_inside(folder: Path) -> None:
    (seal,) = folder.glob(".*")
    (seal / "precious").write_text("")


def _seal_that_is_a_file(folder: Path) -> None:
    (seal,) = folder.glob(".*")
    seal.rmdir()
    seal.touch()


BREAKS: dict[str, Callable[[Path], object]] = {
    "a file more": lambda out: (out / "precious").write_text("x"),
    "an empty file more": lambda out: (out / "precious").touch(),
    "a hidden file more": lambda out: (out / ".precious").touch(),
    "a file more below": lambda out: (out / "k=1" / "precious").touch(),
    "a directory more": lambda out: (out / "precious").mkdir(),
    "a link more": lambda out: (out / "precious").symlink_to("part-0"),
    "a pipe more": lambda out: os.mkfifo(out / "precious"),
    "a file less": lambda out: (out / "part-0").unlink(),
    "a file that grew": lambda out: (out / "part-0").write_text("abcd"),
    "a file that was renamed": lambda out: (out / "part-0").rename(out / "part-9"),
    "a link in the place of a file": lambda out: (
        (out / "part-0").rename(out.parent / "moved"),
        (out / "part-0").symlink_to(out.parent / "moved"),
    ),
    "a directory that looks like a seal": lambda out: (out / f"{PREFIX}mine").mkdir(),
    "a file that looks like a seal": lambda out: (out / f"{PREFIX}mine").touch(),
    "a seal with something in it": _seal_with_a_file_inside,
    "a seal that is a file": _seal_that_is_a_file,
    "no seal": lambda out: next(out.glob(".*")).rmdir(),
    "a marker of another program": lambda out: next(out.glob(".*")).rename(out / "_SUCCESS"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_breaks_it(name: str, sealed: Path) -> None:
    BREAKS[name](sealed)
    assert not is_sealed(StoredPath(sealed))


def test_directories_of_others_have_none(tmp_path: Path) -> None:
    assert not is_sealed(StoredPath(tmp_path))
    (tmp_path / "thesis.txt").write_text("years of work")
    assert not is_sealed(StoredPath(tmp_path))


@pytest.mark.parametrize(
    ("manifest", "more", "is_ours"),
    [
        ({"rows": 1, "files": [{"name": "part-0", "bytes": 3, "rows": 1, "crc32": 5}]}, [], True),
        ({"files": [{"name": "part-0", "bytes": 3}]}, ["precious"], False),
        ({"files": [{"name": "part-0", "bytes": 4}]}, [], False),
        ({"files": [{"name": "part-0", "bytes": 3}, {"name": "part-1", "bytes": 3}]}, [], False),
        ({"files": []}, [], False),
        ({"files": 3}, [], False),
        ([1], [], False),
        ("", [], False),
    ],
)
def test_results_of_earlier_versions(
    manifest: object, more: list[str], is_ours: bool, tmp_path: Path
) -> None:
    (tmp_path / "part-0").write_text("abc")
    (tmp_path / "_SUCCESS").write_text(json.dumps(manifest) if manifest else "")
    for name in more:
        (tmp_path / name).touch()
    assert is_sealed(StoredPath(tmp_path)) == is_ours


def test_every_output_has_one(tmp_path: Path) -> None:
    with OutputDirectory(tmp_path / "out", [], overwrite=False) as output:
        Path(output.staging / "part").write_text("new")
        output.commit([{"name": "part"}])
    assert is_sealed(StoredPath(tmp_path / "out"))
