"""The items of a generator task.

Guarantee: item i is the same object whichever attempt of the task made it. The stream keeps an item until somebody
takes it. An attempt that runs again makes only items that are new or were lost. Each item takes the time of starting a
task: without it, a generator without end would never let time go on.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable, Iterable

from exoshuffle.engines.sim.clock.routines import Stopped, current_routine
from exoshuffle.engines.sim.objects.state import Handle, State
from exoshuffle.engines.sim.objects.values import Pickled, at_rest
from exoshuffle.engines.sim.tasks.outcomes import Outcomes
from exoshuffle.engines.sim.tasks.running import Running
from exoshuffle.engines.sim.tasks.task import Attempt, Task
from exoshuffle.engines.sim.tasks.waits import Wait, Waits
from exoshuffle.engines.sim.tasks.world import World
from exoshuffle.engines.unpicklable import pickled
from exoshuffle.errors import TaskCancelledError
from exoshuffle.futures.refs import Ref


class Stream:
    """The engine's side of a ``RefStream``; see ``StreamHandle``."""

    def __init__(self, task: Task, streams: Streams) -> None:
        self.task = task
        self._streams = streams
        self.untaken: collections.deque[Handle] = collections.deque()
        self.most_ahead: float = float("inf")
        self.error: BaseException | None = None
        self.has_ended = False
        self.num_made = 0
        self._waiting: list[Callable[[], None]] = []

    def add(self, handle: Handle) -> None:
        """Takes a new item."""
        self.untaken.append(handle)
        self.num_made += 1
        self._tell()

    def end(self, error: BaseException | None) -> None:
        """Ends the stream."""
        if not self.has_ended:
            self.has_ended, self.error = True, error
            self._tell()

    def when_changed(self, action: Callable[[], None]) -> None:
        """Has something happen when an item comes or goes, or the stream ends."""
        self._waiting.append(action)

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()

    def take(self) -> Ref:
        """Returns the next item, which is there."""
        ref = Ref(self.untaken.popleft())
        self._tell()
        return ref

    def next_ref(self, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle``; who takes items takes them in order."""
        del index
        return self._streams.next_ref(self, timeout)

    def limit_ahead(self, count: int) -> None:
        """See ``StreamHandle``."""
        self.most_ahead = max(1, count)

    def cancel(self) -> bool:
        """See ``StreamHandle``."""
        return self._streams.cancel(self)

    def drop(self) -> None:
        """See ``StreamHandle``; the engine looks between events."""
        self._streams.dropped.append(self)


class Streams:
    """Hands items over.

    Args:
        world, waits, outcomes, running: Parts of the engine.
    """

    def __init__(self, world: World, waits: Waits, outcomes: Outcomes, running: Running) -> None:
        self._world = world
        self._waits = waits
        self._outcomes = outcomes
        self._running = running
        self.dropped: collections.deque[Stream] = collections.deque()
        running.run_stream = self.run

    def made_for(self, task: Task) -> Stream:
        """Makes the stream of a task."""
        stream = Stream(task, self)
        task.stream = weakref.ref(stream)
        return stream

    # --- the one who takes -------------------------------------------------------------------------------------

    def next_ref(self, stream: Stream, timeout: float | None) -> Ref | None:
        """See ``StreamHandle``."""
        with self._waits.turn:
            self._waits.check_open()
            self._waits.charge()
            if not stream.untaken and not stream.has_ended:
                wait = Wait(self._world, 1)
                stream.when_changed(wait.one_more)
                self._waits.block(wait, timeout)
            if stream.untaken:
                return stream.take()
            if stream.error is not None:
                raise stream.error
            if stream.has_ended:
                return None
            raise TimeoutError(
                f"no item of {stream.task.name} has come in {timeout} s of virtual time"
            )

    def cancel(self, stream: Stream) -> bool:
        """See ``StreamHandle``."""
        with self._waits.turn:
            self._waits.check_open()
            if stream.has_ended:
                return False
            error = TaskCancelledError(f"{stream.task.name} was cancelled")
            self._end(stream, error)
            return True

    def drop_all(self) -> None:
        """Ends the tasks of streams that nobody has any more."""
        while self.dropped:
            stream = self.dropped.popleft()
            stream.untaken.clear()
            if not stream.has_ended and not self._waits.is_closed:
                self._end(
                    stream, TaskCancelledError(f"the stream of {stream.task.name} was dropped")
                )

    def _end(self, stream: Stream, error: BaseException) -> None:
        attempt = stream.task.attempt
        self._outcomes.fail(stream.task, error)
        if attempt is not None:
            self._outcomes.stop(attempt, error)

    # --- the task ----------------------------------------------------------------------------------------------

    def run(self, attempt: Attempt, items: Iterable[object]) -> None:
        """Hands over the items of a generator; runs on the task's thread."""
        task = attempt.task
        number = -1
        for number, value in enumerate(items):
            self._pass(attempt, number, value)
            del value
            if number in task.wanted_items:
                task.wanted_items.discard(number)
        stream = _stream_of(task)
        if stream is not None:
            stream.end(None)
        self._outcomes.succeeded(attempt)

    def _pass(self, attempt: Attempt, number: int, value: object) -> None:
        task = attempt.task
        stream = _stream_of(task)
        is_new = stream is not None and number == stream.num_made
        if is_new and stream is not None:
            while len(stream.untaken) >= stream.most_ahead and not task.wanted_items:
                wait = Wait(self._world, 1)
                stream.when_changed(wait.one_more)
                self._waits.block(wait)
        elif number not in task.wanted_items:
            return
        (part,) = at_rest(value, 1, lambda item: pickled(Pickled, item))

        def add(in_memory: bool) -> None:
            state = self._state(task, number)
            handle = state.kept()
            state.parts, state.part_bytes = [part], [len(part)]
            if not state.is_over:
                self._running.publish(attempt, state, len(part), in_memory=in_memory)
            taker = _stream_of(task)
            if is_new and taker is not None:
                taker.add(handle)

        self._await_room(attempt, len(part), add)

    def _state(self, task: Task, number: int) -> State:
        known = task.items.get(number)
        state = None if known is None else known()
        if state is None:
            state = State(next(self._world.numbers), 1, task, self._world.shared, number)
            task.items[number] = weakref.ref(state)
        return state

    def _await_room(self, attempt: Attempt, num_bytes: int, then: Callable[[bool], None]) -> None:
        """Pauses the task until its item is stored."""
        wait = Wait(self._world, 1)

        def stored(in_memory: bool) -> None:
            then(in_memory)
            wait.one_more()

        def ask() -> None:
            if not attempt.is_over:
                self._running.make_room(attempt, num_bytes, stored)

        attempt.timers.append(self._world.clock.after(self._world.cluster.task_seconds, ask))
        routine = current_routine()
        assert routine is not None
        if attempt.is_over:
            raise Stopped
        wait.routine = routine
        routine.pause(wait)


def _stream_of(task: Task) -> Stream | None:
    """Returns the stream of a generator, unless nobody has it any more."""
    stream = None if task.stream is None else task.stream()
    return stream if isinstance(stream, Stream) else None
