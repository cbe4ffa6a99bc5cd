"""Tells the watchdog what the unfinished tasks of an engine do.

The garbage collector finds the tasks that wait for arguments. A register of them would cost every task something, and
the watchdog asks once a minute at most, when nothing goes on.
"""

from __future__ import annotations

import collections
import gc
import os
import sys
import time
import traceback

from exoshuffle.engines.local.objects import arguments
from exoshuffle.engines.local.objects.state import Bundle, ObjectState, Status
from exoshuffle.engines.local.objects.table import ObjectTable
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.engines.local.tasks.scheduler import Scheduler
from exoshuffle.engines.local.tasks.waits import Waits
from exoshuffle.futures.options import CPU
from exoshuffle.observe.activity import Activity, Frame, telling_frame
from exoshuffle.units import format_bytes


def activities(table: ObjectTable, scheduler: Scheduler, waits: Waits) -> list[Activity]:
    """Returns the unfinished tasks: first the running ones, longest first, then those that wait.

    The list is empty if all wait for the program to take their results: the program may take its time.
    """
    with table.lock:
        if scheduler.is_idle() or waits.all_are_ahead():
            return []
        running = scheduler.now_running()
    begun = {id(task) for _, task, _ in running}
    found = [_running(*one) for one in running]
    tasks = [one for one in gc.get_objects() if type(one) is Task and id(one) not in begun]
    with table.lock:
        waiting = [task for task in tasks if _is_waiting(task, table)]
        waiting.sort(key=lambda task: task.sequence)
        stage_is_stuck = any(_waits_for_memory(task) for task in waiting)
        found += [
            Activity(task.name, _reason(task, scheduler, stage_is_stuck), task.attempt)
            for task in waiting
        ]
    return found


def _running(thread: int, task: Task, since: float) -> Activity:
    worker = task.worker
    if worker is None:
        top = sys._current_frames().get(thread)
        summary = traceback.extract_stack(top) if top is not None else []
        frames = [Frame(one.filename, one.lineno or 0, one.name) for one in reversed(summary)]
        process = os.getpid()
    else:
        frames, process = worker.stack(), worker.process_id
    seconds = time.monotonic() - since
    return Activity(task.name, None, task.attempt, seconds, process, telling_frame(frames))


def _is_waiting(task: Task, table: ObjectTable) -> bool:
    is_ours = task.output is not None and task.output.counter is table
    return is_ours and not task.is_over() and not task.started


def _waits_for_memory(task: Task) -> bool:
    return task.is_staged and task.options.memory > 0 and task.reservation is None


def _reason(task: Task, scheduler: Scheduler, stage_is_stuck: bool) -> str:
    missing = _missing_arguments(task)
    if missing:
        return f"arguments: {missing}"
    if task.actor is not None:
        return f"actor {task.actor.name}"
    if _waits_for_memory(task):
        return f"memory: {format_bytes(task.options.memory)}"
    if task.is_staged:
        return "a CPU" if task.values is not None else "memory for its arguments"
    lacking = scheduler.lacking(task)
    if lacking and lacking != [CPU]:
        return f"a resource: {', '.join(name for name in lacking if name != CPU)}"
    is_behind = stage_is_stuck and (task.options.memory or any(arguments.targets(task)))
    return "memory that another task waits for" if is_behind else "a CPU"


def _missing_arguments(task: Task) -> str:
    """Names the tasks that are to make arguments, with the number of objects that have not come."""
    missing = collections.Counter(
        state.task.name if state.task is not None else "put"
        for target in arguments.targets(task)
        for state in _objects(target)
        if state.status is Status.PENDING
    )
    return ", ".join(f"{count} of {name}" for name, count in missing.items())


def _objects(target: ObjectState | Bundle) -> tuple[ObjectState, ...]:
    return target.objects if isinstance(target, Bundle) else (target,)
