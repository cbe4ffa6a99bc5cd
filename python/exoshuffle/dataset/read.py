"""Datasets from files: one function per format, all with the same path rules.

``paths`` is a path or a list of paths: files, directories (searched recursively; names that start with ``.`` or ``_``
are skipped) and globs (``*``, ``?``, ``**``, ``[...]``). ``~`` is the home directory, and ``file://`` URLs are paths.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from exoshuffle import _native
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.inputs import schema_of
from exoshuffle.dataset.logical import Files
from exoshuffle.dataset.paths import local_path
from exoshuffle.dataset.write import COMPRESSIONS
from exoshuffle.errors import ExoshuffleError, InputError

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def read_parquet(paths: Paths) -> Dataset:
    """Reads Parquet files.

    Raises:
        InputError: A path is missing or empty, a file is corrupt, or schemas differ.
    """
    return open_dataset(paths, format="parquet")


def read_ipc(paths: Paths) -> Dataset:
    """Reads Arrow IPC files (file or stream format, also known as Feather V2).

    Raises:
        InputError: As ``read_parquet``.
    """
    return open_dataset(paths, format="arrow")


def read_csv(paths: Paths, *, delimiter: str = ",") -> Dataset:
    """Reads CSV files with a header; types are inferred from the first 10,000 rows, empty fields are null.

    Args:
        paths: See the module.
        delimiter: One ASCII character.

    Raises:
        InputError: As ``read_parquet``; later, a value that is not of the inferred type.
    """
    return open_dataset(paths, format="csv", csv_delimiter=delimiter)


def read_json(paths: Paths) -> Dataset:
    """Reads JSON lines; types are inferred from the first 10,000 rows.

    Raises:
        InputError: As ``read_csv``.
    """
    return open_dataset(paths, format="jsonl")


def read_records(paths: Paths, *, record_size: int = 100, key_size: int = 10) -> Dataset:
    """Reads files of fixed-length records with the key at the start, by default those of gensort.

    Sorting such a dataset compares keys as unsigned bytes and needs no column.

    Args:
        paths: See the module.
        record_size: Bytes per record.
        key_size: Bytes of the key.

    Raises:
        InputError: A path is missing, or a file's size is no multiple of the record's.
    """
    return open_dataset(paths, format="records", record_bytes=record_size, key_bytes=key_size)


def open_dataset(paths: Paths, **options: Any) -> Dataset:
    """A dataset over files; without ``format`` the file extension decides. Reads metadata only."""
    listed: Any = paths
    if isinstance(paths, str | bytes | os.PathLike) or not isinstance(paths, Iterable):
        listed = [paths]
    names = [local_path(path) for path in listed]
    read_options = json.dumps({name: value for name, value in options.items() if value is not None})
    return Dataset(Files(_opened(names, read_options)))


def _opened(names: list[str], read_options: str) -> Any:
    try:
        source = _native.Source(names, read_options)
    except ExoshuffleError as error:
        hint = _hint(names)
        raise type(error)(f"{error}; {hint}") if hint else error from None
    if source.format in ("csv", "jsonl") and not schema_of(source).names:
        raise InputError(f"file {source.files[0]!r} is empty: it has no columns")
    return source


def _hint(names: list[str]) -> str | None:
    """How to read some files of a directory, if one of these has files of several kinds."""
    for name in filter(os.path.isdir, names):
        files = [file for file in Path(name).rglob("[!._]*") if file.is_file()]
        kinds = Counter(file.suffix for file in files)
        if len(kinds) > 1:
            kind = max(kinds, key=lambda kind: (kind[1:] in COMPRESSIONS, kinds[kind]))
            below = "" if all(file.parent == Path(name) for file in files) else "**/"
            pattern = f"{name.rstrip('/')}/{below}*{kind}"
            return f"to read some files of a directory, name them by a pattern: '{pattern}'"
    return None
