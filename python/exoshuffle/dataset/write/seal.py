"""The seal of an output directory, by which a later run knows that all its files were written here and are unchanged.

A seal is an empty hidden folder whose name has a hash of the names and sizes of all files. Why a folder: DuckDB reads
any file that a pattern like ``out/*`` matches, and Polars any file in the directory that is not empty. Both skip an
empty folder, as do pandas, pyarrow and Spark. Why not a hash of the contents: an overwrite would have to read all files
that it is about to remove.

Earlier versions left a file ``_SUCCESS`` that lists names and sizes.

A single file has its seal in a mark (an extended attribute): its size and the time of its last change. On a storage
without marks nothing tells who wrote a file, so the file counts as not written here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json

from exoshuffle._native import StoredPath

PREFIX = ".exoshuffle-"
_EARLIER = "_SUCCESS"
#: Instead of a size.
_KINDS: dict[str, object] = {"directory": "/", "other": "?"}
#: The list of an earlier version has no more bytes.
_MOST_BYTES = 2**40
#: Number of hexadecimal digits of the hash.
_DIGITS = 32


def seal_of(folder: StoredPath) -> StoredPath:
    """Returns the path of the seal for a directory in its present state, which has none yet; to be made as a folder.

    Cost: looks at every file once, some microseconds each.
    """
    return folder / _name(_lines(folder))


def is_sealed(folder: StoredPath) -> bool:
    """Whether a directory holds files that were written here, and nothing else."""
    lines = _lines(folder)
    seals = [line for line in lines if line.startswith(PREFIX) and line.endswith("\0/")]
    return any(seal.split("\0")[0] == _name(lines - {seal}) for seal in seals) or _is_listed(
        folder, lines
    )


def state_of(folder: StoredPath) -> frozenset[str]:
    """Returns the names and sizes of all files in a directory, which differ after any change of these."""
    return frozenset(_lines(folder))


def seal_file(path: StoredPath) -> None:
    """Marks a file as written here, where the storage can."""
    with contextlib.suppress(OSError):
        path.set_mark(_state(path))


def is_sealed_file(path: StoredPath) -> bool:
    """Whether a file was written here and is unchanged."""
    try:
        return path.mark() == _state(path)
    except OSError:
        return False


def _state(path: StoredPath) -> bytes:
    num_bytes, mtime_ns = path.stamp()
    return f"{num_bytes} {mtime_ns}".encode()


def _name(lines: set[str]) -> str:
    text = "\n".join(sorted(lines)).encode("utf-8", "surrogateescape")
    return PREFIX + hashlib.sha256(text).hexdigest()[:_DIGITS]


def _lines(folder: StoredPath) -> set[str]:
    """Returns a line for each file below a directory, with its size, and a line for everything else below it."""
    return {f"{name}\0{_KINDS.get(kind, num_bytes)}" for name, kind, num_bytes in folder.below()}


def _is_listed(folder: StoredPath, lines: set[str]) -> bool:
    """Whether a directory holds the files that the list of an earlier version names, and nothing else."""
    try:
        manifest = json.loads((folder / _EARLIER).start(_MOST_BYTES))
        listed = {f"{file['name']}\0{file['bytes']}" for file in manifest["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return {line for line in lines if line.split("\0")[0] != _EARLIER} == listed
