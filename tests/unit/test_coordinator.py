"""A coordinator: shares of steps for several consumers, who may be slow, leave, die or never come."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.dataset.splitting.coordinator import KEPT_STEPS, Asked, Coordinator, Step
from exoshuffle.dataset.splitting.seat import Seat, seats_at
from exoshuffle.dataset.splitting.shard import dealt
from exoshuffle.errors import ClosedError, OptionsError, WorkerDiedError
from exoshuffle.testing.meeting import poll


def batch(rows: range) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(rows, pa.int64())})


class Steps:
    """Steps of as many rows as there are consumers, and how many were made."""

    def __init__(self, num_steps: int, num_consumers: int) -> None:
        self.num_made = 0
        self.was_closed = False
        self._sizes = num_steps, num_consumers

    def __call__(self, asked: Asked) -> Iterator[Step]:
        del asked
        num_steps, num_consumers = self._sizes
        try:
            for number in range(num_steps):
                self.num_made += 1
                first = number * num_consumers
                yield Step(
                    num_consumers,
                    [batch(range(first + k, first + k + 1)) for k in range(num_consumers)],
                )
        finally:
            self.was_closed = True


def begun(
    num_steps: int, num_consumers: int, stall_seconds: float = 60
) -> tuple[Steps, Coordinator]:
    steps = Steps(num_steps, num_consumers)
    coordinator = Coordinator(steps, num_consumers, "rank", stall_seconds=stall_seconds)
    for number in range(num_consumers):
        coordinator.begin(number, Asked())
    return steps, coordinator


def in_threads(*functions: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    return threads


def rows_of(seat: Seat) -> list[int]:
    return [
        row for share in seat.shares(Asked()) if share.rows for row in share.rows["id"].to_pylist()
    ]


@given(sizes=st.lists(st.integers(0, 30), max_size=8), num_shards=st.integers(1, 8))
def test_dealt_shares_are_equal_now_and_in_all(sizes: list[int], num_shards: int) -> None:
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    batches = [batch(range(start, start + size)) for start, size in zip(starts, sizes, strict=True)]
    had, rows = [0] * num_shards, []
    for step in dealt(batches, num_shards):
        counts = [share.num_rows for share in step.shares]
        had = [a + b for a, b in zip(had, counts, strict=True)]
        rows += [row for share in step.shares for row in share["id"].to_pylist()]
        assert sum(counts) == step.num_rows > 0
        assert max(counts) - min(counts) <= 1
        assert max(had) - min(had) <= 1
    assert rows == list(range(sum(sizes)))


@pytest.mark.parametrize("num_consumers", [1, 2, 5])
def test_consumers_together_get_each_row_once(num_consumers: int) -> None:
    steps = Steps(20, num_consumers)
    seats = seats_at(Coordinator(steps, num_consumers, "rank"))
    got: dict[int, list[int]] = {}
    for thread in in_threads(
        *(lambda k=k, seat=seat: got.update({k: rows_of(seat)}) for k, seat in enumerate(seats))
    ):
        thread.join()
    assert got == {
        k: [step * num_consumers + k for step in range(20)] for k in range(num_consumers)
    }
    assert steps.was_closed


def test_a_step_may_be_asked_for_again_but_not_an_earlier_one() -> None:
    _, coordinator = begun(9, 1)
    first = coordinator.share(0, 0)
    assert coordinator.share(0, 0) == first
    coordinator.share(0, 1)
    for step in (0, 3):
        with pytest.raises(
            OptionsError, match=f"rank 0 asked for step {step}, and its next one is"
        ):
            coordinator.share(0, step)


def test_nobody_gets_far_ahead() -> None:
    steps, coordinator = begun(9, 2)
    for step in range(KEPT_STEPS):
        coordinator.share(0, step)
    got: list[object] = []
    (thread,) = in_threads(lambda: got.append(coordinator.share(0, KEPT_STEPS)))
    coordinator.share(1, 0)
    assert (steps.num_made, got) == (KEPT_STEPS, [])
    coordinator.share(1, 1)
    thread.join()
    assert (steps.num_made, len(got)) == (KEPT_STEPS + 1, 1)


def test_others_go_on_without_one_that_left() -> None:
    steps, coordinator = begun(9, 2)
    coordinator.share(1, 0)
    coordinator.leave(1)
    assert [coordinator.share(0, step) is None for step in range(10)] == [False] * 9 + [True]
    assert steps.was_closed


def test_one_that_is_lost_is_an_error_for_all() -> None:
    _, coordinator = begun(9, 3)
    coordinator.share(1, 0)
    coordinator.share(1, 1)
    coordinator.go(1, "ended")
    for rank in (0, 2):
        with pytest.raises(
            WorkerDiedError, match="rank 1 of 3 ended after 1 step, and its rows are missing; begin"
        ):
            coordinator.share(rank, 0)


def test_one_that_ends_behind_its_last_step_is_not_lost() -> None:
    _, coordinator = begun(1, 2)
    assert [coordinator.share(1, step) is None for step in (0, 1)] == [False, True]
    coordinator.go(1, "ended")
    assert [coordinator.share(0, step) is None for step in (0, 1)] == [False, True]


def test_one_that_never_comes_is_named(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = Coordinator(Steps(9, 3), 3, "rank", stall_seconds=0.01)
    coordinator.begin(0, Asked())
    coordinator.begin(1, Asked())
    coordinator.share(1, 0)
    coordinator.share(0, 0)
    coordinator.share(0, 1)

    def until_closed() -> None:
        with pytest.raises(ClosedError):
            coordinator.share(0, 2)

    with caplog.at_level(logging.WARNING, "exoshuffle"):
        (thread,) = in_threads(until_closed)
        poll(lambda: len(caplog.messages) > 1)
    coordinator.close()
    thread.join()
    assert (
        "s for rank 1 of 3, which has not asked for step 1, rank 2 of 3, which has not come"
        in caplog.messages[0]
    )


def test_one_that_does_not_come_in_time_is_an_error_for_all() -> None:
    """It may have been unable to start, so nobody waits for it without end."""
    coordinator = Coordinator(Steps(9, 3), 3, "rank", stall_seconds=0.01, meet_seconds=0.02)
    coordinator.begin(0, Asked())
    coordinator.begin(1, Asked())
    coordinator.share(0, 0)
    coordinator.share(0, 1)
    words = "rank 2 of 3 has not come within 0 s, and its rows would be missing; see why, and begin"
    for rank, step in ((0, 2), (1, 0)):
        with pytest.raises(WorkerDiedError, match=words):
            coordinator.share(rank, step)


def test_one_that_has_come_may_take_its_time(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = Coordinator(Steps(9, 2), 2, "rank", stall_seconds=0.01, meet_seconds=0.02)
    for rank in range(2):
        coordinator.begin(rank, Asked())
    got: list[object] = []
    with caplog.at_level(logging.WARNING, "exoshuffle"):
        (thread,) = in_threads(lambda: got.extend(coordinator.share(0, step) for step in range(3)))
        poll(lambda: len(caplog.messages) > 5)
    coordinator.share(1, 0)
    coordinator.share(1, 1)
    thread.join()
    assert len(got) == 3


def test_an_error_of_a_step_is_raised_for_all() -> None:
    def fail(asked: Asked) -> Iterator[Step]:
        yield Step(2, [batch(range(1))] * 2)
        raise ValueError(f"not {asked.num_epochs}")

    coordinator = Coordinator(fail, 2, "rank")
    for rank in range(2):
        coordinator.begin(rank, Asked(4))
        coordinator.share(rank, 0)
    for rank in range(2):
        with pytest.raises(ValueError, match="not 4"):
            coordinator.share(rank, 1)


def test_iterations_follow_each_other() -> None:
    """A consumer that is done waits for the others before it begins another one."""
    seats = seats_at(Coordinator(Steps(5, 2), 2, "rank"))
    got: dict[int, list[list[int]]] = {0: [], 1: []}

    def twice(k: int) -> None:
        got[k] += [rows_of(seats[k]), rows_of(seats[k])]

    for thread in in_threads(lambda: twice(0), lambda: twice(1)):
        thread.join()
    assert got == {k: [[2 * step + k for step in range(5)]] * 2 for k in range(2)}


def test_all_have_to_ask_for_the_same() -> None:
    coordinator = Coordinator(Steps(5, 2), 2, "rank")
    coordinator.begin(0, Asked(3, 1, 5))
    with pytest.raises(
        OptionsError,
        match="rank 1 asked for 4 epochs from row 5 of epoch 1 on, and others for 3 epochs",
    ):
        coordinator.begin(1, Asked(4, 1, 5))
