"""An output that is a file: it replaces one that was written here, or is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle._native import StoredPath
from exoshuffle.dataset.write import replacing
from exoshuffle.dataset.write.commit import Output
from exoshuffle.dataset.write.seal import (
    is_sealed_file,
    seal_file,
)
from exoshuffle.errors import OutputError

if TYPE_CHECKING:
    pass


class OutputFile(Output):
    """A file, the only one that is made in the hidden sibling; see ``Output``."""

    @property
    def existing_folder(self) -> StoredPath:
        """The nearest directory above it that exists."""
        return next(path for path in self.path.parents if path.kind() is not None)

    def _check_kind(self) -> None:
        if self.path.kind() not in (None, "file"):
            raise OutputError(
                f"output {self.path} is neither a file nor a directory; name one, or write - for standard output"
            )

    def _check_replaced(self) -> None:
        if self._exists() and not self.is_left:
            self._refuse_existing()
            self._check_ours()

    def _exists(self) -> bool:
        return self.path.kind() is not None

    def _check_ours(self) -> None:
        if self._overwrite == "anything" or self.path.kind() is None:
            return
        if self.path.stamp()[0] and not is_sealed_file(self.path):
            raise OutputError(
                f"output {self.path} was not written by exoshuffle, or was changed or copied since; name another file, "
                'or pass overwrite="anything" (--overwrite-anything) to replace it'
            )

    def _sync(self, names: Sequence[str]) -> None:
        super()._sync(names)
        for name in names:
            seal_file(self.staging / name)

    def _put_in_place(self) -> None:
        (name,) = self.staging.names()
        file = self.staging / name
        if self._overwrite not in (False, "ignore"):
            self._check_ours()  # once more, for what others have put there meanwhile
            replacing.rename(file, self.path)
        else:
            replacing.put_beside(file, self.path)
