"""Adds files to a directory that was written here, so that they appear at once, and the old ones never go.

The new directory is made beside the old one. It has the old files under their names, as hard links, which copy nothing,
and the new files behind them: parts are numbered on from the last. It then takes the place of the old one as in an
overwrite, with a seal of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from exoshuffle.dataset.write.seal import PREFIX
from exoshuffle.errors import OutputError
from exoshuffle.operators.core.sinks import PartFile

_PART = re.compile(r"part-(\d+)(.*)", re.DOTALL)


def numbered_on(files: Sequence[PartFile], staging: Path, existing: Path) -> list[PartFile]:
    """Renames new parts, so that they follow those that exist; returns them under their new names.

    Raises:
        OutputError: A directory whose files have another ending, which no reader would take together.
    """
    names = [name for name in _files(existing) if not Path(name).name.startswith(".")]
    first = max(map(_number, names), default=-1) + 1
    endings = {Path(file["name"]).suffix for file in files}
    other = next((name for name in names if Path(name).suffix not in endings), None)
    if other is not None:
        raise OutputError(
            f"output {existing} has {other}, and {', '.join(sorted(endings))} files cannot be read together with it; "
            "append in its format, or name another directory"
        )
    made: dict[str, str] = {}
    # The last comes first, because its new name may be the old name of another.
    for name in sorted((file["name"] for file in files), key=_number, reverse=True):
        found = _PART.fullmatch(Path(name).name)
        assert found is not None, name
        new = Path(name).with_name(f"part-{int(found[1]) + first:05}{found[2]}")
        (staging / name).rename(staging / new)
        made[name] = str(new)
    return [file | {"name": made[file["name"]]} for file in files]


def first_file(existing: Path, ending: str) -> Path | None:
    """Returns a file of a directory that has a seal, with an ending; None where there is none."""
    names = (name for name in _files(existing) if not Path(name).name.startswith("."))
    return next((existing / name for name in names if name.endswith(f".{ending}")), None)


def link_all(existing: Path, staging: Path) -> list[str]:
    """Gives the files of a directory names in another one as well; returns the names, without those of seals.

    Raises:
        OutputError: The file system has no hard links.
    """
    names = [*_files(existing)]
    try:
        for name in names:
            place = staging / name
            place.parent.mkdir(parents=True, exist_ok=True)
            os.link(existing / name, place)
    except OSError as error:
        raise OutputError(
            f"cannot append to {existing}: {error.strerror}, and the files stay under their names by hard links; write "
            "to another directory"
        ) from error
    return names


def _number(name: str) -> int:
    """Returns the number of a part; -1 of other files."""
    found = _PART.fullmatch(Path(name).name)
    return int(found[1]) if found else -1


def _files(folder: Path) -> Iterable[str]:
    """Yields the files below a directory that has a seal: seals are folders."""
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(PREFIX))
        for name in sorted(files):
            yield os.path.relpath(f"{root}/{name}", folder)
