"""The seal of an output directory: how a later run knows that all there is in it was written here, and is unchanged.

A seal is an empty hidden folder whose name has a hash of the names and sizes of all files. Why a folder: DuckDB reads
any file that a pattern like ``out/*`` matches, Polars any in the directory that is not empty; both pass over an empty
folder, as pandas, pyarrow and Spark do. Why not the contents of files: an overwrite would read all that it is about to
remove.

Earlier versions left a file ``_SUCCESS`` that lists names and sizes.

A single file has its seal in an extended attribute: its size and when it was written. Where a file system has none of
these, nobody can tell who wrote a file, and it counts as one of somebody else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

PREFIX = ".exoshuffle-"
_EARLIER = "_SUCCESS"
_ATTRIBUTE = "user.exoshuffle"
#: Of the hash, as hexadecimal digits.
_DIGITS = 32


def seal_of(folder: Path) -> Path:
    """The path that the seal of a directory without one has, as it is now; to be made as a folder.

    Cost: looks at every file once, some microseconds each.
    """
    return folder / _name(_lines(folder))


def is_sealed(folder: Path) -> bool:
    """Whether a directory holds what was written here, and nothing else."""
    lines = _lines(folder)
    seals = [line for line in lines if line.startswith(PREFIX) and line.endswith("\0/")]
    return any(seal.split("\0")[0] == _name(lines - {seal}) for seal in seals) or _is_listed(
        folder, lines
    )


def seal_file(path: Path) -> None:
    """Marks a file as one that was written here, where the file system can."""
    with contextlib.suppress(OSError):
        os.setxattr(path, _ATTRIBUTE, _state(path))


def is_sealed_file(path: Path) -> bool:
    """Whether a file was written here, and is unchanged."""
    try:
        return os.getxattr(path, _ATTRIBUTE) == _state(path)
    except OSError:
        return False


def _state(path: Path) -> bytes:
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}".encode()


def _name(lines: set[str]) -> str:
    text = "\n".join(sorted(lines)).encode("utf-8", "surrogateescape")
    return PREFIX + hashlib.sha256(text).hexdigest()[:_DIGITS]


def _lines(folder: Path) -> set[str]:
    """A line for each file below a directory, with its size, and for whatever else there is."""
    return set(_found(folder, ""))


def _found(folder: Path, within: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = within + entry.name
            if entry.is_file(follow_symlinks=False):
                yield f"{name}\0{entry.stat(follow_symlinks=False).st_size}"
            elif entry.is_dir(follow_symlinks=False):
                yield f"{name}\0/"
                yield from _found(Path(entry.path), f"{name}/")
            else:
                yield f"{name}\0?"


def _is_listed(folder: Path, lines: set[str]) -> bool:
    """Whether a directory holds what an earlier version says there is, and nothing else."""
    try:
        manifest = json.loads((folder / _EARLIER).read_bytes())
        listed = {f"{file['name']}\0{file['bytes']}" for file in manifest["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return {line for line in lines if line.split("\0")[0] != _EARLIER} == listed
