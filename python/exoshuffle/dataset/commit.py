"""An output directory that appears complete or not at all.

Guarantee: readers never see a half-written result. Files are written into a hidden sibling directory; when all are
there, the manifest ``_SUCCESS`` (rows, bytes and CRC-32 per file) is added and one rename puts the directory in place.
With ``overwrite`` the old result stays until that moment. Sources are never touched.

A run that was killed leaves its sibling behind; it held a lock on it, so the next run to the same place can tell, and
removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from exoshuffle.errors import OutputError

if TYPE_CHECKING:
    from typing_extensions import Self

MANIFEST = "_SUCCESS"


class OutputDirectory:
    """Context manager around the making of an output directory.

    Args:
        path: The directory to make.
        sources: Files and directories that are being read; patterns among them are not looked at.
        overwrite: Replace what is there.

    Raises:
        OutputError: The output exists, is inside the input or holds it, or its parent is missing or not writable.
    """

    def __init__(
        self, path: str | os.PathLike[str], sources: Sequence[str], overwrite: bool
    ) -> None:
        # Behind symbolic links, because a link cannot be replaced by a rename.
        self.path = Path(os.path.realpath(path))
        self._overwrite = overwrite
        self._check(sources)
        self.staging = self.path.parent / f".{self.path.name}.exoshuffle-{uuid.uuid4().hex[:12]}"
        self._lock_fd = -1

    def _check(self, sources: Sequence[str]) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise OutputError(f"output {self.path} is a file; name a directory")
        existing = self.existing_folder
        if not existing.is_dir():
            raise OutputError(f"cannot write to {self.path.parent}: {existing} is a file")
        for source in sources:
            read = Path(os.path.realpath(source))
            if self.path == read or self.path in read.parents:
                raise OutputError(
                    f"output {self.path} holds the input {source}; choose another directory"
                )
            # Below a directory that is read as a whole, the output would be input the next time.
            if read in self.path.parents:
                raise OutputError(
                    f"output {self.path} lies inside the input {source}; choose another directory"
                )
        if self.path.is_dir() and any(self.path.iterdir()) and not self._overwrite:
            raise OutputError(
                f"output {self.path} exists; pass overwrite (--overwrite) to replace it"
            )

    @property
    def existing_folder(self) -> Path:
        """The directory, or what there is of those that it will be in."""
        return next(path for path in (self.path, *self.path.parents) if path.exists())

    def __enter__(self) -> Self:
        _remove_leftovers(self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.staging.mkdir()
            self._lock_fd = os.open(self.staging, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._discard()
            raise OutputError(f"cannot write to {self.path.parent}: {error.strerror}") from error
        except BaseException:  # Ctrl-C may come before the body of the with statement does
            self._discard()
            raise
        return self

    def commit(self, files: Sequence[dict[str, Any]]) -> None:
        """Puts the directory in place.

        Args:
            files: For each file ``name``, ``rows``, ``bytes`` and ``crc32``.
        """
        manifest = {
            "rows": sum(file["rows"] for file in files),
            "bytes": sum(file["bytes"] for file in files),
            "files": list(files),
        }
        (self.staging / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        replaced = None
        if self.path.is_dir() and any(self.path.iterdir()):
            replaced = self.path.parent / f".{self.path.name}.exoshuffle-{uuid.uuid4().hex[:12]}"
            self.path.rename(replaced)
        try:
            self.staging.rename(self.path)
        except OSError as error:
            if replaced is not None:
                replaced.rename(self.path)
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise OutputError(
                    f"output {self.path} was made by somebody else meanwhile"
                ) from error
            raise OutputError(f"cannot put {self.path} in place: {error.strerror}") from error
        if replaced is not None:
            shutil.rmtree(replaced, ignore_errors=True)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._discard()

    def _discard(self) -> None:
        """Removes what was not committed."""
        shutil.rmtree(self.staging, ignore_errors=True)
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1


def _remove_leftovers(path: Path) -> None:
    for leftover in path.parent.glob(f".{path.name}.exoshuffle-*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(leftover, ignore_errors=True)
            finally:
                os.close(descriptor)
