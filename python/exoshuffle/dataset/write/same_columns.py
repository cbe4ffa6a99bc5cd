"""Refuses to append rows to files whose columns are others, before any work.

Guarantee: names agree, and types where files tell them. Any order of columns is right, because readers match columns by
name. Dictionaries are their values, and views are plain text, because readers take them together. Where files do not
tell types, names are compared. Formats that name each value are not: they leave out names without values.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle._native import StoredPath
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.inputs.reading import schema_of
from exoshuffle.errors import OutputError, differing
from exoshuffle.operators.arrow_values import no_rows
from exoshuffle.operators.batches import movable_type
from exoshuffle.operators.sql.relational import plain_type

if TYPE_CHECKING:
    import pyarrow as pa


def check_columns(
    name: str, within: StoredPath, added: pa.Schema, file_format: str, folders: Sequence[str]
) -> None:
    """Raises ``OutputError`` if rows cannot be read together with a file that is there.

    Args:
        name: The name of the file within the directory, one of many that are alike.
        within: The directory that is added to.
        added: The columns to be added.
        file_format: The format that they are written in.
        folders: The columns that become folders, as ``key=value``.
    """
    there = [folder.partition("=")[0] for folder in PurePosixPath(name).parent.parts]
    if there != list(folders):
        raise OutputError(
            f"output {within} has files by {_listed(there)}, and these would be by {_listed(folders)}; give the same "
            "partition_by, or name another directory"
        )
    known = FORMATS[file_format]
    if not known.holds_tables or known.names_values:
        return
    new = _columns(_as_written(added, file_format, folders), file_format)
    existing = _columns(_schema_in(within / name, file_format), file_format)
    if existing != new:
        of_files, of_rows = differing(existing, new)
        raise OutputError(
            f"output {within} has files of {of_files}, and these rows are {of_rows}; give them these names and types "
            "by select() and cast(), or name another directory"
        )


def _as_written(schema: pa.Schema, file_format: str, folders: Sequence[str]) -> pa.Schema:
    """Returns the schema that files of such rows have: formats hold some types in those of their own."""
    import pyarrow as pa

    kept = pa.schema([field for field in schema if field.name not in folders])
    with tempfile.TemporaryDirectory() as folder:
        rows = _native.Rows.from_batches(no_rows(kept))
        rows.write_files(folder, 0, _native.WriteOptions(file_format)).wait()
        (file,) = Path(folder).iterdir()
        return _schema_in(file, file_format)


def _schema_in(file: os.PathLike[str], file_format: str) -> pa.Schema:
    options = _native.ReadOptions(format=file_format, hive=False)
    return schema_of(_native.Source([os.fspath(file)], options, None))


def _columns(schema: pa.Schema, file_format: str) -> list[str]:
    """Returns the columns as text, in one order."""
    if not FORMATS[file_format].tells_types:
        return sorted(schema.names)
    return sorted(f"{field.name}: {movable_type(plain_type(field.type))}" for field in schema)


def _listed(folders: Sequence[str]) -> str:
    return ", ".join(folders) or "no column"
