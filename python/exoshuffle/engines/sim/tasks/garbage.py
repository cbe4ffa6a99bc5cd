"""Frees objects, and ends streams and actors, that nobody has a handle of any more."""

from __future__ import annotations

from exoshuffle.engines.sim.objects.state import Status
from exoshuffle.engines.sim.tasks.actors import Actor, Actors
from exoshuffle.engines.sim.tasks.streams import Streams
from exoshuffle.engines.sim.tasks.task import Task
from exoshuffle.engines.sim.tasks.world import World


class Garbage:
    """The objects that have been dropped since they were last collected.

    Args:
        world, actors, streams: Parts of the engine.
    """

    def __init__(self, world: World, actors: Actors, streams: Streams) -> None:
        self._world = world
        self._actors = actors
        self._streams = streams

    def collect(self) -> None:
        """Frees objects and ends tasks that nobody wants any more."""
        dropped = self._world.shared.dropped
        while dropped:
            state = dropped.popleft()
            if state.is_wanted:
                continue
            task = state.task
            if isinstance(task, Task) and task.is_constructor and isinstance(task.actor, Actor):
                self._actors.forget(task.actor)
            elif state.status is Status.DONE:
                if state.copy is not None:
                    self._world.places[state.copy.node].store.drop(state.copy)
                state.parts = state.copy = None
                state.status = Status.LOST
        self._streams.drop_all()
