"""Runs attempts: the time that a task takes, its function if that is to run, and the memory of its result.

A task's time is that of its cost model, or else what starting it takes (``Cluster.task_seconds``). A function that runs
takes no virtual time by itself: what it computes is real, and how long it takes is the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from exoshuffle.engines.sim.clock.routines import Routine, Stopped
from exoshuffle.engines.sim.faults import Faults
from exoshuffle.engines.sim.models import Call, Cost, CostModel, Step
from exoshuffle.engines.sim.objects.state import State, Status
from exoshuffle.engines.sim.objects.store import Priority
from exoshuffle.engines.sim.objects.values import Pickled, at_rest
from exoshuffle.engines.sim.tasks.outcomes import Outcomes
from exoshuffle.engines.sim.tasks.task import Attempt, Task
from exoshuffle.engines.sim.tasks.world import World
from exoshuffle.engines.unpicklable import pickled
from exoshuffle.errors import WorkerDiedError
from exoshuffle.futures import Engine
from exoshuffle.futures.engine import set_task_engine

#: The function that runs after a step.
Then = Callable[[], None]


class Running:
    """See above.

    Args:
        world: Has the time.
        engine: The engine that the functions of tasks see.
        outcomes: Takes what becomes of attempts.
        models: Cost models by the name of the task; None if all functions run.
        faults: The faults to make.
    """

    def __init__(
        self,
        world: World,
        engine: Engine,
        outcomes: Outcomes,
        models: Mapping[str, CostModel] | None,
        faults: Faults,
    ) -> None:
        self._world = world
        self._engine = engine
        self._outcomes = outcomes
        self._models = models
        self._faults = faults
        #: Has the items of a generator handed over.
        self.run_stream: Callable[[Attempt, Iterable[object]], None]

    def run(self, attempt: Attempt) -> None:
        """Runs an attempt that has its resources and its arguments."""
        task = attempt.task
        task.attempt_number += 1
        attempt.started = self._world.clock.now
        name, serial, number = task.name, task.serial, task.attempt_number
        self._world.clock.note("start", name, serial, number, attempt.place.name)
        death = self._faults.death(name, serial, number)
        slowness = attempt.place.machine.slowness * self._faults.slowness(name, serial, number)
        cost = self._cost(attempt)
        steps = [Step(cpu_seconds=self._world.cluster.task_seconds), *cost.steps]

        def done() -> None:
            if death == "before":
                self._die(attempt)
            elif self._models is None:
                self._call(attempt)
            else:
                self._modelled(attempt, cost.output_bytes)

        self._take(attempt, steps, slowness, done)

    def _cost(self, attempt: Attempt) -> Cost:
        if self._models is None:
            return Cost()
        task = attempt.task
        inputs = attempt.input_bytes, attempt.num_inputs
        return self._models[task.name](
            Call(task.name, task.serial, *inputs, task.options.num_slices)
        )

    # --- time --------------------------------------------------------------------------------------------------

    def _take(self, attempt: Attempt, steps: list[Step], slowness: float, done: Then) -> None:
        """Lets the steps happen one after the other."""
        if not steps:
            done()
            return
        step, *further = steps
        self._step(attempt, step, slowness, lambda: self._take(attempt, further, slowness, done))

    def _step(self, attempt: Attempt, step: Step, slowness: float, done: Then) -> None:
        world, place = self._world, attempt.place
        left = 1

        def one_less() -> None:
            nonlocal left
            left -= 1
            if left == 0 and not attempt.is_over:
                done()

        if step.read_bytes or step.read_requests:
            left += 1
            flow = world.read_storage(place, step.read_bytes, step.read_requests, one_less)
            attempt.flows[flow] = None
        if step.write_bytes or step.write_requests:
            left += 1
            flow = world.write_storage(place, step.write_bytes, step.write_requests, one_less)
            attempt.flows[flow] = None
        if step.disk_read_bytes or step.disk_write_bytes:
            left += 1
            used = step.disk_read_bytes, step.disk_write_bytes, step.disk_requests
            attempt.flows[world.use_disk(place, *used, one_less)] = None
        world.counts["cpu_microseconds"] += round(1e6 * step.cpu_seconds * slowness)
        attempt.timers.append(world.clock.after(step.cpu_seconds * slowness, one_less))

    # --- functions ---------------------------------------------------------------------------------------------

    def _call(self, attempt: Attempt) -> None:
        """Runs the function, on a thread of its own, until it ends or waits."""
        routine = Routine(lambda: self._body(attempt), self._world.threads)
        routine.owner = attempt
        attempt.routine = routine
        routine.resume()

    def _body(self, attempt: Attempt) -> None:
        set_task_engine(self._engine)
        try:
            self._called(attempt)
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001  whatever it is, it belongs to the task
            if not attempt.is_over:
                self._outcomes.failed(attempt, error)
        finally:
            set_task_engine(None)

    def _called(self, attempt: Attempt) -> None:
        task = attempt.task
        fn = task.function()
        args = [argument.value(attempt.parts) for argument in task.args]
        kwargs = {name: each.value(attempt.parts) for name, each in task.kwargs.items()}
        returned = fn(*args, **kwargs)
        del args, kwargs
        if attempt.is_over:
            return
        if task.is_constructor and task.actor is not None:
            task.actor.instance = returned
            self._store(attempt, 0, lambda _: None)
            return
        if task.options.is_streaming:
            assert isinstance(returned, Iterable)
            self.run_stream(attempt, returned)
            return
        parts = at_rest(returned, task.options.num_slices, lambda value: pickled(Pickled, value))
        sizes = [len(part) for part in parts]
        self._store(attempt, sum(sizes), lambda state: _fill(state, parts, sizes))

    # --- results -----------------------------------------------------------------------------------------------

    def _modelled(self, attempt: Attempt, num_bytes: int) -> None:
        def fill(state: State) -> None:
            state.part_bytes = num_bytes

        self._store(attempt, num_bytes, fill)

    def _store(self, attempt: Attempt, num_bytes: int, fill: Callable[[State], None]) -> None:
        def stored(in_memory: bool) -> None:
            task = attempt.task
            death = self._faults.death(task.name, task.serial, task.attempt_number)
            if death == "after":
                self._die(attempt)
                return
            state = None if task.result is None else task.result()
            if state is not None and not state.is_over:
                fill(state)
                self.publish(attempt, state, num_bytes, in_memory=in_memory)
                self._lose_later(task, state)
            self._outcomes.succeeded(attempt)

        self.make_room(attempt, num_bytes, stored)

    def make_room(self, attempt: Attempt, num_bytes: int, then: Callable[[bool], None]) -> None:
        """Waits for memory for a result, or for a place on disk, where it is written at once."""
        store = attempt.place.store

        def granted(in_memory: bool) -> None:
            if attempt.is_over:
                store.release(num_bytes if in_memory else 0)
                return
            attempt.request = None
            attempt.result_bytes = num_bytes if in_memory else 0
            if in_memory:
                then(True)
            else:
                store.write(num_bytes, lambda: None if attempt.is_over else then(False))

        attempt.request = store.request(num_bytes, Priority.OUTPUT, granted)

    def publish(self, attempt: Attempt, state: State, num_bytes: int, *, in_memory: bool) -> None:
        """Makes a result a block, if anybody still wants it."""
        attempt.result_bytes = 0
        if state.is_wanted:
            attempt.place.store.keep(state, num_bytes, in_memory=in_memory)
            if self._world.shared.num_losses:
                self._world.shared.num_moves += 1
            state.end(Status.DONE)
            self._world.counts["made_bytes"] += num_bytes
        else:
            state.status, state.parts = Status.LOST, None
            attempt.place.store.release(num_bytes if in_memory else 0)

    def _lose_later(self, task: Task, state: State) -> None:
        seconds = self._faults.loss_seconds(task.name, task.serial, task.attempt_number)
        if seconds is not None and state.copy is not None and task.actor is None:
            copy = state.copy
            self._world.clock.after(seconds, lambda: self._outcomes.lose([copy]))

    def _die(self, attempt: Attempt) -> None:
        task = attempt.task
        error = WorkerDiedError(
            f"the worker of {task.name} {task.serial} died in attempt {task.attempt_number}, as the faults say"
        )
        if task.actor is None:
            self._outcomes.failed(attempt, error)
        else:
            self._outcomes.actor_died(task, error)


def _fill(state: State, parts: list[object], sizes: list[int]) -> None:
    state.parts, state.part_bytes = parts, sizes
