"""Reads TOML files of figures, each of which says where it comes from."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from exoshuffle.errors import InputError, OptionsError, shown, unknown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Table = dict[str, Any]
#: Keys that are no figures.
_WORDS = ("name", "date", "currency", "region", "sources")


def read(path: Path) -> Table:
    """Returns the table in a file.

    Raises:
        InputError: There is no such file, or it is no TOML.
    """
    try:
        with path.open("rb") as file:
            table: Table = tomllib.load(file)
            return table
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; name a file that exists"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is no TOML: {error}; mend that line") from error


def known_path(folder: Path, kind: str, name: str) -> Path:
    """Returns the file of a name of the package, or the path that the name is.

    Raises:
        OptionsError: It is neither.
    """
    names = sorted(path.stem for path in folder.glob("*.toml"))
    if name in names:
        return folder / f"{name}.toml"
    if name.endswith(".toml"):
        return Path(name)
    raise OptionsError(unknown(kind, name, names))


def check_sources(path: Path, table: Table) -> None:
    """Checks that every figure says where it comes from, and that the file has a date.

    Raises:
        OptionsError: A figure has no source, or there is no date.
    """
    if not isinstance(table.get("date"), dt.date):
        raise OptionsError(
            f"{path.name} has no date; figures and prices change, so write the day they are of: date = 2022-11-10"
        )
    sources = table.get("sources", {})
    for key in figures(table):
        if not sources.get(key):
            raise OptionsError(
                f"{path.name} does not say where {key} comes from; add it to [sources]"
            )


def figures(table: Mapping[str, object], before: str = "") -> Iterator[str]:
    """Returns the names of the figures of a table: ``disk.num_disks`` for those within another table."""
    for key, value in table.items():
        if key in _WORDS and not before:
            continue
        name = f"{before}.{key}" if before else key
        if isinstance(value, Mapping):
            yield from figures(value, name)
        else:
            yield name


def check_keys(where: str, table: Mapping[str, object], known: Sequence[str]) -> None:
    """Checks that a table has no keys that mean nothing.

    Raises:
        OptionsError: It has.
    """
    for key in table:
        if key not in known:
            raise OptionsError(f"{where}: {unknown('key', key, list(known))}")


def section(where: str, table: Mapping[str, object], key: str) -> Table:
    """Returns the table of a key.

    Raises:
        OptionsError: There is none.
    """
    value = table.get(key)
    if not isinstance(value, Mapping):
        other = "" if value is None else f", but {shown(value)}"
        raise OptionsError(f"{where} has no table [{key}]{other}; add it")
    return dict(value)
