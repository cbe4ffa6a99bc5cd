"""Errors: how a failed task is reported, to whom, and what is tried again."""

from __future__ import annotations

import threading
import traceback

import pytest

import exoshuffle as xs
from exoshuffle.errors import TaskError
from exoshuffle.futures import ActorHandle, raise_errors
from exoshuffle.testing.conformance import Conformance
from exoshuffle.testing.meeting import Counter, helper
from exoshuffle.testing.programs import (
    FlakyError,
    double,
    fail_at_first,
    fail_for_a_reason,
    fail_stubbornly,
    gathered,
)


class ErrorConformance(Conformance):
    """A ``TaskError`` names the task and the attempt, and chains what the function raised."""

    def test_errors_name_task_attempt_and_cause(self, executor: str) -> None:
        ref = xs.remote(fail_for_a_reason, executor=executor, name="fragile").remote()
        with pytest.raises(TaskError, match="task fragile failed in attempt 1") as caught:
            xs.get(ref)
        error = caught.value
        assert (error.task_name, error.attempt) == ("fragile", 1)
        assert error.node in {node.name for node in xs.nodes()}
        assert isinstance(error.__cause__, ValueError)
        assert error.__cause__.args == ("the reason",)

    def test_tracebacks_show_the_function(self, executor: str) -> None:
        ref = xs.remote(fail_for_a_reason, executor=executor).remote()
        with pytest.raises(TaskError, match="fail_for_a_reason") as caught:
            xs.get(ref)
        text = "".join(traceback.format_exception(caught.value))
        assert "in fail_for_a_reason" in text
        assert 'raise ValueError("the reason")' in text

    def test_the_functions_own_errors_are_final(self, executor: str) -> None:
        def fail(attempts: ActorHandle) -> None:
            xs.get(attempts.add.remote())
            raise KeyError("missing")

        attempts = helper(Counter)
        with pytest.raises(TaskError) as caught:
            xs.get(xs.remote(fail, executor=executor, max_retries=5).remote(attempts))
        assert isinstance(caught.value.__cause__, KeyError)
        assert xs.get(attempts.value.remote()) == 1

    def test_an_interrupt_that_a_function_raises_is_its_error(self, executor: str) -> None:
        def interrupted() -> None:
            raise KeyboardInterrupt

        with pytest.raises(TaskError) as caught:
            xs.get(xs.remote(interrupted, executor=executor).remote())
        assert isinstance(caught.value.__cause__, KeyboardInterrupt)

    def test_retryable_errors_are_tried_again(self, executor: str) -> None:
        run = xs.remote(fail_at_first, executor=executor, max_retries=2)
        assert xs.get(run.remote(helper(Counter), 2)) == 3

    @pytest.mark.parametrize("max_retries", [0, 2])
    def test_attempts_end(self, executor: str, max_retries: int) -> None:
        run = xs.remote(fail_at_first, executor=executor, max_retries=max_retries)
        last = max_retries + 1
        with pytest.raises(TaskError, match=f"attempt {last} of the test's own") as caught:
            xs.get(run.remote(helper(Counter), 10))
        assert isinstance(caught.value.__cause__, FlakyError)
        assert (caught.value.task_name, caught.value.attempt) == ("fail_at_first", last)

    def test_dependents_raise_the_same_error(self, executor: str) -> None:
        broken = xs.remote(fail_for_a_reason, executor=executor).remote()
        run = xs.remote(gathered, executor=executor)
        parts = xs.remote(fail_for_a_reason, executor=executor, num_returns=2).remote()
        refs = xs.Refs([xs.put([1, 2]), parts])
        dependents = [
            run.remote(run.remote(run.remote(broken))),
            run.remote(1, parts[1]),
            run.remote(refs.column(0)),
            run.remote(refs),
        ]
        for dependent in dependents:
            with pytest.raises(TaskError, match="the reason") as caught:
                xs.get(dependent)
            assert caught.value.task_name == "fail_for_a_reason"
            assert isinstance(caught.value.__cause__, ValueError)
        for ref in (parts, parts[0], parts[:1]):
            with pytest.raises(TaskError, match="the reason"):
                xs.get(ref)

    def test_a_reference_to_a_failure_is_a_value(self, executor: str) -> None:
        broken = xs.remote(fail_for_a_reason).remote()
        (ref,) = xs.get(xs.remote(gathered, executor=executor).remote([broken]))[0]
        with pytest.raises(TaskError, match="the reason"):
            xs.get(ref)

    def test_errors_pass_through_tasks_that_wait(self, executor: str) -> None:
        def wait_for_failure() -> None:
            xs.get(xs.remote(fail_for_a_reason).remote())

        with pytest.raises(TaskError, match="the reason") as caught:
            xs.get(xs.remote(wait_for_failure, executor=executor).remote())
        causes: list[BaseException] = [caught.value]
        while causes[-1].__cause__ is not None:
            causes.append(causes[-1].__cause__)
        assert any(isinstance(cause, ValueError) for cause in causes)

    def test_tasks_can_handle_errors(self, executor: str) -> None:
        def handle() -> str:
            try:
                xs.get(xs.remote(fail_for_a_reason).remote())
            except TaskError as error:
                return f"{error.task_name}: {error.__cause__}"
            return "nothing was raised"

        handled = xs.get(xs.remote(handle, executor=executor).remote())
        assert handled == "fail_for_a_reason: the reason"

    def test_errors_that_cannot_be_pickled_are_told(self, executor: str) -> None:
        with pytest.raises(TaskError, match="has a lock inside"):
            xs.get(xs.remote(fail_stubbornly, executor=executor).remote())

    def test_results_that_cannot_be_pickled_are_errors(self, executor: str) -> None:
        with pytest.raises(TaskError) as caught:
            xs.get(
                xs.remote(lambda: [threading.Lock()], executor=executor, name="locksmith").remote()
            )
        assert caught.value.task_name == "locksmith"
        assert xs.get(xs.remote(double, executor=executor).remote(1)) == 2

    def test_all_of_many_are_asked(self) -> None:
        refs = [xs.remote(double).remote(1), xs.remote(fail_for_a_reason).remote()]
        xs.wait(refs, num_ready=2)
        raise_errors(refs[:1])
        with pytest.raises(TaskError, match="the reason"):
            raise_errors(refs)
        with pytest.raises(TaskError, match="the reason"):
            xs.get(refs)
