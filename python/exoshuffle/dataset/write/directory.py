"""An output that is a directory: it replaces one that was written here, or is added to it, or is new."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from exoshuffle.dataset.write import replacing
from exoshuffle.dataset.write.appending import link_all, numbered_on
from exoshuffle.dataset.write.commit import Output
from exoshuffle.dataset.write.seal import (
    is_sealed,
    seal_of,
    state_of,
)
from exoshuffle.dataset.write.siblings import (
    REPLACED,
    hidden_sibling,
    locked,
)
from exoshuffle.errors import OutputError
from exoshuffle.operators.core.sinks import PartFile

if TYPE_CHECKING:
    pass


class OutputDirectory(Output):
    """A directory, which replaces one that was written here, or is added to it; see ``Output``."""

    #: The files of the directory that is added to, when they were put beside the new ones.
    _added_to: frozenset[str] | None = None

    def _check_kind(self) -> None:
        if self.path.kind() not in (None, "directory"):
            raise OutputError(
                f"output {self.path} is a file; name a directory, or a file with the ending of its format"
            )

    def _check_replaced(self) -> None:
        if not self._exists() or self.is_left:
            return
        self._refuse_existing()
        with contextlib.suppress(FileNotFoundError):  # the working directory was removed
            if Path.cwd().is_relative_to(str(self.path)):
                raise OutputError(
                    f"output {self.path} is or holds the working directory, which would be replaced; name another one"
                )
        self._check_ours()

    def _exists(self) -> bool:
        return self.path.kind() == "directory" and bool(self.path.names())

    def _changed(self) -> OutputError:
        return OutputError(
            f"output {self.path} was changed by somebody else meanwhile; append again"
        )

    def _state(self) -> frozenset[str]:
        return state_of(self.path) if self.path.kind() == "directory" else frozenset()

    def _beside_existing(self, files: Sequence[PartFile]) -> list[PartFile]:
        if self._overwrite == "append":
            self._added_to = self._state()
        if not self._added_to:
            return list(files)
        made = numbered_on(files, self.staging, self.path)
        link_all(self.path, self.staging)
        return made

    def _check_ours(self) -> None:
        if self._added_to not in (None, self._state()):
            raise self._changed()
        if self._overwrite == "anything" or not self.path.names() or is_sealed(self.path):
            return
        raise OutputError(
            f"output {self.path} holds what exoshuffle did not write, or what was changed since; name another "
            'directory, or pass overwrite="anything" (--overwrite-anything) to replace it all'
        )

    def _sync(self, names: Sequence[str]) -> None:
        folders = [name for name, kind, _ in self.staging.below() if kind == "directory"]
        seal = seal_of(self.staging)
        seal.create_directory()
        super()._sync([*names, *folders, seal.name])

    def _put_in_place(self) -> None:
        if self._overwrite in (False, "ignore") or self.path.kind() != "directory":
            replacing.rename(self.staging, self.path)
            return
        self._check_ours()  # once more, for what others have put there meanwhile
        if not replacing.exchange(self.staging, self.path):
            self._replace_in_two_steps()
        elif self._added_to not in (None, state_of(self.staging)):
            # Others have added files after the check; theirs, which are in the old directory, must not go with it.
            replacing.exchange(self.staging, self.path)
            raise self._changed()

    def _replace_in_two_steps(self) -> None:
        replaced = hidden_sibling(self.path, REPLACED)
        with locked(self.path):  # so that no other run puts it back meanwhile
            replacing.rename(self.path, replaced)
            try:
                replacing.rename(self.staging, self.path)
            except OSError:
                replacing.rename(replaced, self.path)
                raise
        with contextlib.suppress(OSError):  # the next run removes it
            replacing.rename(replaced, self.staging)
