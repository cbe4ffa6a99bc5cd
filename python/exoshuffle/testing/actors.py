"""Actors: state, order of calls, errors, handles as values, and their end."""

from __future__ import annotations

import gc

import pytest

import exoshuffle as xs
from exoshuffle.errors import ActorDiedError, OptionsError, TaskError
from exoshuffle.futures import ActorHandle
from exoshuffle.testing.conformance import Conformance
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Counter, Log, helper
from exoshuffle.testing.programs import Fragile, Servant, big, decorated, double, gathered


class ActorConformance(Conformance):
    """State stays between calls, which run one at a time, in the order in which each caller made them."""

    def test_state_stays(self, executor: str) -> None:
        counter = xs.remote(Counter, executor=executor).remote(10)
        assert [xs.get(counter.add.remote()) for _ in range(3)] == [11, 12, 13]
        assert xs.get(counter.add.remote(amount=7)) == 20
        other = xs.remote(Counter, executor=executor).remote(value=xs.put(100))
        assert xs.get([other.value.remote(), counter.value.remote()]) == [100, 20]

    def test_calls_keep_their_order(self, executor: str) -> None:
        log = xs.remote(Log, executor=executor).remote()
        xs.get([log.append.remote(i) for i in range(100)])
        assert xs.get(log.items.remote()) == list(range(100))

    def test_an_argument_that_comes_late_keeps_the_order(self, executor: str) -> None:
        log = xs.remote(Log, executor=executor).remote()
        late = xs.put(1)
        for _ in range(5):
            late = decorated.remote(late)
        log.append.remote(late)
        log.append.remote("later")
        assert xs.get(log.items.remote()) == [6, "later"]

    def test_every_caller_has_its_order(self, executor: str) -> None:
        def tell(log: ActorHandle, caller: int) -> None:
            xs.get([log.append.remote((caller, i)) for i in range(30)])

        log = xs.remote(Log, executor=executor).remote()
        xs.get([xs.remote(tell).remote(log, caller) for caller in range(3)])
        items = xs.get(log.items.remote())
        for caller in range(3):
            assert [i for who, i in items if who == caller] == list(range(30))
        assert len(items) == 90

    def test_a_constructor_that_fails_shows_in_the_calls(self, executor: str) -> None:
        actor = xs.remote(Fragile, executor=executor).remote(sound=False)
        for _ in range(2):
            with pytest.raises(TaskError, match="born broken") as caught:
                xs.get(actor.calls.remote())
            assert isinstance(caught.value.__cause__, ValueError)

    def test_a_failed_argument_of_the_constructor_shows_too(self, executor: str) -> None:
        broken = xs.remote(lambda: 1 / 0, name="broken").remote()
        actor = xs.remote(Counter, executor=executor).remote(broken)
        with pytest.raises(TaskError, match="broken"):
            xs.get(actor.value.remote())

    def test_a_failed_call_leaves_the_actor(self, executor: str) -> None:
        actor = xs.remote(Fragile, executor=executor).remote()
        with pytest.raises(TaskError, match="a bad call") as caught:
            xs.get(actor.fail.remote())
        assert isinstance(caught.value.__cause__, ValueError)
        assert "fail" in caught.value.task_name
        assert xs.get(actor.calls.remote()) == 1

    def test_calls_are_not_repeated_unless_asked_for(self, executor: str) -> None:
        actor = xs.remote(Fragile, executor=executor).remote()
        with pytest.raises(TaskError, match="call 1"):
            xs.get(actor.fail_at_first.remote(1))
        assert xs.get(actor.fail_at_first.options(max_retries=2).remote(3)) == 4

    def test_methods_return_several_values(self, executor: str) -> None:
        actor = xs.remote(Servant, executor=executor).remote()
        ref = actor.names.options(num_returns=3).remote("v", 3)
        assert xs.get(ref[1]) == "v1"
        assert xs.get(ref[1:]) == ["v1", "v2"]
        block = actor.block.options(num_returns=2).remote()
        assert [bytes(part) for part in xs.get(block)] == [b"\0\1", b"\2\3\4"]

    def test_results_of_calls_are_arguments(self, executor: str) -> None:
        log = xs.remote(Log, executor=executor).remote()
        log.append.remote(xs.remote(big).remote(3))
        assert xs.get(xs.remote(gathered).remote(log.items.remote())) == [[big(3)]]

    def test_methods_use_tasks_and_actors(self, executor: str) -> None:
        worker = xs.remote(Servant, executor=executor).remote()
        assert xs.get(worker.by_task.remote(4)) == 8
        assert xs.get(worker.by_actor.remote(helper(Counter, 1))) == 6

    def test_handles_are_values(self, executor: str) -> None:
        def add(inside: dict[str, ActorHandle]) -> int:
            return int(xs.get(inside["counter"].add.remote()))

        counter = xs.remote(Counter, executor=executor).remote()
        assert xs.get(xs.remote(add, executor=executor).remote({"counter": counter})) == 1
        again = xs.get(xs.remote(gathered).remote(counter))[0]
        assert xs.get(again.add.remote()) == 2

    def test_a_task_makes_an_actor(self, executor: str) -> None:
        def make(start: int) -> ActorHandle:
            counter = xs.remote(Counter, executor=executor).remote(start)
            xs.get(counter.add.remote())
            return counter

        counter = xs.get(xs.remote(make, executor=executor).remote(5))
        assert xs.get(counter.add.remote()) == 7

    @pytest.mark.parametrize("maker", ["process", "thread"])
    def test_a_task_makes_an_actor_of_another_kind(self, executor: str, maker: str) -> None:
        def make(executor: str, start: int) -> ActorHandle:
            return xs.remote(Counter, executor=executor).remote(xs.put(start))

        counter = xs.get(xs.remote(make, executor=maker).remote(executor, 5))
        assert xs.get([counter.add.remote() for _ in range(3)]) == [6, 7, 8]
        add = xs.remote(lambda inside: xs.get(inside[0].add.remote(xs.put(2))), executor=maker)
        assert xs.get(add.remote([counter])) == 10

    def test_calls_made_are_done_after_the_last_handle(self, executor: str) -> None:
        result = xs.remote(Counter, executor=executor).remote(1).add.remote(4)
        gc.collect()
        assert xs.get(result) == 5

    def test_the_last_handle_ends_the_actor(self, executor: str) -> None:
        actor = xs.remote(Counter, executor=executor, resources={"token": 1}).remote()
        assert xs.get(actor.add.remote()) == 1
        del actor
        gc.collect()
        # The actor held the token, and would for ever.
        later = xs.remote(double, resources={"token": 1}).remote(4)
        assert xs.get(later, timeout=PATIENCE_SECONDS) == 8

    def test_actors_leave_the_cpus_to_tasks(self, executor: str) -> None:
        actors = [xs.remote(Counter, executor=executor).remote() for _ in range(4)]
        assert xs.get([actor.add.remote() for actor in actors]) == [1, 1, 1, 1]
        # A task cannot have CPUs of several nodes.
        all_of_one = max(node.resources["CPU"] for node in xs.nodes())
        assert xs.get(xs.remote(double, num_cpus=all_of_one).remote(1)) == 2

    def test_killed_actors_take_no_calls(self, executor: str) -> None:
        counter = xs.remote(Counter, executor=executor, max_restarts=3).remote()
        value = counter.add.remote()
        assert xs.get(value) == 1
        xs.kill(counter)
        with pytest.raises(ActorDiedError):
            xs.get(counter.add.remote())
        assert xs.get(value) == 1

    def test_unknown_methods_are_named(self) -> None:
        counter = helper(Counter)
        with pytest.raises(AttributeError, match=r"no method 'subtract'; it has add, value"):
            counter.subtract.remote()
        with pytest.raises(OptionsError, match="num_cpus"):
            counter.add.options(num_cpus=2)

    def test_actors_are_called_remotely(self) -> None:
        with pytest.raises(TypeError, match="remote"):
            xs.remote(Counter)()
        with pytest.raises(TypeError, match="remote"):
            helper(Counter).add()
