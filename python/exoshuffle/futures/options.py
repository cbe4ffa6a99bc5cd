"""Options of tasks and actors: what they need, how often to try, where to run. The values are checked when made."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from exoshuffle.arguments import is_number, is_whole
from exoshuffle.errors import OptionsError, shown
from exoshuffle.units import parse_bytes

#: Names of the two resources that every engine knows.
CPU, GPU = "CPU", "GPU"

Executor = Literal["process", "thread"]
_Options = TypeVar("_Options", "TaskOptions", "ActorOptions")


@dataclass(frozen=True)
class TaskOptions:
    """The options of a task.

    Attributes:
        num_returns: Number of slices of the result: a task with ``num_returns=k`` returns k values, or a block of k
            slices from ``allocate_block``. ``"streaming"``: the task is a generator; ``.remote`` returns a
            ``RefStream`` of one reference per item, which can be used while the task still runs.
        cuts: Numbers of slices, ascending: tasks take slices between two cuts together, or on one node. An engine that
            keeps or sends several slices as one object divides the result there; ``()`` says that tasks take all slices
            together. Default: it divides as it likes.
        num_cpus: CPU slots that the task occupies.
        num_gpus: Declared GPUs that it occupies; the engine counts them and does not look for hardware. ``get_gpu_ids``
            returns their numbers; a worker process also has them in ``CUDA_VISIBLE_DEVICES``.
        resources: Further declared resources by name, for example ``{"disk": 1}``.
        memory: Working memory in bytes that the task needs beside its arguments and its result; reserved from the
            engine's budget before the task starts. If this and the arguments can never be in memory together, the
            embedded engine fails the task, with a ``MemoryLimitError`` as the cause. When the program comes near its
            limit, the engine stops a worker process that has more than this, and the processes that it started. That
            is a ``FunctionMemoryError``. Tasks on threads cannot be stopped. Ray schedules by this number. Workers of a
            Ray that was started here are measured and stopped, too. A cluster measures only the memory of a node. If
            Ray ends a task because a node is full, that is a ``FunctionMemoryError`` as well. It is a
            ``WorkerDiedError`` if it happened more often than ``max_retries`` says.
        node: Name of the node to run on, as far as that is possible (soft); default: the engine chooses.
        max_retries: How many times to run the task again after a failure that is not the function's own. Its worker
            died, its result was lost, or an exception had ``retryable = True``. Some deaths of workers may come from
            outside, by a signal or by the system's want of memory. These do not count, up to a bound. The embedded
            engine's bound grows with the other work done; Ray's is 16 for a task and a minute. On Ray they count for
            calls of actors. While no task of a name finishes, the embedded engine retries fewer crashes of such tasks
            than there are CPUs and ``max_retries`` together. 0 means that no failure is tried again.
        name: Name in errors and events; default: the function's.
        executor: ``"process"`` runs a Python function in a worker process. So Python code of several tasks runs
            at once and a crash costs one attempt. ``"thread"`` runs it on a thread of this process, without pickling:
            for native code that releases the GIL. An engine without threads of its own may ignore it.
        tells_begin: Whether the program learns when the task begins, for ``running``. Ray sends it a message for
            each attempt; on other engines it is known in any case.
    """

    num_returns: int | Literal["streaming"] = 1
    cuts: tuple[int, ...] | None = None
    num_cpus: float = 1
    num_gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    memory: int = 0
    node: str | None = None
    max_retries: int = 3
    name: str = ""
    executor: Executor = "process"
    tells_begin: bool = False

    def __post_init__(self) -> None:
        number = self.num_returns
        is_count = isinstance(number, int) and is_whole(number) and number >= 1
        if number != "streaming" and not is_count:
            raise OptionsError(
                f'num_returns is {self.num_returns!r}; it must be a number from 1 on, or "streaming"'
            )
        _check_times("max_retries", self.max_retries)
        _check_cuts(self.cuts, self.num_slices)
        _check_needs(self)

    @property
    def is_streaming(self) -> bool:
        """Whether the task is a generator."""
        return self.num_returns == "streaming"

    @property
    def num_slices(self) -> int:
        """The number of slices of the task's object."""
        return self.num_returns if isinstance(self.num_returns, int) else 1

    @functools.cached_property
    def demand(self) -> dict[str, float]:
        """The amounts that the task occupies, by resource, without zeros."""
        return _demand(self)

    @functools.cached_property
    def shape(self) -> tuple[tuple[str, float], ...]:
        """``demand`` in hashable form: a scheduler may treat tasks of one shape alike."""
        return tuple(sorted(self.demand.items()))

    @functools.cached_property
    def shape_beside_cpus(self) -> tuple[tuple[str, float], ...]:
        """``shape`` without the CPUs."""
        return tuple((name, amount) for name, amount in self.shape if name != CPU)


@dataclass(frozen=True)
class ActorOptions:
    """The options of an actor. The actor holds all that it needs for as long as it lives.

    Attributes:
        num_cpus: CPU slots; the default of 0 lets any number of actors live beside tasks.
        num_gpus: Declared GPUs.
        resources: Further declared resources by name.
        memory: Working memory in bytes, reserved from the engine's budget. Its process may take this and what a call
            declares, as for tasks.
        node: Name of the node to run on, as far as that is possible (soft).
        max_restarts: How many times to make the actor anew, by its constructor, after its process died. Its state is
            then as the constructor made it. Calls that were running fail with ``ActorDiedError`` (unless the call has
            ``max_retries``); later ones reach the new actor. The same deaths count as for ``max_retries`` of tasks.
        name: Name in errors and events; default: the class's.
        executor: As for tasks: a worker process of its own, or a thread of this process.
    """

    num_cpus: float = 0
    num_gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    memory: int = 0
    node: str | None = None
    max_restarts: int = 0
    name: str = ""
    executor: Executor = "process"

    def __post_init__(self) -> None:
        _check_times("max_restarts", self.max_restarts)
        _check_needs(self)

    @property
    def demand(self) -> dict[str, float]:
        """The amounts that the actor occupies, by resource, without zeros."""
        return _demand(self)


def with_changes(options: _Options, changes: Mapping[str, Any]) -> _Options:
    """Returns the options with other values for some of them; ``memory`` may be a size as text.

    Each option checks its own value, so a value may be of any type here.

    Raises:
        OptionsError: An unknown name, or a value that cannot work.
    """
    known = [field.name for field in dataclasses.fields(options)]
    for name in changes:
        if name not in known:
            raise OptionsError(f"unknown option {name!r}; known are {', '.join(known)}")
    memory = changes.get("memory")
    if isinstance(memory, str):
        changes = {**changes, "memory": parse_bytes(memory)}
    return dataclasses.replace(options, **changes)


def _demand(options: TaskOptions | ActorOptions) -> dict[str, float]:
    needs = {CPU: options.num_cpus, GPU: options.num_gpus, **options.resources}
    return {name: amount for name, amount in needs.items() if amount > 0}


def _check_times(name: str, times: object) -> None:
    if not is_whole(times) or times < 0:
        raise OptionsError(f"{name} is {times!r}; it must be a whole number, not negative")


def _check_cuts(cuts: object, num_slices: int) -> None:
    if cuts is None or cuts == ():
        return
    known = cuts if isinstance(cuts, tuple) and all(map(is_whole, cuts)) else (0,)
    if any(a >= b for a, b in itertools.pairwise((0, *known, num_slices))):
        raise OptionsError(
            f"cuts is {shown(cuts)}; give a tuple of ascending numbers from 1 on, below num_returns ({num_slices})"
        )


def check_amounts(resources: object, **amounts: object) -> None:
    """Raises ``OptionsError`` unless resources by name, and further amounts, are finite and not negative."""
    if not isinstance(resources, Mapping):
        raise OptionsError(
            f"resources is {shown(resources)}; give a dictionary of names and numbers"
        )
    for name, amount in resources.items():
        if not isinstance(name, str):
            raise OptionsError(f"resources names {shown(name)}; it must be text")
        if name in (CPU, GPU):
            raise OptionsError(f"resources names {name!r}; use num_{name.lower()}s for that")
        amounts[f"resources[{name!r}]"] = amount
    for name, amount in amounts.items():
        if not (is_number(amount) and math.isfinite(amount) and amount >= 0):
            raise OptionsError(
                f"{name} is {shown(amount)}; it must be a number that is not negative"
            )


def _check_needs(options: TaskOptions | ActorOptions) -> None:
    check_amounts(
        options.resources,
        num_cpus=options.num_cpus,
        num_gpus=options.num_gpus,
        memory=options.memory,
    )
    for option, value in (("node", options.node), ("name", options.name)):
        if not isinstance(value, str | None):
            raise OptionsError(f"{option} is {shown(value)}; it must be text")
    if options.executor not in ("process", "thread"):
        raise OptionsError(f"unknown executor {options.executor!r}; known are process, thread")
