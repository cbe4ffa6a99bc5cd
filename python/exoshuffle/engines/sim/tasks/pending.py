"""Describes tasks that have not ended, for the error that nothing can happen any more."""

from __future__ import annotations

from collections.abc import Iterable

from exoshuffle.engines.sim.tasks.task import Task
from exoshuffle.units import format_bytes


def described(tasks: Iterable[Task]) -> list[str]:
    """Returns a clause for each task: what it waits for, and where."""
    return [f"{task.name} {task.serial} {_waits_for(task)}" for task in tasks]


def _waits_for(task: Task) -> str:
    attempt = task.attempt
    if attempt is None:
        missing = [each for each in task.awaited if not each.is_over]
        if missing:
            return "waits for its arguments"
        needs = ", ".join(f"{amount:g} of {name}" for name, amount in sorted(task.demand.items()))
        memory = format_bytes(task.options.memory)
        return f"waits for a node with {needs or 'nothing'} and {memory} of memory free"
    store = attempt.place.store
    if attempt.request is not None:
        wanted = format_bytes(attempt.request.num_bytes)
        free = format_bytes(max(0, store.budget_bytes - store.used_bytes))
        of = format_bytes(store.budget_bytes)
        return f"waits for {wanted} of memory on {store.node}, where {free} of {of} are free"
    if attempt.is_running:
        return f"runs on {store.node}, and waits itself"
    return f"waits for a CPU of {store.node}"
