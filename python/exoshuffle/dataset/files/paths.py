"""Paths as users write them: text or path objects, with ``~`` for a home directory, or ``file://`` URLs.

Why other URLs are refused here: as a path, ``s3://bucket/key`` would name a folder ``s3:`` that does not exist.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from exoshuffle.errors import InputError, OutputError, shown

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)


def local_path(path: object, error: type[InputError | OutputError] = InputError) -> str:
    """Returns the path on this machine.

    Raises:
        error: The path is no text, is empty or not UTF-8, or is a URL of something else than a file of this machine.
    """
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str):
        raise error(f"path is {shown(name)}; it must be text or a path object such as pathlib.Path")
    if not name:
        # As a path it would be the working directory. It comes from a variable that is not set, so nobody meant that.
        raise error(
            "path is empty; name a file or directory, or write '.' for the working directory"
        )
    if "\0" in name:
        raise error(f"path {name!r} has a character 0, which no file has in its name; take it out")
    if any("\ud800" <= character <= "\udfff" for character in name):
        # A lone surrogate stands for a byte that is not UTF-8.
        raise error(f"path {name!r} is not UTF-8 text; rename the file or link to it")
    url = _URL.fullmatch(name)
    if url is None:
        return os.path.expanduser(name)
    scheme, host, rest = url.groups()
    if scheme.lower() != "file":
        raise error(
            f"path {name!r} has the scheme {scheme!r}, and only local paths are read or written; copy the files to "
            "this machine, or mount them"
        )
    if host not in ("", "localhost"):
        raise error(f"path {name!r} is on {host!r}; write file:/// before a path of this machine")
    return unquote(rest)
