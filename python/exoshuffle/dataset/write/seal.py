"""The seal of an output directory, by which a later run knows that all its files were written here and are unchanged.

A seal is an empty hidden folder whose name has a hash of the names and sizes of all files. Why a folder: DuckDB reads
any file that a pattern like ``out/*`` matches, and Polars any file in the directory that is not empty. Both skip an
empty folder, as do pandas, pyarrow and Spark. Why not a hash of the contents: an overwrite would have to read all files
that it is about to remove.

Earlier versions left a file ``_SUCCESS`` that lists names and sizes.

A single file has its seal in an extended attribute: its size and the time of its last change. On a file system without
these attributes nothing tells who wrote a file, so the file counts as not written here.
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
#: Number of hexadecimal digits of the hash.
_DIGITS = 32


def seal_of(folder: Path) -> Path:
    """Returns the path of the seal for a directory in its present state, which has none yet; to be made as a folder.

    Cost: looks at every file once, some microseconds each.
    """
    return folder / _name(_lines(folder))


def is_sealed(folder: Path) -> bool:
    """Whether a directory holds files that were written here, and nothing else."""
    lines = _lines(folder)
    seals = [line for line in lines if line.startswith(PREFIX) and line.endswith("\0/")]
    return any(seal.split("\0")[0] == _name(lines - {seal}) for seal in seals) or _is_listed(
        folder, lines
    )


def state_of(folder: Path) -> frozenset[str]:
    """Returns the names and sizes of all files in a directory, which differ after any change of these."""
    return frozenset(_lines(folder))


def seal_file(path: Path) -> None:
    """Marks a file as written here, where the file system can."""
    # Python has the call on Linux only.
    with contextlib.suppress(OSError, AttributeError):
        os.setxattr(path, _ATTRIBUTE, _state(path))


def is_sealed_file(path: Path) -> bool:
    """Whether a file was written here and is unchanged."""
    try:
        return os.getxattr(path, _ATTRIBUTE) == _state(path)
    except (OSError, AttributeError):
        return False


def _state(path: Path) -> bytes:
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}".encode()


def _name(lines: set[str]) -> str:
    text = "\n".join(sorted(lines)).encode("utf-8", "surrogateescape")
    return PREFIX + hashlib.sha256(text).hexdigest()[:_DIGITS]


def _lines(folder: Path) -> set[str]:
    """Returns a line for each file below a directory, with its size, and a line for everything else below it."""
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
    """Whether a directory holds the files that the list of an earlier version names, and nothing else."""
    try:
        manifest = json.loads((folder / _EARLIER).read_bytes())
        listed = {f"{file['name']}\0{file['bytes']}" for file in manifest["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return {line for line in lines if line.split("\0")[0] != _EARLIER} == listed
