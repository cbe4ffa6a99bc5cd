"""The files that tasks write on their way into an unfinished output: each attempt at a task has a folder of its own.

Guarantee: an output has the files of the attempts whose results the program got, and no others. An attempt that still
runs then, such as the slower of two copies, fails at the next file that it makes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from exoshuffle._native import StoredPath
from exoshuffle.dataset.write import replacing
from exoshuffle.errors import OutputError
from exoshuffle.operators.core.sinks import Attempt, PartFile

_RUNNING, _OVER = "_attempts", "_attempts-over"


class Attempts:
    """Where the attempts of a job write.

    Args:
        output: The unfinished output.

    Raises:
        OutputError: The folder cannot be made.
    """

    def __init__(self, output: StoredPath) -> None:
        self._output = output
        self.folder = output / _RUNNING
        with self._named():
            self.folder.create_directory()

    def taken(self, attempts: Iterable[Attempt]) -> list[PartFile]:
        """Moves the files of these attempts into the output, and removes all others.

        Returns:
            The files, with their names in the output.

        Raises:
            OutputError: A file cannot be moved.
        """
        with self._named():
            made = [file for attempt in attempts for file in self._moved(attempt)]
            # Under another name nobody adds files while they are removed.
            over = self._output / _OVER
            self.folder.rename(over)
        replacing.remove_all(over)
        return made

    def _moved(self, attempt: Attempt) -> Iterable[PartFile]:
        for file in attempt.files:
            name = attempt.name_of(file)
            place = self._output / name
            if "/" in name:
                place.parents[0].create_directories()
            (self.folder / attempt.folder / file["name"]).rename(place)
            yield {**file, "name": name}

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"cannot write to {self._output.parents[0]}: {error.strerror}; name a place where you may write, or "
                "free disk space there"
            ) from error
