"""Datasets from files: one function per format, all with the same path rules.

``paths`` is a path or a list of paths: files, directories (searched recursively; names that start with ``.`` or ``_``
are skipped) and globs (``*``, ``?``, ``**``, ``[...]``). ``~`` is the home directory, and ``file://`` URLs are paths.
"""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from exoshuffle import _native
from exoshuffle.arguments import check_flag, is_whole
from exoshuffle.dataset.column_types import ColumnTypes, schema_of_types
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.inputs import schema_of
from exoshuffle.dataset.logical import Files
from exoshuffle.dataset.paths import local_path
from exoshuffle.dataset.write import COMPRESSIONS
from exoshuffle.errors import ExoshuffleError, InputError, OptionsError

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


def read_csv(
    paths: Paths,
    *,
    delimiter: str = ",",
    header: bool = True,
    schema: ColumnTypes | None = None,
) -> Dataset:
    """Reads CSV files.

    The types of columns that are not given are inferred from the first 10,000 rows of all files together: bool, int64
    (uint64 where that is needed), float64, date, timestamp, else text. Text stays what a number could not hold: leading
    zeros, a plus sign, more digits than the type has. ``1.10`` is the number 1.1, and ``TRUE`` the same as ``true``.
    Timestamps with an offset become timestamps in UTC. Later rows are read as the types that were found, and what is
    not exactly a value of them, as ``007`` is no int64, is an error; a type that is given converts. An empty field is
    null; in quotes, it is an empty string in a column of text.

    Args:
        paths: See the module.
        delimiter: One ASCII character.
        header: Whether the first line of each file names the columns. Without, they are ``column_0``, ``column_1``
            and so on, or have the names of ``schema`` if that is a pyarrow schema.
        schema: Types of some columns or all, by name: a pyarrow schema, or a dict of pyarrow types or of the names
            ``text``, ``int64``, ``uint64``, ``float64``, ``bool``, ``date``, ``timestamp``, ``decimal(p,s)``.

    Raises:
        InputError: As ``read_parquet``; a file is compressed; later, a value that its column's type does not hold.
        OptionsError: ``schema`` names a column that does not exist, or a type that CSV cannot be read as; ``delimiter``
            or ``header`` is none.
    """
    check_flag("header", header)
    if not isinstance(delimiter, str):
        raise OptionsError(f"delimiter is {delimiter!r}; give one ASCII character as text")
    options = schema_option(schema)
    if not header and schema is not None and not isinstance(schema, Mapping):
        options["csv_names"] = schema.names
    return open_dataset(paths, format="csv", csv_delimiter=delimiter, csv_header=header, **options)


def read_json(paths: Paths, *, schema: ColumnTypes | None = None) -> Dataset:
    """Reads JSON lines.

    The types of columns that are not given are inferred from the first 10,000 rows of all files together. Integers that
    int64 and uint64 do not hold, and columns whose numbers would lose digits as float64, become text as they are
    written; strings stay text; a column of nothing but nulls has the null type. Later rows are read as the types that
    were found, and what is not exactly a value of them is an error; a type that is given converts.

    Args:
        paths: See the module.
        schema: As in ``read_csv``; columns that are not among the first 10,000 rows are added.

    Raises:
        InputError: As ``read_csv``.
        OptionsError: ``schema`` has a type that JSON cannot be read as.
    """
    return open_dataset(paths, format="jsonl", **schema_option(schema))


def read_records(paths: Paths, *, record_size: int = 100, key_size: int = 10) -> Dataset:
    """Reads files of fixed-length records with the key at the start, by default those of gensort.

    Sorting such a dataset compares keys as unsigned bytes and needs no column.

    Args:
        paths: See the module.
        record_size: Bytes per record.
        key_size: Bytes of the key.

    Raises:
        InputError: A path is missing, or a file's size is no multiple of the record's.
        OptionsError: A size that is none, or a key larger than the record.
    """
    for name, size in (("record_size", record_size), ("key_size", key_size)):
        if not is_whole(size) or not 1 <= size < 2**31:
            raise OptionsError(f"{name} is {size!r}; it must be a number of bytes from 1 on")
    return open_dataset(paths, format="records", record_bytes=record_size, key_bytes=key_size)


def schema_option(schema: ColumnTypes | None) -> dict[str, Any]:
    """The option of ``open_dataset`` that gives types of columns.

    Raises:
        OptionsError: A type is none, or has a name that is not known.
    """
    if schema is None:
        return {}
    return {"schema": list(schema_of_types(schema).serialize().to_pybytes())}


def open_dataset(paths: Paths, **options: Any) -> Dataset:
    """A dataset over files; without ``format`` the file extension decides. Reads metadata only."""
    listed: Any = paths
    if isinstance(paths, str | bytes | os.PathLike | io.IOBase) or not isinstance(paths, Iterable):
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
