"""Waiting, timeouts and cancelling: for engines whose tasks run at the same time as the program."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError, TaskCancelledError
from exoshuffle.futures import ActorHandle, running
from exoshuffle.futures.refs import Ref, SliceRef
from exoshuffle.testing.conformance import Conformance
from exoshuffle.testing.meeting import (
    PATIENCE_SECONDS,
    Counter,
    Gate,
    Log,
    await_count,
    helper,
    pass_gate,
    poll,
)
from exoshuffle.testing.programs import Mortal, big, double

TOKEN = {"token": 1.0}


async def _value(ref: Ref | SliceRef) -> object:
    return await ref


class WaitConformance(Conformance):
    """Tasks run while the program goes on; it can wait for some of them, for a while, and change its mind."""

    def test_tasks_run_at_the_same_time(self, executor: str) -> None:
        def meet(counter: ActorHandle) -> int:
            xs.get(counter.add.remote())
            await_count(counter, 2)
            return 1

        counter = helper(Counter)
        run = xs.remote(meet, executor=executor)
        assert xs.get([run.remote(counter) for _ in range(2)]) == [1, 1]

    def test_wait_says_what_is_done(self, executor: str) -> None:
        gate = Gate()
        slow = xs.remote(pass_gate, executor=executor).remote(gate, "slow")
        quick = [xs.remote(double, executor=executor).remote(i) for i in range(2)]
        assert xs.wait([slow, *quick], num_ready=2) == (quick, [slow])
        assert xs.wait([slow, *quick], num_returns=2) == (quick, [slow])
        assert xs.wait([slow], num_ready=1, timeout=0) == ([], [slow])
        assert xs.wait([quick[1], slow], num_ready=2, timeout=0.05) == ([quick[1]], [slow])
        gate.open()
        assert xs.wait([slow, *quick], num_ready=3) == ([slow, *quick], [])
        assert xs.get(slow) == "slow"

    def test_failures_are_done_too(self) -> None:
        broken = xs.remote(lambda: 1 / 0).remote()
        assert xs.wait([broken]) == ([broken], [])

    def test_wait_for_none_and_for_too_many(self) -> None:
        ref = xs.put(1)
        assert xs.wait([], num_ready=0) == ([], [])
        with pytest.raises(OptionsError, match="num_ready is 2 for 1 references"):
            xs.wait([ref], num_ready=2)

    def test_coroutines_await(self, executor: str) -> None:
        """While one waits, others go on; a wait that was given up leaves the task alone."""
        gate = Gate()
        slow = xs.remote(pass_gate, executor=executor).remote(gate, "slow")
        several = xs.remote(lambda: [1, 2], num_returns=2, executor=executor).remote()

        async def waits() -> list[object]:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_value(slow), 0.05)
            made = await asyncio.gather(_value(xs.put(1)), _value(several[1]))
            with pytest.raises(ZeroDivisionError):
                await xs.remote(lambda: 1 / 0, executor=executor).remote()
            gate.open()
            return [*made, await slow]

        assert asyncio.run(waits()) == [1, 2, "slow"]

    def test_get_gives_up_after_the_timeout(self, executor: str) -> None:
        gate = Gate()
        slow = xs.remote(pass_gate, executor=executor).remote(gate, 7)
        for timeout in (0, 0.02):
            with pytest.raises(TimeoutError):
                xs.get(slow, timeout=timeout)
        gate.open()
        assert xs.get(slow, timeout=PATIENCE_SECONDS) == 7

    def test_a_stream_can_be_asked_again(self, executor: str) -> None:
        def produce(gate: Gate) -> Iterator[str]:
            yield "at once"
            gate.await_opening()
            yield "late"

        gate = Gate()
        stream = xs.remote(produce, num_returns="streaming", executor=executor).remote(gate)
        assert xs.get(next(stream)) == "at once"
        for timeout in (0, 0.02):
            with pytest.raises(TimeoutError):
                stream.next(timeout)
        gate.open()
        assert [xs.get(ref) for ref in stream] == ["late"]

    def test_it_is_known_how_long_a_task_runs(self, executor: str) -> None:
        gate = Gate()
        run = xs.remote(pass_gate, executor=executor, tells_begin=True)
        slow = run.remote(gate, 1)
        behind = run.remote(gate, slow)
        gate.await_arrivals(1)
        if running(slow) is None:
            pytest.skip("this engine does not know")
        xs.wait([slow], timeout=0.01)
        nodes = {node.name for node in xs.nodes()}
        poll(lambda: (found := running(slow)) is not None and found.node in nodes)
        xs.wait([slow], timeout=0.01)
        found = running(slow)
        assert found is not None
        assert found.seconds > 0
        assert running(behind) == (0, "")
        gate.open()
        xs.wait([slow])
        assert running(slow) is None

    def test_objects_are_somewhere_once_they_exist(self, executor: str) -> None:
        gate = Gate()
        ref = xs.remote(pass_gate, executor=executor).remote(gate, big(1))
        assert xs.locate(ref) == []
        gate.open()
        xs.wait([ref])
        assert xs.locate(ref)

    def test_tasks_that_wait_for_arguments_can_be_cancelled(self, executor: str) -> None:
        gate = Gate()
        slow = xs.remote(pass_gate).remote(gate, 1)
        waiting = xs.remote(double, executor=executor).remote(slow)
        dependent = xs.remote(double, executor=executor).remote(waiting)
        assert xs.cancel(waiting)
        for ref in (waiting, dependent):
            with pytest.raises(TaskCancelledError):
                xs.get(ref, timeout=PATIENCE_SECONDS)
        gate.open()
        assert xs.get(slow) == 1

    def test_queued_tasks_can_be_cancelled(self, executor: str) -> None:
        gate = Gate()
        holder = xs.remote(pass_gate, executor=executor, resources=TOKEN).remote(gate, 1)
        gate.await_arrivals(1)
        queued = xs.remote(double, executor=executor, resources=TOKEN).remote(1)
        assert xs.cancel(queued)
        with pytest.raises(TaskCancelledError):
            xs.get(queued, timeout=PATIENCE_SECONDS)
        gate.open()
        assert xs.get(holder) == 1

    def test_cancelled_tasks_leave_room_for_others(self, executor: str) -> None:
        gate = Gate()
        holder = xs.remote(pass_gate, executor=executor, resources=TOKEN).remote(gate, 1)
        gate.await_arrivals(1)
        arguments = [xs.put(number) for number in range(8)]
        queued = [
            xs.remote(double, executor=executor, resources=TOKEN).remote(ref) for ref in arguments
        ]
        assert all(map(xs.cancel, queued))
        gate.open()
        later = [xs.remote(double, executor=executor).remote(ref) for ref in arguments]
        assert [xs.get(ref, timeout=PATIENCE_SECONDS) for ref in later] == list(range(0, 16, 2))
        assert xs.get(holder) == 1

    def test_tasks_that_wait_for_a_resource_are_in_nobodys_way(self, executor: str) -> None:
        gate, argument = Gate(), xs.put(4)

        def hold(inside: list[xs.Ref]) -> int:
            gate.await_opening()
            # It queues behind tasks that wait for the resource that this task has.
            return int(xs.get(xs.remote(double).remote(inside[0]), timeout=PATIENCE_SECONDS))

        holder = xs.remote(hold, executor=executor, resources=TOKEN).remote([argument])
        gate.await_arrivals(1)
        waiting = [
            xs.remote(double, executor=executor, resources=TOKEN).remote(argument) for _ in range(8)
        ]
        gate.open()
        assert xs.get(holder) == 8
        assert xs.get(waiting) == [8] * 8

    def test_a_cancelled_call_lets_those_behind_it_go_on(self, executor: str) -> None:
        gate, log = Gate(), xs.remote(Log, executor=executor).remote()
        slow = xs.remote(pass_gate).remote(gate)
        first = log.append.remote(slow)
        second = log.append.remote("second")
        assert xs.cancel(first)
        xs.get(second, timeout=PATIENCE_SECONDS)
        with pytest.raises(TaskCancelledError):
            xs.get(first, timeout=PATIENCE_SECONDS)
        assert xs.get(log.items.remote()) == ["second"]
        gate.open()

    def test_running_calls_are_cancelled_or_go_on(self, executor: str) -> None:
        actor, gate = xs.remote(Mortal, executor=executor).remote(), Gate()
        running = actor.wait.remote(gate)
        gate.await_arrivals(1)
        cancelled = xs.cancel(running)
        gate.open()
        if cancelled:
            with pytest.raises(TaskCancelledError):
                xs.get(running, timeout=PATIENCE_SECONDS)
        else:
            assert xs.get(running) is None
        assert xs.get(actor.call.remote(), timeout=PATIENCE_SECONDS) == 1

    def test_running_tasks_are_cancelled_or_go_on(self, executor: str) -> None:
        gate = Gate()
        running = xs.remote(pass_gate, executor=executor, resources=TOKEN).remote(gate, 7)
        gate.await_arrivals(1)
        cancelled = xs.cancel(running)
        if not cancelled:
            gate.open()
            assert xs.get(running) == 7
        else:
            with pytest.raises(TaskCancelledError):
                xs.get(running, timeout=PATIENCE_SECONDS)
        # Either way the task has ended, and given back what it held.
        later = xs.remote(double, resources=TOKEN).remote(4)
        assert xs.get(later, timeout=PATIENCE_SECONDS) == 8

    def test_finished_tasks_are_not_cancelled(self) -> None:
        ref = xs.remote(double).remote(2)
        xs.wait([ref])
        assert not xs.cancel(ref)
        assert xs.get(ref) == 4

    def test_what_nobody_can_ask_for_never_starts(self, executor: str) -> None:
        gate, log = Gate(), helper(Log)

        def tell(item: str) -> None:
            xs.get(log.append.remote(item))

        holder = xs.remote(pass_gate, executor=executor, resources=TOKEN).remote(gate)
        gate.await_arrivals(1)
        run = xs.remote(tell, executor=executor, resources=TOKEN)
        unwanted = [run.remote("unwanted") for _ in range(3)]
        wanted = run.remote("wanted")
        del unwanted
        gc.collect()
        gate.open()
        assert xs.get([holder, wanted]) == [None, None]
        assert xs.get(log.items.remote()) == ["wanted"]

    def test_actors_hold_what_they_ask_for(self, executor: str) -> None:
        actor = xs.remote(Counter, executor=executor, num_gpus=1, resources=TOKEN).remote()
        assert xs.get(actor.add.remote()) == 1
        blocked = xs.remote(double, resources=TOKEN).remote(3)
        # Others run meanwhile, one after the other, and so could the blocked one.
        assert [xs.get(xs.remote(double).remote(number)) for number in range(10)][-1] == 18
        assert xs.wait([blocked], timeout=0) == ([], [blocked])
        xs.kill(actor)
        assert xs.get(blocked) == 6
