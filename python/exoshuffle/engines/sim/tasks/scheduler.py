"""Decides which task runs where and when, as the embedded engine does on each of its nodes.

Guarantees: no more than the resources of a node are in use. Among tasks that fit, the first submitted starts first.
Each node has one stager, which takes memory and arguments for one task at a time. It works as many tasks ahead as the
node has CPUs. A task that needs memory alone gets it once a CPU is free. It is the rule of the embedded engine. Without
``Cluster.fetches_ahead`` there is no stager: a task takes its CPUs first, and fetches beside the others.

A task goes to the node that it names, if that lives and is large enough, and waits for it. Any other task goes to the
node that is idlest, and among such ones to the node that has most of its arguments.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from exoshuffle.engines.sim.objects.arguments import Medium
from exoshuffle.engines.sim.objects.store import Priority
from exoshuffle.engines.sim.tasks.task import Attempt, Place, Task
from exoshuffle.engines.sim.tasks.world import World
from exoshuffle.errors import MemoryLimitError
from exoshuffle.futures.options import CPU
from exoshuffle.units import format_bytes

#: A task with more arguments than this has them everywhere, so nobody looks where most are.
_LOCAL_PIECES = 64

Failed = Callable[[Attempt, BaseException], None]


class Scheduler:
    """The queues.

    Args:
        world: Has the nodes.
        run: Runs an attempt that has all it needs.
        failed: Takes an attempt that cannot run.
        is_ready: Whether a task still has all of its arguments; if not, it waits for them again.
        forget: Takes a task that nobody wants.
    """

    def __init__(
        self,
        world: World,
        run: Callable[[Attempt], None],
        failed: Failed,
        is_ready: Callable[[Task], bool],
        forget: Callable[[Task], None],
    ) -> None:
        self._world = world
        self._run = run
        self._failed = failed
        self._is_ready = is_ready
        self._forget = forget
        self._queues: dict[object, deque[Task]] = {}
        self._is_due = False

    def add(self, task: Task) -> None:
        """Takes a task whose arguments are there."""
        node = task.options.node
        key = (tuple(sorted(task.demand.items())), node if node in self._world.places else None)
        queue = self._queues.setdefault(key, deque())
        if queue and queue[-1].order > task.order:
            later = [each for each in queue if each.order > task.order]
            for _ in later:
                queue.pop()
            queue.append(task)
            queue.extend(later)
        else:
            queue.append(task)
        self.look()

    def waiting(self) -> list[Task]:
        """Returns the tasks that are on no node yet."""
        return [task for queue in self._queues.values() for task in queue]

    def look(self) -> None:
        """Has the queues looked at once what happens now is over."""
        if not self._is_due:
            self._is_due = True
            self._world.clock.soon(self._assign)

    # --- to a node ---------------------------------------------------------------------------------------------

    def _assign(self) -> None:
        self._is_due = False
        for alive in self._world.alive():
            if alive.staged:
                self._start_staged(alive)
        full: set[object] = set()
        while any(map(self._stages_more, self._world.alive())):
            open_queues = [
                (queue[0].order, key)
                for key, queue in self._queues.items()
                if queue and key not in full
            ]
            if not open_queues:
                break
            _, key = min(open_queues, key=lambda each: each[0])
            task = self._queues[key][0]
            if task.is_over or not task.is_wanted:
                self._queues[key].popleft()
                if not task.is_over:
                    self._forget(task)
                continue
            place = self._place_for(task)
            if place is None:
                full.add(key)
                continue
            self._queues[key].popleft()
            self._stage(Attempt(task, place))
        for key in [key for key, queue in self._queues.items() if not queue]:
            del self._queues[key]

    def _place_for(self, task: Task) -> Place | None:
        named = self._world.places.get(task.options.node or "")
        if named is not None and named.is_alive and _is_large_enough(named, task):
            return next(iter(self._with_room(task, [named])), None)
        fitting = self._with_room(task, self._world.alive())
        if not fitting:
            return None
        local = _local_bytes(task) if len(fitting) > 1 else {}
        return max(
            fitting,
            key=lambda place: (place.free[CPU] - place.num_staged, local.get(place.name, 0)),
        )

    def _stages_more(self, place: Place) -> bool:
        """Whether the stager of a node is free, and not as far ahead as it may be."""
        if not self._world.cluster.fetches_ahead:
            return True
        return not place.is_staging and place.num_staged < place.machine.num_cpus

    def _with_room(self, task: Task, places: list[Place]) -> list[Place]:
        """Returns the places that have what a task needs, and whose stager may begin another."""
        others = [(name, amount) for name, amount in task.demand.items() if name != CPU]
        if self._world.cluster.fetches_ahead:
            # Arguments are fetched ahead of the workers.
            is_fetched = any(argument.is_reference for argument in task.arguments)
            least_cpus = -math.inf if is_fetched else min(1.0, task.num_cpus)
        else:
            least_cpus = task.num_cpus
        return [
            place
            for place in places
            if self._stages_more(place)
            and place.free[CPU] - place.num_staged >= least_cpus
            and all(place.free.get(name, 0) >= amount for name, amount in others)
        ]

    # --- the stager --------------------------------------------------------------------------------------------

    def _stage(self, attempt: Attempt) -> None:
        task, place = attempt.task, attempt.place
        task.attempt = attempt
        place.attempts[attempt] = None
        if self._world.cluster.fetches_ahead:
            place.is_staging = True
            place.num_staged += 1
            attempt.is_staged = True
            attempt.take({name: amount for name, amount in task.demand.items() if name != CPU})
        else:
            attempt.take(task.demand)
        memory = task.options.memory
        if memory:
            attempt.request = place.store.request(
                memory, Priority.RESERVATION, lambda _: self._reserved(attempt)
            )
        else:
            self._fetch(attempt)

    def _reserved(self, attempt: Attempt) -> None:
        if attempt.is_over:
            attempt.place.store.release(attempt.task.options.memory)
            return
        attempt.request = None
        attempt.memory_bytes += attempt.task.options.memory
        self._fetch(attempt)

    def _fetch(self, attempt: Attempt) -> None:
        """Asks for memory for the arguments that are elsewhere; pins those that are here."""
        if not self._is_ready(attempt.task):
            self._failed(attempt, NotReadyError())
            return
        taken, copied = fetched(attempt)
        place = attempt.place
        room = place.store.budget_bytes - attempt.memory_bytes
        if copied > room:
            self._failed(attempt, _too_large(attempt, copied))
        elif not taken:
            self._staged(attempt)
        else:
            attempt.sources = {name for name, _ in taken}
            attempt.request = place.store.request(
                copied, Priority.ARGUMENT, lambda _: self._bring(attempt, taken, copied)
            )

    def _bring(self, attempt: Attempt, taken: dict[Medium, tuple[int, int]], copied: int) -> None:
        if attempt.is_over:
            attempt.place.store.release(copied)
            return
        attempt.request = None
        attempt.memory_bytes += copied

        def done() -> None:
            attempt.flows.clear()
            self._staged(attempt)

        attempt.flows = self._world.fetch(attempt.place, taken, done)

    def _staged(self, attempt: Attempt) -> None:
        place = attempt.place
        attempt.sources = set()
        if not attempt.is_staged:
            self._run(attempt)
            return
        place.is_staging = False
        place.staged.append(attempt)
        self.look()

    def _start_staged(self, place: Place) -> None:
        for attempt in list(place.staged):
            cpus = attempt.task.num_cpus
            if cpus and place.free[CPU] < cpus:
                continue
            place.staged.remove(attempt)
            place.num_staged -= 1
            attempt.is_staged = False
            attempt.take({CPU: cpus} if cpus else {})
            self._run(attempt)

    def release(self, attempt: Attempt) -> None:
        """Frees all that an attempt holds."""
        place = attempt.place
        attempt.is_over = True
        if attempt.is_staged:
            place.num_staged -= 1
            if attempt in place.staged:
                place.staged.remove(attempt)
            else:
                place.is_staging = False
            attempt.is_staged = False
        if attempt.request is not None:
            place.store.give_up(attempt.request)
        for flow in attempt.flows:
            self._world.flows.stop(flow)
        for timer in attempt.timers:
            timer.cancel()
        attempt.flows.clear()
        attempt.timers.clear()
        attempt.parts = {}
        if place.is_alive:
            attempt.give_back(dict(attempt.held))
            for copy in attempt.pins:
                place.store.unpin(copy)
            place.store.release(attempt.memory_bytes + attempt.result_bytes)
        place.attempts.pop(attempt, None)
        if attempt.task.attempt is attempt:
            attempt.task.attempt = None
        self.look()


class NotReadyError(Exception):
    """An argument was lost before the task could take it: it waits again."""


def fetched(attempt: Attempt) -> tuple[dict[Medium, tuple[int, int]], int]:
    """Notes the slices of an attempt's arguments; pins whole blocks that lie in its node's memory.

    Returns:
        Bytes and requests by node and by whether they lie in memory there; and all of these bytes.
    """
    taken: dict[Medium, tuple[int, int]] = {}
    seen: set[tuple[int, object]] = set()
    for argument in attempt.task.arguments:
        if argument.column is not None:
            for medium, (num_bytes, count) in argument.column.column_media().items():
                _add(attempt, taken, medium, num_bytes, count)
            continue
        for state, index in argument.pieces():
            if state.parts is not None:
                attempt.parts[state.number] = state.parts
            copy, num_bytes = state.copy, state.slice_bytes(index)
            if copy is None or (state.number, index) in seen:
                _add(attempt, taken, (attempt.place.name, True), num_bytes, 1)
                continue
            seen.add((state.number, index))
            _add(attempt, taken, (copy.node, copy.in_memory), num_bytes, 1)
            is_here = copy.node == attempt.place.name and copy.in_memory
            if is_here and (index is None or state.num_slices == 1):
                attempt.place.store.pin(copy)
                attempt.pins.append(copy)
    return taken, sum(num_bytes for num_bytes, _ in taken.values())


def _add(
    attempt: Attempt,
    taken: dict[Medium, tuple[int, int]],
    medium: Medium,
    num_bytes: int,
    count: int,
) -> None:
    """Notes slices that lie somewhere; those in the node's own memory need not come."""
    attempt.input_bytes += num_bytes
    attempt.num_inputs += count
    if num_bytes and medium != (attempt.place.name, True):
        before, requests = taken.get(medium, (0, 0))
        taken[medium] = before + num_bytes, requests + count


def _local_bytes(task: Task) -> dict[str, int]:
    """Returns the bytes of a task's arguments on each node."""
    local: dict[str, int] = {}
    for count, (state, index) in enumerate(task.pieces()):
        if count >= _LOCAL_PIECES:
            return {}
        if state.copy is not None:
            local[state.copy.node] = local.get(state.copy.node, 0) + state.slice_bytes(index)
    return local


def _is_large_enough(place: Place, task: Task) -> bool:
    amounts = place.machine.amounts
    fits = all(amounts.get(name, 0) >= amount for name, amount in task.demand.items())
    return fits and task.options.memory <= place.store.budget_bytes


def _too_large(attempt: Attempt, copied: int) -> MemoryLimitError:
    budget = attempt.place.store.budget_bytes
    needed = attempt.memory_bytes + copied
    return MemoryLimitError(
        f"task {attempt.task.name} needs {format_bytes(attempt.memory_bytes)} of working memory and "
        f"{format_bytes(copied)} for its arguments at once, but {attempt.place.name} has {format_bytes(budget)}. Give "
        f"the nodes {format_bytes(needed)}, or give the task less at a time"
    )
