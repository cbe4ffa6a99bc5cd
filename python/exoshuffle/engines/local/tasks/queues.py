"""Tasks that wait for resources, by what they wait for: one that does not fit stands in nobody else's way.

Guarantee: among those that fit, the first that was submitted comes first. Cost: a look at each different need, not at
each task.
"""

from __future__ import annotations

import heapq

from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.tasks.resources import Need, Resources


class TaskQueue:
    """Tasks and what each of them needs to go on."""

    def __init__(self) -> None:
        #: Heaps by sequence number, beside the task so that Python code compares nothing.
        self._tasks: dict[Need, list[tuple[int, Task]]] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def add(self, task: Task, need: Need) -> None:
        """One more."""
        heapq.heappush(self._tasks.setdefault(need, []), (task.sequence, task))

    def first(self, resources: Resources) -> Need | None:
        """What the first of the tasks that fit needs; None if none fits."""
        best: Need | None = None
        for need, tasks in self._tasks.items():
            if (best is None or tasks[0] < self._tasks[best][0]) and resources.fits(need):
                best = need
        return best

    def peek(self, need: Need) -> Task:
        """The first with that need."""
        return self._tasks[need][0][1]

    def pop(self, need: Need) -> Task:
        """Takes the first with that need out."""
        tasks = self._tasks[need]
        task = heapq.heappop(tasks)[1]
        if not tasks:
            del self._tasks[need]
        return task

    def clear(self) -> None:
        """Forgets all."""
        self._tasks.clear()
