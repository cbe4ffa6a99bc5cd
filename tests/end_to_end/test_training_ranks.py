"""Ranks that share one shuffle: their batches and states are those of loaders that shuffle for themselves."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.splitting.coordinator import Asked, Coordinator
from exoshuffle.errors import OptionsError, WorkerDiedError
from exoshuffle.testing.meeting import poll
from exoshuffle.training.meeting import awaited, opened
from exoshuffle.training.state import Cursor
from tests.support.limits import large_memory_limit

pytestmark = pytest.mark.usefixtures("_engine")
ROWS, EPOCHS, SIZE = 5000, 2, 300
#: A rank as a launcher starts it: writes the rows of each step, and the state behind it.
PROGRAM = """
import json, sys, time
import exoshuffle as xs

folder, door, state, size, rank, world, stop, limit = sys.argv[1:]
rank, world, stop = int(rank), int(world), int(stop)
if rank == 0:
    xs.init(memory_limit=int(limit), num_cpus=2)
loader = xs.DataLoader(
    xs.read_parquet(folder), batch_size=int(size), seed=3, rank=rank, world=world, format="arrow", door=door
)
if state:
    loader.load_state_dict(json.loads(state))
steps = 0
for epoch in loader.epochs(2):
    for batch in epoch:
        print(json.dumps([batch["id"].to_pylist(), loader.state_dict()]), flush=True)
        steps += 1
        if steps == stop:
            time.sleep(600)
"""


@pytest.fixture
def _engine() -> Iterator[None]:
    """With room for the processes of three actors."""
    with xs.init(memory_limit=large_memory_limit(), num_cpus=2):
        yield


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(2):
        rows = range(number * ROWS // 2, (number + 1) * ROWS // 2)
        pq.write_table(pa.table({"id": pa.array(rows, pa.int64())}), folder / f"{number}.parquet")
    return folder


def loader(files: Path, **options: Any) -> xs.DataLoader:
    made = {"batch_size": SIZE, "seed": 3, "format": "arrow"} | options
    return xs.DataLoader(xs.read_parquet(files), **made)


def steps_of(rank: Any) -> list[tuple[list[int], str]]:
    """The rows of each step, and the state behind it."""
    return [
        (batch["id"].to_pylist(), json.dumps(rank.state_dict()))
        for epoch in rank.epochs(EPOCHS)
        for batch in epoch
    ]


def alone(files: Path, world: int, **options: Any) -> list[list[tuple[list[int], str]]]:
    """The steps of ranks that shuffle for themselves."""
    return [steps_of(loader(files, rank=rank, world=world, **options)) for rank in range(world)]


def of_threads(ranks: list[Any]) -> list[Any]:
    got: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda rank=rank: got.update({rank.rank: steps_of(rank)}))
        for rank in ranks
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [steps for _, steps in sorted(got.items())]


class Trainer:
    def __init__(self, rank: Any) -> None:
        self.rank = rank

    def train(self) -> Any:
        return steps_of(self.rank)


def of_actors(ranks: list[Any]) -> list[Any]:
    trainers = [xs.remote(Trainer).remote(rank) for rank in ranks]
    made: list[Any] = xs.get([trainer.train.remote() for trainer in trainers])
    return made


@pytest.mark.parametrize("shuffle", [True, "8kB", False])
@pytest.mark.parametrize("take", [of_threads, of_actors])
def test_batches_are_those_of_ranks_that_shuffle_alone(
    take: Callable[[list[Any]], list[Any]], shuffle: bool | str, files: Path
) -> None:
    assert take(loader(files, shuffle=shuffle).split(3)) == alone(files, 3, shuffle=shuffle)


def test_ranks_go_on_where_others_stopped(files: Path) -> None:
    order = [row for rows, _ in steps_of(loader(files)) for row in rows]
    chance, state, got = random.Random(2), None, []
    for world in (2, 5, 1, 3):
        made = loader(files, batch_size=chance.randrange(world, SIZE))
        if state is not None:
            made.load_state_dict(json.loads(state))
        steps = list(zip(*of_threads(made.split(world)), strict=True))
        if world != 3:
            steps = steps[: chance.randrange(1, len(steps) // 2)]
        for of_ranks in steps:
            got += [row for rows, _ in of_ranks for row in rows]
            states = {each for _, each in of_ranks}
            assert len(states) == 1
            (state,) = states
    assert got == order


def test_a_loop_is_one_epoch_and_leaving_it_leaves_no_row_out(files: Path) -> None:
    order = steps_of(loader(files))
    (rank,) = loader(files).split(1)
    first = next(iter(rank))["id"].to_pylist()
    rest = [batch["id"].to_pylist() for batch in rank]
    assert [first, *rest] == [rows for rows, _ in order[: len(order) // 2]]
    assert rank.state_dict()["epoch"] == 1


def test_leaving_an_epoch_for_the_next_leaves_out_its_rows(files: Path) -> None:
    (rank,) = loader(files).split(1)
    got = [next(epoch)["id"].to_pylist() for epoch in rank.epochs(2)]
    order = steps_of(loader(files))
    assert got == [order[0][0], order[len(order) // 2][0]]


def test_ranks_that_begin_at_different_rows_are_refused(files: Path) -> None:
    first, second = loader(files).split(2)
    second.cursor = Cursor(0, 7)
    batches = itertools.chain.from_iterable(first.epochs(1))
    next(batches)
    with pytest.raises(
        OptionsError, match="rank 1 asked for 1 epoch from row 7 of epoch 0 on, and"
    ):
        next(itertools.chain.from_iterable(second.epochs(1)))


def started(
    files: Path, door: Path, world: int, *, stops: Sequence[int] = (-1,) * 8
) -> list[subprocess.Popen[str]]:
    """Ranks as a launcher starts them; rank 0 comes last."""
    return [
        subprocess.Popen(
            [
                *(sys.executable, "-c", PROGRAM, str(files), str(door), "", str(SIZE)),
                *(str(rank), str(world), str(stops[rank]), str(large_memory_limit())),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in reversed(range(world))
    ][::-1]


def test_processes_of_a_launcher_meet_at_the_door(files: Path, tmp_path: Path) -> None:
    door = tmp_path / ("d" * 100)  # more than a system call takes of a socket's path
    door.mkdir(mode=0o700)
    (door / "door-0").write_text("")  # of a program that was killed
    (door / "address").write_text(json.dumps([str(door / "door-0"), "0"]))
    processes = started(files, door, 3)
    outputs = [process.communicate(timeout=100) for process in processes]
    assert [process.returncode for process in processes] == [0] * 3, outputs
    got = [[json.loads(line) for line in out.splitlines()] for out, _ in outputs]
    expected = [[(rows, json.loads(state)) for rows, state in steps] for steps in alone(files, 3)]
    assert [[tuple(step) for step in steps] for steps in got] == expected
    assert not door.exists()


def test_a_rank_that_is_killed_is_named(files: Path, tmp_path: Path) -> None:
    first, second = started(files, tmp_path / "door", 2, stops=[-1, 4])
    assert second.stdout is not None
    for _ in range(4):
        second.stdout.readline()
    second.kill()
    second.communicate()
    _, said = first.communicate(timeout=100)
    assert first.returncode == 1
    assert (
        "WorkerDiedError: rank 1 of 2 ended after 3 steps, and its rows are missing; begin" in said
    )
    assert not (tmp_path / "door").exists()


def test_rank_0_that_is_killed_is_named(files: Path, tmp_path: Path) -> None:
    first, second = started(files, tmp_path / "door", 2, stops=[4, -1])
    assert first.stdout is not None
    for _ in range(4):
        first.stdout.readline()
    first.kill()
    first.communicate()
    _, said = second.communicate(timeout=100)
    assert second.returncode == 1
    assert "WorkerDiedError: the program that shares rows among consumers has ended" in said


def test_rank_0_that_does_not_come_in_time_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        WorkerDiedError,
        match=r"rank 0 has not opened the door '.*(door'|…) within 0 s; see why it did",
    ):
        awaited(str(tmp_path / "door"), 1, meet_seconds=0.1)


def test_rank_0_that_never_comes_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    door = str(tmp_path / "door")
    seats: list[Any] = []
    thread = threading.Thread(target=lambda: seats.append(awaited(door, 1, stall_seconds=0.01)))
    thread.start()
    poll(lambda: bool(caplog.messages))
    assert "s for rank 0, which has not opened the door" in caplog.messages[0]
    seat = opened(door, Coordinator(lambda _: iter(()), 2, "rank"))
    thread.join()
    with pytest.raises(OptionsError, match="is used by another program; give each its own"):
        opened(door, Coordinator(lambda _: iter(()), 2, "rank"))
    takers = [
        threading.Thread(target=lambda each=each: list(each.shares(Asked())))
        for each in (seat, *seats)
    ]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    for each in (seat, *seats):
        each.close()
