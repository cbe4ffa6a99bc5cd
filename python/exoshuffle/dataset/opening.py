"""Makes a dataset of files, whatever their format, from the options of the functions in ``read``."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from exoshuffle import _native
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.files.paths import local_path
from exoshuffle.dataset.inputs.column_types import ColumnTypes, read_as, schema_of_types
from exoshuffle.dataset.inputs.decoding import listing_memory
from exoshuffle.dataset.inputs.intervals import refused_intervals
from exoshuffle.dataset.inputs.left_out import LeftOut, check_place, checked_bad_rows
from exoshuffle.dataset.inputs.reading import schema_of
from exoshuffle.dataset.inputs.spool import Spool, spooled
from exoshuffle.dataset.tree.nodes import Files, MapNode
from exoshuffle.errors import ExoshuffleError, InputError, OptionsError, shown
from exoshuffle.operators.steps.cast import Cast

if TYPE_CHECKING:
    import pyarrow as pa

#: ``raise``, ``skip`` or a path.
BadRows = str | os.PathLike[str]
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
#: True if folders ``key=value`` are columns, or the types of some of these columns.
Hive: TypeAlias = "bool | ColumnTypes"
#: The words of Arrow about integers that Polars alone has, and what to do about these.
_TOO_WIDE = "Int type with bit width of 128"
_CAST = "Polars has integers of 128 bits: cast them to pl.Int64 or pl.Decimal(38, 0) before"


class ReadArguments(TypedDict, total=False):
    """The arguments of ``_native.ReadOptions`` that readers of files give."""

    format: str | None
    csv_delimiter: str | None
    csv_quote: str | None
    csv_escape: str | None
    csv_comment: str | None
    csv_names: Sequence[str] | None
    csv_skip_rows: int
    csv_null_values: Sequence[str]
    csv_encoding: str | None
    hive: bool
    schema: bytes
    record_bytes: int | None
    key_bytes: int | None


def schema_option(schema: ColumnTypes | None) -> ReadArguments:
    """Returns the option of ``open_dataset`` that gives types of columns.

    Raises:
        OptionsError: A type is none, or has an unknown name.
    """
    if schema is None:
        return {}
    return {"schema": schema_of_types(schema).serialize().to_pybytes()}


def hive_option(hive: Hive, schema: ColumnTypes | None = None) -> ReadArguments:
    """Returns the options of ``open_dataset`` that say what becomes of folders, and give types of columns.

    Raises:
        OptionsError: ``hive`` is no flag and gives no types, or gives a column another type than ``schema``.
    """
    if isinstance(hive, bool):
        return {"hive": hive, **schema_option(schema)}
    if not isinstance(hive, Mapping) and not hasattr(hive, "field"):
        raise OptionsError(
            f"hive is {shown(hive)}; write True, False, or a dict of types such as {{'zip': 'text'}}"
        )
    fields = {field.name: field for field in schema_of_types(hive)}
    for field in () if schema is None else schema_of_types(schema):
        if fields.setdefault(field.name, field).type != field.type:
            raise OptionsError(
                f"schema gives column {field.name!r} the type {field.type}, and hive {fields[field.name].type}; "
                "leave out one"
            )
    return schema_option({name: field.type for name, field in fields.items()})


def open_dataset(
    paths: Paths, options: ReadArguments | None = None, *, bad_rows: BadRows = "raise"
) -> Dataset:
    """Makes a dataset of files; without ``format`` the file extension decides.

    Reads metadata only, except files that ``spooled`` copies.
    """
    options = {**(options or {})}
    action, where = checked_bad_rows(bad_rows)
    listed: Iterable[object] = [paths]
    if not isinstance(paths, str | bytes | os.PathLike | io.IOBase) and isinstance(paths, Iterable):
        listed = paths
    names = [local_path(path) for path in listed]
    if where is not None:
        check_place(where, names)
    casts = _given_types(options)
    spool = spooled(names, options.get("format"))
    options["format"] = spool.format
    read_options = _native.ReadOptions(skip_bad_rows=action == "skip", **options)
    source = _opened(names, read_options, spool)
    skips = action == "skip" and not FORMATS[source.format].tells_types
    left_out = LeftOut(source, where) if skips else None
    files = Files(source, left_out, kept=tuple(spool.files))
    step = Cast(casts) if casts else refused_intervals(source)
    return Dataset(MapNode(files, step) if step else files)


def _given_types(options: ReadArguments) -> tuple[tuple[str, pa.DataType], ...]:
    """Replaces types in ``options`` that no reader of text makes; returns the casts that make them afterwards."""
    import pyarrow as pa

    if options.get("schema") is None:
        return ()
    given = pa.ipc.read_schema(pa.py_buffer(options["schema"]))
    read = pa.schema([field.with_type(read_as(field.type)) for field in given], given.metadata)
    options["schema"] = read.serialize().to_pybytes()
    return tuple(
        (field.name, field.type) for field in given if read.field(field.name).type != field.type
    )


def _opened(names: list[str], read_options: _native.ReadOptions, spool: Spool) -> _native.Source:
    try:
        source = _native.Source(names, read_options, spool.paths, listing_memory())
    except ExoshuffleError as error:
        named = _named_otherwise(names, spool.format)
        hint = _CAST if _TOO_WIDE in str(error) else named or _hint(names)
        raise type(error)(f"{error}; {hint}") if hint else error from None
    if not FORMATS[source.format].tells_types and not schema_of(source).names:
        if not source.bytes or not FORMATS[source.format].names_values:
            raise InputError(f"file {source.files[0]!r} is empty: it has no columns")
        raise InputError(
            f"file {source.files[0]!r} has no columns: none of its first 10,000 rows is an object with keys; give some "
            "by schema= (--column-type), or correct the file"
        )
    return source


def _named_otherwise(names: list[str], given: str | None) -> str | None:
    """Says which format the files have by their names, if it is another one than they were read as."""
    for name in names:
        below = (file for file in Path(name).rglob("[!._]*") if file.is_file())
        file = str(next(below, name)) if os.path.isdir(name) else name
        told = _native.format_of_name(file)
        if given is not None and told is not None and told != given:
            return f"the name of {file!r} says {told}, so read it as that"
    return None


def _hint(names: list[str]) -> str | None:
    """Says how to read some files of a directory, if one of the names is a directory with files of several kinds."""
    for name in filter(os.path.isdir, names):
        files = [file for file in Path(name).rglob("[!._]*") if file.is_file()]
        kinds = Counter(file.suffix for file in files)
        if len(kinds) > 1:
            kind = max(
                kinds,
                key=lambda kind: (_native.format_of_name(f"x{kind}") is not None, kinds[kind]),
            )
            below = "" if all(file.parent == Path(name) for file in files) else "**/"
            pattern = f"{name.rstrip('/')}/{below}*{kind}"
            return f"to read some files of a directory, name them by a pattern: '{pattern}'"
    return None
