"""Which deaths of workers count against a task: those that it may have caused.

Guarantee: a task whose worker is ended from outside, by the system for want of memory or by somebody, is run again for
as long as that may help, however small its ``max_retries`` (unless 0); and one that ends its worker every time fails.
So it is with an actor and its ``max_restarts``. A crash or an exit of the process is its own and counts like an error
of its function.

Who sent a signal cannot be told, unless the task's own Python code did, which the worker tells before. So deaths have a
bound, in number and in time: both have to be exceeded, since a worker that is ended every 0.2 s dies often in a short
time, and one that the system ends for want of memory seldom. The number grows with what shows that the task is not to
blame, but slower than that: other tasks that finish meanwhile, and workers that end with no task in them.
"""

from __future__ import annotations

import time

from exoshuffle.engines.local.objects.task import Task
from exoshuffle.errors import WorkerDiedError

#: Deaths of one task, from outside, while nothing shows that others cause them.
PATIENCE = 16
#: And so long after the first of them.
PATIENCE_SECONDS = 60.0


def most_deaths(num_signs: int) -> int:
    """Deaths that are forgiven to a task, by how many signs there have been since the first that it is not to blame."""
    return PATIENCE * (1 + num_signs.bit_length())


def may_be_forgiven(task: Task, error: BaseException) -> bool:
    """Whether this failure of an attempt is a death that the task may not have caused, and is one to run again."""
    is_death = isinstance(error, WorkerDiedError) and error.from_outside
    return is_death and task.options.max_retries > 0


def forgive(task: Task, num_signs: int) -> bool:
    """Notes such a death; whether it is not one too many. ``num_signs``: of all time, see ``most_deaths``."""
    now = time.monotonic()
    if task.deaths == 0:
        task.signs_before, task.died_at = num_signs, now
    is_long = now - task.died_at >= PATIENCE_SECONDS
    if is_long and task.deaths >= most_deaths(num_signs - task.signs_before):
        return False
    task.deaths += 1
    return True


def final(task: Task, error: WorkerDiedError) -> WorkerDiedError:
    """The error of the last of many deaths."""
    return WorkerDiedError(
        f"{error}, the {task.deaths + 1}th one under this task, whose longest attempt took "
        f"{task.longest_seconds:.2g} s: its function ends the process, or the system does for want of memory, which "
        "the task should declare (memory=), or somebody ends processes too often for it, so that it should do less in "
        "one call"
    )


class Crashes:
    """Crashes and exits of workers, of tasks of one name, while none of these finishes: all of them would end so.

    Without it, each of a thousand tasks whose function crashes would be tried again before the first of them fails.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, task: Task, num_at_once: int) -> bool:
        """One more; whether it is not one too many, where so many tasks run at once."""
        count = self._counts[task.name] = self._counts.get(task.name, 0) + 1
        return count < num_at_once + task.options.max_retries

    def finished(self, task: Task) -> None:
        """One of them does not end so."""
        self._counts.pop(task.name, None)
