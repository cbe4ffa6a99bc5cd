"""Decides which deaths of workers count against a task: those that the task may have caused.

Guarantee: a worker may be ended from outside, by somebody, or by the system for want of memory. Its task is run again
for as long as that may help, however small its ``max_retries`` (unless 0). A task that ends its worker every time
fails. The same holds for an actor and its ``max_restarts``. A crash or an exit of the process counts like an error of
the task's function.

Nobody can tell who sent a signal, unless the task's own Python code did, which the worker tells before. So deaths have
a bound in number and in time, and fail the task when both are exceeded. A worker that is ended every 0.2 s dies often
in a short time; one that the system ends for want of memory dies seldom. Signs that the task is not to blame are other
tasks that finish meanwhile, and workers that end without a task. The bound in number grows with them, but slower.
"""

from __future__ import annotations

import time

from exoshuffle.engines.local.objects.task import Task
from exoshuffle.errors import WorkerDiedError

#: So many deaths from outside are forgiven to a task while nothing shows that others cause them.
PATIENCE = 16
#: Deaths are forgiven for so long after the first, however many.
PATIENCE_SECONDS = 60.0


def most_deaths(num_signs: int) -> int:
    """Returns how many deaths are forgiven to a task.

    Args:
        num_signs: How many signs there have been, since its first death, that the task is not to blame.
    """
    return PATIENCE * (1 + num_signs.bit_length())


def may_be_forgiven(task: Task, error: BaseException) -> bool:
    """Whether the attempt failed by a death that the task may not have caused, and the task may be run again."""
    is_death = isinstance(error, WorkerDiedError) and error.from_outside
    return is_death and task.options.max_retries > 0


def forgive(task: Task, num_signs: int) -> bool:
    """Notes such a death, and returns whether it is forgiven.

    Args:
        task: Its worker died.
        num_signs: All signs since the engine started; see ``most_deaths``.
    """
    now = time.monotonic()
    if task.deaths == 0:
        task.signs_before, task.died_at = num_signs, now
    is_long = now - task.died_at >= PATIENCE_SECONDS
    if is_long and task.deaths >= most_deaths(num_signs - task.signs_before):
        return False
    task.deaths += 1
    return True


def final(task: Task, error: WorkerDiedError) -> WorkerDiedError:
    """Returns the error for the last of many deaths."""
    return WorkerDiedError(
        f"{error}, the {task.deaths + 1}th one under this task, whose longest attempt took "
        f"{task.longest_seconds:.2g} s. Its function may end the process; or the system does for want of memory, so "
        "declare with memory= what the task takes. Or somebody ends processes too often, so let it do less in one call"
    )


class Crashes:
    """Counts crashes and exits of workers under tasks of one name, while no such task finishes: all may end so.

    Without the count, each of a thousand tasks whose function crashes would be tried again before the first one fails.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, task: Task, num_at_once: int) -> bool:
        """Counts one more, and returns whether the task may be retried, where so many tasks run at once."""
        count = self._counts[task.name] = self._counts.get(task.name, 0) + 1
        return count < num_at_once + task.options.max_retries

    def finished(self, task: Task) -> None:
        """Forgets the crashes of tasks of this name, since one of them has finished."""
        self._counts.pop(task.name, None)
