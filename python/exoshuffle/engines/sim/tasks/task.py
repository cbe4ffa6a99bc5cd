"""A task, one attempt of it with all that the attempt holds, and the node where that is."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from exoshuffle.engines.sim.clock.events import Timer
from exoshuffle.engines.sim.clock.flows import Flow
from exoshuffle.engines.sim.clock.routines import Routine
from exoshuffle.engines.sim.cluster.description import Machine
from exoshuffle.engines.sim.objects.arguments import Argument, Group, Piece
from exoshuffle.engines.sim.objects.state import Copy, Part, State
from exoshuffle.engines.sim.objects.store import Request, Store
from exoshuffle.engines.sim.objects.values import Pickled
from exoshuffle.futures.engine import RunningTask
from exoshuffle.futures.options import CPU, TaskOptions


class Items(Protocol):
    """The items of a generator task."""

    def end(self, error: BaseException | None) -> None:
        """Says that no more will come."""


class Owner(Protocol):
    """The actor whose method a task is."""

    instance: object


class Place:
    """A node.

    Attributes:
        name: Its name.
        machine: Its kind.
        store: Its memory.
        free: Resources that nobody occupies; CPUs may be below 0 after tasks have waited.
        is_alive: Whether it has not died.
        is_staging: Whether its stager brings arguments for a task.
        staged: Attempts that have their arguments and wait for a CPU.
        attempts: All attempts on it.
    """

    def __init__(self, name: str, machine: Machine, store: Store) -> None:
        self.name = name
        self.machine = machine
        self.store = store
        self.free = dict(machine.amounts)
        self.is_alive = True
        self.is_staging = False
        self.num_staged = 0
        self.staged: deque[Attempt] = deque()
        self.attempts: dict[Attempt, None] = {}


class Task:
    """A task, or a call of an actor.

    Attributes:
        order: Its number among all tasks; earlier ones start first.
        name: Its name in errors.
        serial: Its number among the tasks of this name.
        fn: The function, at rest.
        args, kwargs: The arguments.
        options: How to run it.
        demand: Resources that it occupies, without zeros.
        result: The object that it makes, unless it is a generator.
        stream: The items of a generator.
        actor: Whose method it is; of the task that makes an actor, that actor.
        is_constructor: Whether it makes an actor.
        method: The name of the method that it calls.
        holds: The handle of the actor that it calls.
        attempt_number: Attempts so far.
        num_failures, num_deaths: How many of them failed by a retryable error, and by a death.
        attempt: The attempt that is under way.
        is_over: Whether it has ended for good, until its result is lost.
    """

    def __init__(
        self, order: int, name: str, fn: Pickled, args: Sequence[Argument], options: TaskOptions
    ) -> None:
        self.order = order
        self.name = name
        self.serial = 0
        self.fn = fn
        self.args = args
        self.kwargs: dict[str, Argument] = {}
        self.options = options
        self.demand = options.demand
        self.result: weakref.ref[State] | None = None
        self.stream: weakref.ref[Items] | None = None
        self.items: dict[int, weakref.ref[State]] = {}
        self.wanted_items: set[int] = set()
        self.actor: Owner | None = None
        self.is_constructor = False
        self.method = ""
        self.holds: object = None
        self.attempt_number = 0
        self.num_failures = 0
        self.num_deaths = 0
        self.attempt: Attempt | None = None
        self.is_over = False

    def running(self, now: float) -> RunningTask:
        """See ``Maker``."""
        attempt = self.attempt
        if attempt is None or attempt.started is None:
            return RunningTask()
        return RunningTask(now - attempt.started, attempt.place.name)

    @property
    def arguments(self) -> Iterator[Argument]:
        """All arguments."""
        yield from self.args
        yield from self.kwargs.values()

    @property
    def awaited(self) -> list[State | Group]:
        """The objects and groups that have to be there before it starts."""
        return [each.awaited for each in self.arguments if each.awaited is not None]

    def pieces(self) -> Iterator[Piece]:
        """Returns the slices that it takes."""
        for argument in self.arguments:
            yield from argument.pieces()

    @property
    def is_wanted(self) -> bool:
        """Whether anybody can still ask for what it makes."""
        if self.wanted_items:
            return True
        if self.options.is_streaming:
            return self.stream is not None and self.stream() is not None
        state = None if self.result is None else self.result()
        return state is not None and state.is_wanted

    @property
    def num_cpus(self) -> float:
        """CPU slots that it occupies."""
        return self.demand.get(CPU, 0)

    def function(self) -> Callable[..., object]:
        """Returns the function to call."""
        if self.actor is not None and not self.is_constructor:
            method: Callable[..., object] = getattr(self.actor.instance, self.method)
            return method
        loaded: Callable[..., object] = self.fn.load()
        return loaded

    def rest(self) -> None:
        """Lets the objects of its arguments go; what is left is how to make them again."""
        self.fn.rest()
        self.holds = None
        for argument in self.arguments:
            argument.rest()

    def wake(self) -> None:
        """Keeps them again."""
        self.fn.wake()
        for argument in self.arguments:
            argument.wake()


class Attempt:
    """One try of a task, on a node, and all that it holds there.

    Attributes:
        task: The task.
        place: The node.
        held: Resources that it occupies on the node.
        memory_bytes: Working memory and copies of arguments.
        pins: Blocks that it keeps in memory.
        parts: Slices of its arguments, by the number of the object.
        sources: Names of the nodes that arguments are being brought from.
        request, flows, timers, routine: The things that it waits for.
        result_bytes: Memory granted for its result, which has not become a block yet.
        started: When it began to run; None before that.
        note: The function of the user that it calls.
    """

    def __init__(self, task: Task, place: Place) -> None:
        self.task = task
        self.place = place
        self.held: dict[str, float] = {}
        self.memory_bytes = 0
        self.pins: list[Copy] = []
        self.parts: dict[int, Sequence[Part]] = {}
        self.sources: set[str] = set()
        self.request: Request | None = None
        self.flows: dict[Flow, None] = {}
        self.timers: list[Timer] = []
        self.routine: Routine | None = None
        self.result_bytes = 0
        self.input_bytes = 0
        self.num_inputs = 0
        self.started: float | None = None
        self.is_staged = False
        self.is_over = False

    @property
    def is_running(self) -> bool:
        """Whether it has begun to run."""
        return self.started is not None

    def take(self, demand: dict[str, float]) -> None:
        """Occupies resources of its node."""
        for name, amount in demand.items():
            self.place.free[name] -= amount
            self.held[name] = self.held.get(name, 0) + amount

    def give_back(self, demand: dict[str, float]) -> None:
        """Frees resources of its node."""
        for name, amount in demand.items():
            self.place.free[name] += amount
            self.held[name] -= amount
