"""Makes tasks of what the program submits, and the references to what they will make."""

from __future__ import annotations

import weakref
from collections import Counter

from exoshuffle.engines.sim.objects.arguments import Argument, pickled
from exoshuffle.engines.sim.objects.state import State
from exoshuffle.engines.sim.objects.values import Pickled
from exoshuffle.engines.sim.tasks.streams import Streams
from exoshuffle.engines.sim.tasks.task import Task
from exoshuffle.engines.sim.tasks.world import World
from exoshuffle.futures.options import TaskOptions
from exoshuffle.futures.refs import Ref, RefStream

#: Functions whose pickles are kept.
_KNOWN = 64


class Submissions:
    """See above.

    Args:
        world: Numbers tasks and objects.
        streams: Makes the streams of generators.
        has_functions: Whether functions run; models need none.
    """

    def __init__(self, world: World, streams: Streams, *, has_functions: bool) -> None:
        self._world = world
        self._streams = streams
        self._has_functions = has_functions
        self._serials: Counter[str] = Counter()
        self._functions: dict[int, tuple[object, Pickled]] = {}

    def task(
        self,
        name: str,
        fn: Pickled,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: TaskOptions,
    ) -> Task:
        """Makes a task.

        Raises:
            OptionsError: An argument cannot be pickled.
        """
        given = [Argument(arg, f"argument {index} of {name}") for index, arg in enumerate(args)]
        task = Task(next(self._world.numbers), name, fn, given, options)
        task.kwargs = {
            key: Argument(arg, f"argument {key} of {name}") for key, arg in kwargs.items()
        }
        task.serial = self._serials[name]
        self._serials[name] += 1
        return task

    def result(self, task: Task) -> Ref | RefStream:
        """Returns the reference to what a task makes."""
        if task.options.is_streaming:
            return RefStream(self._streams.made_for(task))
        number = next(self._world.numbers)
        state = State(number, task.options.num_slices, task, self._world.shared)
        ref = Ref(state.kept())
        task.result = weakref.ref(state)
        return ref

    def function(self, fn: object, name: str) -> Pickled:
        """Returns a function at rest; strategies submit the same one again and again.

        Raises:
            OptionsError: It cannot be pickled.
        """
        if not self._has_functions:
            return Pickled(None)
        known = self._functions.get(id(fn))
        if known is not None and known[0] is fn:
            return known[1]
        made = pickled(fn, f"function {name}")
        if not made.has_references:
            if len(self._functions) >= _KNOWN:
                self._functions.clear()
            self._functions[id(fn)] = fn, made
        return made
