"""Adds files to a directory that was written here, so that they appear at once, and the old ones never go.

The new directory is made beside the old one. It has the old files under their names, as hard links, which copy nothing,
and the new files behind them. Parts are numbered on from the last. It then takes the place of the old one as in an
overwrite, with a seal of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from exoshuffle._native import StoredPath
from exoshuffle.dataset.write import replacing
from exoshuffle.dataset.write.seal import PREFIX
from exoshuffle.errors import OutputError
from exoshuffle.operators.core.sinks import PartFile

_PART = re.compile(r"part-(\d+)(.*)", re.DOTALL)


def numbered_on(
    files: Sequence[PartFile], staging: StoredPath, existing: StoredPath
) -> list[PartFile]:
    """Renames new parts, so that they follow those that exist; returns them under their new names.

    Raises:
        OutputError: A directory whose files have another ending, which no reader would take together.
    """
    names = [name for name in _files(existing) if not PurePosixPath(name).name.startswith(".")]
    first = max(map(_number, names), default=-1) + 1
    endings = {PurePosixPath(file["name"]).suffix for file in files}
    other = next((name for name in names if PurePosixPath(name).suffix not in endings), None)
    if other is not None:
        raise OutputError(
            f"output {existing} has {other}, and {', '.join(sorted(endings))} files cannot be read together with it; "
            "append in its format, or name another directory"
        )
    made: dict[str, str] = {}
    # The last comes first, because its new name may be the old name of another.
    for name in sorted((file["name"] for file in files), key=_number, reverse=True):
        found = _PART.fullmatch(PurePosixPath(name).name)
        assert found is not None, name
        new = PurePosixPath(name).with_name(f"part-{int(found[1]) + first:05}{found[2]}")
        (staging / name).rename(staging / new)
        made[name] = str(new)
    return [file | {"name": made[file["name"]]} for file in files]


def first_file(existing: StoredPath, ending: str) -> str | None:
    """Returns the name of a file in a directory that has a seal, with an ending; None where there is none."""
    if existing.kind() != "directory":
        return None
    names = (name for name in _files(existing) if not PurePosixPath(name).name.startswith("."))
    return next((name for name in names if name.endswith(f".{ending}")), None)


def link_all(existing: StoredPath, staging: StoredPath) -> list[str]:
    """Gives the files of a directory names in another one as well; returns the names, without those of seals.

    Raises:
        OutputError: The file system has no hard links.
    """
    names = _files(existing)
    try:
        for name in names:
            place = staging / name
            place.parents[0].create_directories()
            replacing.link(existing / name, place)
    except OSError as error:
        raise OutputError(
            f"cannot append to {existing}: {error.strerror}, and the files stay under their names by hard links; write "
            "to another directory"
        ) from error
    return names


def _number(name: str) -> int:
    """Returns the number of a part; -1 of other files."""
    found = _PART.fullmatch(PurePosixPath(name).name)
    return int(found[1]) if found else -1


def _files(folder: StoredPath) -> list[str]:
    """Returns the files below a directory that has a seal: seals are folders."""
    found = sorted(name for name, kind, _ in folder.below() if kind != "directory")
    return [name for name in found if not _is_in_seal(name)]


def _is_in_seal(name: str) -> bool:
    return any(folder.startswith(PREFIX) for folder in name.split("/")[:-1])
