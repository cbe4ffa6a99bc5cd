"""Worker processes: tasks and actors run apart from the program, and their death costs an attempt, no more."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import exoshuffle as xs
from exoshuffle.errors import ActorDiedError, TaskError, WorkerDiedError
from exoshuffle.testing.conformance import Conformance
from exoshuffle.testing.meeting import (
    PATIENCE_SECONDS,
    Counter,
    Gate,
    Life,
    await_count,
    helper,
    pass_gate,
)
from exoshuffle.testing.programs import Mortal, big, double


class WorkerConformance(Conformance):
    """For engines with worker processes."""

    def test_tasks_run_in_other_processes(self) -> None:
        assert xs.get(xs.remote(os.getpid).remote()) != os.getpid()

    def test_every_actor_has_a_process(self) -> None:
        actors = [xs.remote(Mortal).remote() for _ in range(2)]
        processes = xs.get([actor.process.remote() for actor in actors])
        assert len({os.getpid(), *processes}) == 3
        assert xs.get(actors[0].process.remote()) == processes[0]

    def test_a_death_costs_an_attempt(self) -> None:
        life, value = Life(deaths=2), xs.put(big(1))
        ref = xs.remote(lambda _value: life.live()).remote(value)
        others = [xs.remote(double).remote(i) for i in range(10)]
        assert xs.get(ref) == 3
        assert xs.get(others) == [2 * i for i in range(10)]
        assert xs.get(value) == big(1)

    @pytest.mark.parametrize("max_retries", [0, 1])
    def test_deaths_end(self, max_retries: int) -> None:
        life = Life(deaths=10)
        ref = xs.remote(life.live, max_retries=max_retries, name="mortal").remote()
        with pytest.raises(TaskError, match="mortal") as caught:
            xs.get(ref)
        assert life.attempts() == max_retries + 1
        dependent = xs.remote(double).remote(ref)
        with pytest.raises(TaskError, match="mortal") as passed_on:
            xs.get(dependent)
        for error in (caught.value, passed_on.value):
            assert isinstance(error.__cause__, WorkerDiedError)
            assert error.attempt == max_retries + 1
            # On several nodes, the node of a worker that died silently may not be known.
            nodes = {node.name for node in xs.nodes()}
            assert error.node in (nodes if len(nodes) == 1 else {"", *nodes})

    def test_a_task_outlives_those_that_it_waits_for(self) -> None:
        life = Life(deaths=1)
        outer = xs.remote(lambda: xs.get(xs.remote(life.live).remote()), max_retries=0)
        assert xs.get(outer.remote()) == 2

    def test_a_generator_goes_on_where_it_died(self) -> None:
        life = Life(deaths=1)

        def produce() -> Iterator[int]:
            yield 0
            yield 1
            life.live()
            yield 2

        stream = xs.remote(produce, num_returns="streaming").remote()
        assert [xs.get(ref) for ref in stream] == [0, 1, 2]
        assert life.attempts() == 2

    def test_an_actor_that_died_stays_dead(self) -> None:
        actor = xs.remote(Mortal).remote()
        assert xs.get(actor.call.remote()) == 1
        with pytest.raises(ActorDiedError):
            xs.get(actor.exit.remote())
        with pytest.raises(ActorDiedError):
            xs.get(actor.call.remote())

    def test_an_actor_comes_back_as_often_as_allowed(self) -> None:
        actor = xs.remote(Mortal, max_restarts=1).remote()
        assert [xs.get(actor.call.remote()) for _ in range(2)] == [1, 2]
        with pytest.raises(ActorDiedError):
            xs.get(actor.exit.remote())
        assert [xs.get(actor.call.remote()) for _ in range(2)] == [1, 2]
        with pytest.raises(ActorDiedError):
            xs.get(actor.exit.remote())
        with pytest.raises(ActorDiedError):
            xs.get(actor.call.remote())

    def test_calls_with_retries_outlive_a_death(self) -> None:
        actor, life = xs.remote(Mortal, max_restarts=1).remote(), Life(deaths=1)
        assert xs.get(actor.live.options(max_retries=1).remote(life)) == 2

    def test_results_outlive_their_actor(self) -> None:
        actor = xs.remote(Mortal).remote()
        results = [actor.make.remote(seed) for seed in range(3)]
        xs.wait(results, num_ready=3)
        with pytest.raises(ActorDiedError):
            xs.get(actor.exit.remote())
        assert xs.get(results) == [big(seed) for seed in range(3)]

    def test_kill_ends_calls_that_are_not_done(self) -> None:
        actor, gate = xs.remote(Mortal, max_restarts=1).remote(), Gate()
        running = actor.wait.remote(gate)
        queued = actor.call.remote()
        gate.await_arrivals(1)
        xs.kill(actor)
        for ref in (running, queued):
            with pytest.raises(ActorDiedError):
                xs.get(ref, timeout=PATIENCE_SECONDS)

    def test_kill_ends_an_actor_that_waits(self) -> None:
        gate, arrived = Gate(), helper(Counter)
        slow = xs.remote(pass_gate).remote(gate)
        actor = xs.remote(Mortal).remote()
        waiting = actor.wait_for.remote(arrived, [slow])
        await_count(arrived, 1)
        xs.kill(actor)
        with pytest.raises(ActorDiedError):
            xs.get(waiting, timeout=PATIENCE_SECONDS)
        gate.open()

    def test_a_dead_workers_resources_are_free(self) -> None:
        life = Life(deaths=1)
        token = {"token": 1.0}
        with pytest.raises(TaskError):
            xs.get(xs.remote(life.live, resources=token, max_retries=0).remote())
        gate = Gate()
        gate.open()
        later = xs.remote(pass_gate, resources=token).remote(gate, 5)
        assert xs.get(later, timeout=PATIENCE_SECONDS) == 5
