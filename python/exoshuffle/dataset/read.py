"""Datasets from files: one function per format, all with the same path rules.

``paths`` is a path or a list of paths: files, directories and globs (``*``, ``?``, ``**``, ``[...]``). Directories are
searched recursively; names that start with ``.`` or ``_`` are skipped. ``~`` is the home directory, and ``file://``
URLs are paths.

Folders named ``key=value`` in the path of a file, as given or found, become columns behind those of the file. A column
of the file with the same name is not read. Keys and values are percent-decoded; ``__HIVE_DEFAULT_PARTITION__`` is null.
A column is int64, date or timestamp if all its values are written so, else text: ``007`` stays text. A filter on such
columns leaves out files before any of their rows is read. ``hive=False`` makes no columns of folders, and
``hive={"zip": "text"}`` gives types to some.

CSV and JSON lines may be compressed with gzip or zstd, whatever their names; ``-`` is standard input. Both are copied
to the spill directories when the dataset is made (``spool``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exoshuffle.arguments import check_flag, is_whole
from exoshuffle.dataset.arguments_elsewhere import refuse_arguments
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.inputs.column_types import ColumnTypes
from exoshuffle.dataset.opening import BadRows, Hive, Paths, hive_option, open_dataset
from exoshuffle.errors import OptionsError, shown

#: The names that ``exoshuffle`` and ``exoshuffle.dataset`` take over.
__all__: list[str] = [
    "read_binary",
    "read_csv",
    "read_ipc",
    "read_json",
    "read_parquet",
    "read_records",
    "read_text",
]


def read_parquet(paths: Paths, *, hive: Hive = True, **others: object) -> Dataset:
    """Reads Parquet files.

    Args:
        paths: See the module.
        hive: See the module.
        **others: Arguments of other libraries; the error says what to write.

    Raises:
        InputError: A path is missing or empty, a file is corrupt, schemas differ, or the keys of folders ``key=value``
            differ between files.
        OptionsError: ``hive`` is something else, or gives a type to a column that no folder names.
    """
    refuse_arguments("read_parquet", others)
    return open_dataset(paths, {"format": "parquet", **hive_option(hive)})


def read_ipc(paths: Paths, *, hive: Hive = True) -> Dataset:
    """Reads Arrow IPC files (file or stream format, also known as Feather V2).

    Args:
        paths: See the module.
        hive: See the module.

    Raises:
        InputError: As ``read_parquet``.
        OptionsError: As ``read_parquet``.
    """
    return open_dataset(paths, {"format": "arrow", **hive_option(hive)})


def read_csv(  # noqa: PLR0913  the options that peers have, by keyword
    paths: Paths,
    *,
    delimiter: str | None = None,
    header: bool = True,
    schema: ColumnTypes | None = None,
    quote: str | None = '"',
    escape: str | None = None,
    comment: str | None = None,
    null_values: str | Sequence[str] = (),
    skip_rows: int = 0,
    encoding: str = "utf-8",
    bad_rows: BadRows = "raise",
    hive: Hive = True,
    **others: object,
) -> Dataset:
    """Reads CSV files.

    Types that are not given are inferred from the first 10,000 rows of all files together. They are bool, int64 (uint64
    where that is needed), float64, date, time, timestamp, else text. Values that a number could not hold stay text:
    those with leading zeros, a plus sign, or more digits than the type has. ``1.10`` is the number 1.1, and ``TRUE``
    the same as ``true``. Dates are ``2024-01-31``, times ``12:34:56``, and timestamps both, with ``T`` or a space
    between; ``01/02/2024`` is text. Timestamps with an offset become timestamps in UTC. Later rows are read as the
    inferred types. A text that is not exactly a value of its type is an error, as ``007`` is no int64. A type that is
    given converts. An empty field is null; in quotes, it is an empty string in a column of text.

    Lines end in LF, CRLF or CR, mixed or not. A quote opens a value only at its start. Errors name file, line and
    column: a quote that is never closed, text behind a closing quote, and more or fewer values than columns.

    Args:
        paths: See the module.
        delimiter: One ASCII character; default: a comma, and a tab in files whose names end in ``.tsv``. Without it, a
            file of one column is refused if its header and first rows have equally many of another one. It is read if
            ``schema`` names the column.
        header: Whether the first line of each file names the columns. Without one, they are ``column_0``, ``column_1``
            and so on, or have the names of ``schema`` if that is a pyarrow schema.
        schema: Types of some columns or all, by name. It is a pyarrow schema, or a dict of pyarrow types or of the
            names ``text``, ``int64``, ``uint64``, ``float64``, ``bool``, ``date``, ``time``, ``timestamp``,
            ``decimal(p,s)``. Other types that ``cast`` takes are known, too: ``"int8"``, ``int``, ``str``.
        quote: One ASCII character, around values that hold delimiters, line ends or quotes; None: nothing is a quote.
        escape: One ASCII character that, within quotes, stands before a quote which is part of the value. A doubled
            quote is part of the value in any case.
        comment: One ASCII character: lines that begin with it are left out.
        null_values: Texts that are null in all columns, in quotes or not, beside an empty field.
        skip_rows: Number of lines to leave out at the start of each file, which must have as many.
        encoding: ``utf-8``, ``latin-1`` or ``windows-1252``.
        bad_rows: Says what becomes of rows that cannot be read: ``raise`` an error at the first one, or ``skip`` them.
            With the path of a CSV file they are written there, with file, line, reason and text of each. Results say
            how many there were. Counting or writing them costs another pass over the files.
        hive: See the module; ``schema`` may give the types of such columns, too.
        **others: As in ``read_parquet``.

    Raises:
        InputError: As ``read_parquet``; a file is in UTF-16, or compressed otherwise than with gzip or zstd; it
            seems to have another delimiter. Later, a row cannot be read.
        OptionsError: ``schema`` names a column that does not exist, or a type that CSV cannot be read as. Or another
            option has a value that cannot work.
    """
    refuse_arguments("read_csv", others)
    check_flag("header", header)
    if not is_whole(skip_rows) or not 0 <= skip_rows < 2**63:
        raise OptionsError(
            f"skip_rows is {shown(skip_rows)}; it must be a number of lines from 0 on"
        )
    options = hive_option(hive, schema)
    characters = {"delimiter": delimiter, "quote": quote, "escape": escape, "comment": comment}
    for name, character in characters.items():
        if character is not None and not isinstance(character, str):
            raise OptionsError(f"{name} is {shown(character)}; give one ASCII character as text")
    if not isinstance(encoding, str):
        raise OptionsError(f"encoding is {shown(encoding)}; give its name, such as 'utf-8'")
    if not header:
        options["csv_names"] = [] if schema is None or isinstance(schema, Mapping) else schema.names
    options |= {
        "format": "csv",
        "csv_delimiter": delimiter,
        "csv_quote": "" if quote is None else quote,
        "csv_escape": escape,
        "csv_comment": comment,
        "csv_skip_rows": int(skip_rows),
        "csv_null_values": _texts("null_values", null_values),
        "csv_encoding": encoding,
    }
    return open_dataset(paths, options, bad_rows=bad_rows)


def _texts(name: str, texts: str | Sequence[str]) -> list[str]:
    """Returns the texts of an option that is a text or several."""
    given = [texts] if isinstance(texts, str) else texts
    if not isinstance(given, list | tuple) or not all(isinstance(text, str) for text in given):
        raise OptionsError(f"{name} is {shown(texts)}; give a text or a list of texts")
    return list(given)


def read_json(
    paths: Paths,
    *,
    schema: ColumnTypes | None = None,
    bad_rows: BadRows = "raise",
    hive: Hive = True,
    **others: object,
) -> Dataset:
    """Reads JSON lines.

    Types that are not given are inferred from the first 10,000 rows of all files together. Integers that int64 and
    uint64 do not hold, and columns whose numbers would lose digits as float64, become text as they are written. Strings
    stay text; a column of nothing but nulls has the null type. Later rows are read as the inferred types; a value that
    is not exactly one of its type is an error. A type that is given converts. A line is an object.

    Args:
        paths: See the module.
        schema: As in ``read_csv``; columns that are not among the first 10,000 rows are added.
        bad_rows: As in ``read_csv``.
        hive: As in ``read_csv``.
        **others: As in ``read_parquet``.

    Raises:
        InputError: As ``read_csv``.
        OptionsError: ``schema`` has a type that JSON cannot be read as; ``bad_rows`` is not ``raise``, ``skip`` or a
            path.
    """
    refuse_arguments("read_json", others)
    return open_dataset(paths, {"format": "jsonl", **hive_option(hive, schema)}, bad_rows=bad_rows)


def read_records(paths: Paths, *, record_size: int = 100, key_size: int = 10) -> Dataset:
    """Reads files of fixed-length records with the key at the start, by default those of gensort.

    Sorting such a dataset compares keys as unsigned bytes and needs no column.

    Args:
        paths: See the module.
        record_size: Bytes per record.
        key_size: Bytes of the key.

    Raises:
        InputError: A path is missing, or a file's size is no multiple of the record's.
        OptionsError: A size is none, or the key is larger than the record.
    """
    for name, size in (("record_size", record_size), ("key_size", key_size)):
        if not is_whole(size) or not 1 <= size < 2**31:
            raise OptionsError(f"{name} is {size!r}; it must be a number of bytes from 1 on")
    return open_dataset(
        paths, {"format": "records", "record_bytes": record_size, "key_bytes": key_size}
    )


def read_text(paths: Paths, *, hive: Hive = True) -> Dataset:
    """Reads plain text: each line is a row, in one column ``text``.

    LF and CRLF end lines. Every line is a row, also an empty one: ``filter("text <> ''")`` leaves these out.
    Text is UTF-8. Files may be compressed with gzip or zstd.

    Args:
        paths: See the module.
        hive: See the module.

    Raises:
        InputError: As ``read_parquet``; a line is no UTF-8, or longer than memory has room for. The error names it.
        OptionsError: As ``read_parquet``.
    """
    return open_dataset(paths, {"format": "text", **hive_option(hive)})


def read_binary(paths: Paths, *, hive: Hive = True) -> Dataset:
    """Reads whole files: each is a row, with its ``path`` (text) and its ``bytes`` (binary).

    Files are in the order of their paths. Their bytes are read only where the column is needed, one file at a time in
    each task: ``select("path")`` lists files.

    Args:
        paths: See the module.
        hive: See the module.

    Raises:
        InputError: As ``read_parquet``, or a file has 2 GiB or more.
        MemoryLimitError: A file does not fit into the memory limit; the error says which limit would do.
        OptionsError: As ``read_parquet``.
    """
    return open_dataset(paths, {"format": "binary", **hive_option(hive)})
