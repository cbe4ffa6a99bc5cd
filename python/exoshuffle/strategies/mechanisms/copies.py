"""Copies of slow tasks that run beside others: merges and folds, while the program submits maps.

Guarantee: as in ``races``. The inputs of a task are kept until it is done, since its copy would need them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from exoshuffle.futures import Ref
from exoshuffle.strategies.mechanisms.races import Races
from exoshuffle.strategies.mechanisms.speculation import Speculation


class Copied:
    """Tasks that were submitted all at once, perhaps beside others; slow ones get a copy.

    Args:
        speculation: When a task gets a copy. Of the tasks so far its ``fraction`` must be done.
    """

    def __init__(self, speculation: Speculation) -> None:
        self._races = Races(0, speculation)
        self._copies: dict[int, Callable[[str | None], Ref]] = {}
        self._done: dict[int, Callable[[Ref], None]] = {}

    def add(
        self, ref: Ref, submit_copy: Callable[[str | None], Ref], done: Callable[[Ref], None]
    ) -> None:
        """Adds a task that was submitted just now.

        Args:
            ref: The result of the task.
            submit_copy: Submits a copy to another node than where the task runs; to None if none is known.
            done: Called with the result of the first copy that succeeds.
        """
        number = self._races.num_tasks
        self._races.num_tasks += 1
        self._races.start(number, ref)
        self._copies[number], self._done[number] = submit_copy, done

    def poll(self) -> list[Ref]:
        """Notes which tasks are done, and copies slow ones; does not wait.

        Returns:
            The copies that run now.

        Raises:
            TaskError: All copies of a task have failed.
        """
        self._note(self._races.finished_now())
        return self._races.refs()

    def finish(self) -> None:
        """Waits for all tasks.

        Raises:
            TaskError: As in ``poll``.
        """
        while self._races.races:
            self._note(self._races.finished())

    def _note(self, finished: Sequence[tuple[int, Ref]]) -> None:
        for number, ref in finished:
            del self._copies[number]  # with the inputs that it holds
            self._done.pop(number)(ref)
        for number in self._races.slow():
            self._races.add_copy(number, self._copies[number](self._races.elsewhere(number)))
