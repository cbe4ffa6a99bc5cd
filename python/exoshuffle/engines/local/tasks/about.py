"""Facts about an engine: its nodes and its counters."""

from __future__ import annotations

from exoshuffle._native import Store
from exoshuffle.engines.local.objects.table import ObjectTable
from exoshuffle.engines.local.tasks.outcomes import ENGINE_NAME
from exoshuffle.engines.local.tasks.resources import Resources
from exoshuffle.engines.local.tasks.submissions import Submissions
from exoshuffle.futures.engine import Node


class About:
    """The part of the engine protocol that is about the engine."""

    def __init__(
        self, table: ObjectTable, store: Store, resources: Resources, submissions: Submissions
    ) -> None:
        self._table = table
        self._store = store
        self._resources = resources
        self._submissions = submissions

    def nodes(self) -> list[Node]:
        """See ``Engine``: this machine."""
        self._table.check_open()
        return [Node(ENGINE_NAME, dict(self._resources.total))]

    def stats(self) -> dict[str, int]:
        """Returns counters of the store, tasks submitted, objects in the store and objects recovered."""
        self._table.check_process()
        self._table.settle()
        return self._store.stats() | {
            "num_tasks": self._submissions.num_tasks,
            "num_recovered": self._table.num_recovered,
            "num_objects": self._table.num_blocks,
        }
