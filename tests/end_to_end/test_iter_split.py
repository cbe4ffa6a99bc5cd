"""Shards of one dataset: threads, actors and processes together get every row once, in equal parts."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.splitting.coordinator import Asked, Coordinator, Step
from exoshuffle.dataset.splitting.door import Address, Caller, Door, _as_stream, _from_stream
from exoshuffle.dataset.splitting.seat import FarSeat
from exoshuffle.errors import OptionsError, WorkerDiedError
from exoshuffle.testing.meeting import poll
from tests.support.generated import generated
from tests.support.limits import large_memory_limit
from tests.support.oracle import assert_same

pytestmark = pytest.mark.usefixtures("_engine")
ROWS = 10_007
#: Takes a shard as a pickle, and writes its rows; stops after some steps and waits to be killed.
PROGRAM = """
import pickle, sys, time
shard = pickle.loads(bytes.fromhex(sys.argv[1]))
for step, batch in enumerate(shard):
    print(*batch["id"].to_pylist(), flush=True)
    if step == int(sys.argv[2]):
        time.sleep(600)
"""


@pytest.fixture
def _engine() -> Iterator[None]:
    """With room for the processes of three actors."""
    with xs.init(memory_limit=large_memory_limit(), num_cpus=2):
        yield


def elsewhere(shards: Any) -> Any:
    """Returns shards as another process gets them."""
    return pickle.loads(pickle.dumps(shards))  # noqa: S301  written here


def rows_of(shard: Any) -> list[int]:
    return [row for batch in shard for row in batch["id"].to_pylist()]


def started(shard: Any, stop: int = -1) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", PROGRAM, pickle.dumps(shard).hex(), str(stop)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def of_threads(shards: list[Any]) -> list[list[int]]:
    got: dict[int, list[int]] = {}
    threads = [
        threading.Thread(target=lambda shard=shard: got.update({shard.index: rows_of(shard)}))
        for shard in shards
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [rows for _, rows in sorted(got.items())]


class Trainer:
    def __init__(self, shard: Any) -> None:
        self.shard = shard

    def train(self) -> list[int]:
        return rows_of(self.shard)


def of_actors(shards: list[Any]) -> list[list[int]]:
    trainers = [xs.remote(Trainer).remote(shard) for shard in shards]
    made: list[list[int]] = xs.get([trainer.train.remote() for trainer in trainers])
    return made


def of_tasks(shards: list[Any]) -> list[list[int]]:
    """One in each worker, and more than there are CPUs: the tasks of the rows take the CPUs while these wait."""
    taking = xs.remote(rows_of)
    made: list[list[int]] = xs.get([taking.remote(shard) for shard in shards])
    return made


def of_tasks_on_threads(shards: list[Any]) -> list[list[int]]:
    taking = xs.remote(executor="thread")(rows_of)
    made: list[list[int]] = xs.get([taking.remote(shard) for shard in shards])
    return made


def of_processes(shards: list[Any]) -> list[list[int]]:
    outputs = [process.communicate()[0] for process in [started(shard) for shard in shards]]
    return [[int(row) for row in output.split()] for output in outputs]


@pytest.mark.parametrize(
    "take", [of_threads, of_actors, of_tasks, of_tasks_on_threads, of_processes]
)
def test_shards_have_each_row_once_in_equal_parts(
    take: Callable[[list[Any]], list[list[int]]],
) -> None:
    dataset = xs.range(ROWS).random_shuffle(seed=1)
    got = take(dataset.iter_split(3, batch_size=1000))
    assert sorted(itertools.chain(*got)) == list(range(ROWS))
    assert max(map(len, got)) - min(map(len, got)) <= 1
    assert sorted(got[0]) != got[0]


def doors() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "exoshuffle-door"]


def test_the_door_is_private_and_goes() -> None:
    shards = xs.range(ROWS).iter_split(2)
    first, second = elsewhere(shards)
    address: Address = first._seat._caller.address
    folder = Path(address.path).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(os.stat(address.path).st_mode) == 0o600
    for token in ("0" * 32, "ä", ""):
        with pytest.raises(WorkerDiedError, match="the program that shares"):
            Caller(Address(address.path, token), 0).begin(Asked())
    with socket.socket(socket.AF_UNIX) as liar:  # a message of 2**64 - 1 bytes
        liar.connect(address.path)
        liar.sendall(b"\xff" * 8)
        assert liar.recv(1) == b""
    assert len(of_threads([first, second])) == 2
    poll(lambda: not folder.exists() and not doors())


def test_values_of_all_types_come_as_they_are() -> None:
    rows = generated(500)
    rows = rows.append_column("view", rows["text"].cast(pa.string_view()))
    rows = rows.append_column("category", rows["text"].dictionary_encode())
    rows = rows.append_column("none", pa.nulls(500, pa.int8()))
    (shard,) = elsewhere(xs.from_arrow(rows).iter_split(1, batch_size=77))
    assert_same(pa.Table.from_batches(list(shard)), rows)


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_views_do_not_bring_what_others_look_into(kind: pa.DataType) -> None:
    rows = pa.record_batch({"x": pa.array(["x" * 100] * 10_000).cast(kind)}).slice(5000, 10)
    schema, stream = _as_stream(rows)
    assert len(stream) < 3000
    assert _from_stream(bytearray(stream), schema) == rows


def test_formats_and_last_batches() -> None:
    shards = xs.range(25).iter_split(1, batch_size=10, batch_format="polars", drop_last=True)
    assert [batch["id"].to_list() for batch in shards[0]] == [list(range(10)), list(range(10, 20))]
    assert [list(shard) for shard in xs.range(0).streaming_split(1)] == [[]]


def test_a_consumer_that_is_killed_is_named() -> None:
    first, second = xs.range(ROWS).iter_split(2, batch_size=100)
    process = started(second, stop=1)
    batches: Iterator[Any] = iter(first)
    next(batches)
    assert process.stdout is not None
    for _ in range(2):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    with pytest.raises(
        WorkerDiedError, match="shard 1 of 2 ended after 1 step, and its rows are m"
    ):
        list(batches)
    process.communicate()
    poll(lambda: not doors())


def test_an_error_of_the_rows_comes_to_all() -> None:

    def fail(table: pa.Table) -> pa.Table:
        if table.num_rows:
            raise KeyError(f"of {table.num_rows} rows")
        return table

    shards = xs.range(100).map_batches(fail).iter_split(2)
    far = elsewhere(shards[1])
    for shard in (shards[0], far):
        with pytest.raises(KeyError, match="of 100 rows"):
            list(shard)
    far._seat.close()


def test_a_shard_is_iterated_over_once() -> None:
    (shard,) = xs.range(5).iter_split(1)
    assert rows_of(shard) == list(range(5))
    with pytest.raises(
        OptionsError, match="shard 0 of 1 was iterated over before; call iter_split"
    ):
        iter(shard)


def test_a_shard_in_a_forked_process_is_refused() -> None:
    (shard,) = xs.range(5).iter_split(1)
    shard._seat._table.process = -1
    with pytest.raises(
        OptionsError, match="this shard was made in process -1, and came here by fork"
    ):
        list(shard)
    shard._seat._table.process = os.getpid()


def test_one_that_leaves_when_the_door_is_gone(tmp_path: Path) -> None:
    """It takes no more steps, so it is none of its business that there are none."""
    steps = [Step(1, [pa.record_batch({"id": [0]})])] * 3
    door = Door(Coordinator(lambda _: iter(steps), 1, "shard"), str(tmp_path))
    shares = FarSeat(Caller(door.address, 0)).shares(Asked())
    assert next(shares).num_rows == 1
    door.close()
    poll(lambda: not doors())
    shares.close()


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for temporary files."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_folders_for_temporary_files_may_be_deep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system call takes 107 bytes of a socket's path."""
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    first, second = elsewhere(xs.range(ROWS).iter_split(2))
    path: str = first._seat._caller.address.path
    assert Path(path).is_relative_to(deep)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert sorted(itertools.chain.from_iterable(of_threads([first, second]))) == [*range(ROWS)]
    poll(lambda: not doors())
    assert [*deep.iterdir()] == []


def test_folders_of_programs_that_were_killed_go(temporary: Path) -> None:
    """Those of programs that run stay."""
    killed = (
        "from exoshuffle.dataset.splitting.door import Door; import os; Door(None); os._exit(1)"
    )
    environment = os.environ | {"TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", killed], env=environment, check=False, timeout=100)
    (left,) = temporary.iterdir()
    first = Door(Coordinator(lambda _: iter(()), 1, "shard"))
    assert not left.exists()
    second = Door(Coordinator(lambda _: iter(()), 1, "shard"))
    assert {Path(each.address.path).parent for each in (first, second)} == {*temporary.iterdir()}
    for each in (first, second):
        each.close()
    poll(lambda: not doors())
    assert [*temporary.iterdir()] == []


def test_a_door_that_is_gone(tmp_path: Path) -> None:
    door = Door(Coordinator(lambda _: iter(()), 1, "shard"), str(tmp_path))
    door.close()
    poll(lambda: not doors())
    with pytest.raises(
        WorkerDiedError, match=r"is no door to rows .*the program that shares them has"
    ):
        Caller(door.address, 0).connect()
