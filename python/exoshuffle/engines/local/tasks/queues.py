"""Queues tasks that wait for resources, by their needs: a task that does not fit stands in nobody else's way.

Guarantee: among tasks that fit, the first submitted comes first. Cost: a look at each different need, not at each task.
"""

from __future__ import annotations

import heapq

from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.tasks.resources import Need, Resources


class TaskQueue:
    """Tasks, and the resources that each needs to go on."""

    def __init__(self) -> None:
        #: Heaps by sequence number, beside the task so that Python code compares nothing.
        self._tasks: dict[Need, list[tuple[int, Task]]] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def add(self, task: Task, need: Need) -> None:
        """Adds a task with its need."""
        heapq.heappush(self._tasks.setdefault(need, []), (task.sequence, task))

    def first(self, resources: Resources) -> Need | None:
        """Returns the need of the first task that fits; None if none fits."""
        best: Need | None = None
        for need, tasks in self._tasks.items():
            if (best is None or tasks[0] < self._tasks[best][0]) and resources.fits(need):
                best = need
        return best

    def peek(self, need: Need) -> Task:
        """Returns the first task with that need."""
        return self._tasks[need][0][1]

    def pop(self, need: Need) -> Task:
        """Takes out and returns the first task with that need."""
        tasks = self._tasks[need]
        task = heapq.heappop(tasks)[1]
        if not tasks:
            del self._tasks[need]
        return task

    def clear(self) -> None:
        """Forgets all tasks."""
        self._tasks.clear()
