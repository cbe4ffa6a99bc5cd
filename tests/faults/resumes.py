"""Training that is killed again and again: every time it goes on with other ranks, batches, memory, CPUs and formats.

``python -m tests.faults.resumes --kills 1000 --seed 1`` says at the end that no row was lost or repeated, and that the
order was that of training without a stop. A seed is replayed alone, but for the moments of the kills.

Why forks of one process: a new interpreter takes half a second, and a thousand of them the patience of everybody.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import exoshuffle as xs
from tests.support.limits import large_memory_limit, small_memory_limit

ROWS, EPOCHS = 4000, 3
#: Longest time that a life gets, in seconds; a training of all epochs takes about as long.
LIFE_SECONDS = 0.4
#: Uniform; windows that are read one by one; windows that are shuffled by numbers; the order of the files.
SHUFFLES: tuple[bool | str, ...] = (True, "40kB", "2kB", False)


def written(folder: Path) -> Path:
    """Writes the files."""
    folder.mkdir()
    for number in range(3):
        rows = range(number * ROWS // 3, (number + 1) * ROWS // 3)
        table = pa.table({"id": pa.array(rows, pa.int64()), "text": ["x" * 20] * len(rows)})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=300)
    return folder


def loader(files: Path, shuffle: bool | str, size: int) -> xs.DataLoader:
    """Returns the loader of a life."""
    dataset = xs.read_parquet(files)
    return xs.DataLoader(dataset, batch_size=size, shuffle=shuffle, seed=5, format="arrow")


def order_of(files: Path, shuffle: bool | str) -> list[int]:
    """Returns the rows of all epochs, in the order of training without a stop."""
    with xs.init(memory_limit=large_memory_limit(), num_cpus=2):
        epochs = loader(files, shuffle, ROWS).epochs(EPOCHS)
        batches = itertools.chain.from_iterable(epochs)
        return [row for batch in batches for row in batch["id"].to_pylist()]


def train(rank: Any, out: Path) -> None:
    """Writes a line for each step of a rank: its rows, and the state behind it."""
    with out.open("w") as file:
        for batch in itertools.chain.from_iterable(rank.epochs(EPOCHS)):
            file.write(json.dumps([batch["id"].to_pylist(), rank.state_dict()]) + "\n")
            file.flush()


def live(files: Path, out: Path, shuffle: bool | str, chance: random.Random, state: str) -> None:
    """Trains in this process, with drawn ranks, batches, memory and CPUs, from a state on."""
    world = chance.randint(1, 8)
    limit = chance.choice([small_memory_limit, large_memory_limit])()
    xs.init(memory_limit=limit, num_cpus=chance.randint(1, 3), stall_seconds=None)
    made = loader(files, shuffle, chance.randint(world, 900))
    if state:
        made.load_state_dict(json.loads(state))
    threads = [
        threading.Thread(target=train, args=(rank, out / f"{rank.rank} of {world}"))
        for rank in made.split(world)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def killed(files: Path, out: Path, shuffle: bool | str, chance: random.Random, state: str) -> bool:
    """Runs a life in a process of its own, and kills it at some moment; returns whether it was over by then."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            live(files, out, shuffle, chance, state)
            status = 0
        finally:
            os._exit(status)
    end = time.monotonic() + chance.uniform(0, LIFE_SECONDS)
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            assert status == 0, "a life failed by itself"
            return True
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    assert status in (0, signal.SIGKILL), "a life failed by itself"
    return status == 0


def steps_in(out: Path) -> Iterator[tuple[list[int], str]]:
    """Yields the rows of all ranks in each step that all of them have taken, and the state behind it."""
    texts = {int(path.name.split(" of ")[0]): path.read_text() for path in out.iterdir()}
    worlds = {int(path.name.split(" of ")[1]) for path in out.iterdir()}
    if len(texts) not in worlds:  # killed before all ranks had begun
        return
    complete = [
        [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        for _, text in sorted(texts.items())
    ]
    for lines in zip(*complete, strict=False):
        parts, states = zip(*map(json.loads, lines), strict=True)
        assert all(each == states[0] for each in states)
        yield list(itertools.chain(*parts)), json.dumps(states[0])


def check(folder: Path, num_kills: int, seed: int) -> int:
    """Trains with so many kills; returns how often training came to its end.

    Raises:
        AssertionError: A row was lost or repeated, or the order was another one.
    """
    chance = random.Random(seed)
    files = written(folder / "in")
    orders = {shuffle: order_of(files, shuffle) for shuffle in SHUFFLES}
    num_left, num_trainings = num_kills, 0
    while num_left > 0:
        shuffle = SHUFFLES[num_trainings % len(SHUFFLES)]
        state, at, is_over = "", 0, False
        while not is_over:
            with tempfile.TemporaryDirectory(dir=folder) as out:
                draws = random.Random(chance.random())
                is_over = killed(files, Path(out), shuffle, draws, state)
                num_left -= not is_over
                for rows, after in steps_in(Path(out)):
                    assert rows == orders[shuffle][at : at + len(rows)], (seed, shuffle, at)
                    assert len(after) <= 200, after
                    at, state = at + len(rows), after
        assert at == len(orders[shuffle]), (seed, shuffle, at)
        num_trainings += 1
    return num_trainings


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        trainings = check(Path(scratch), options.kills, options.seed)
    sys.stdout.write(f"{options.kills} kills in {trainings} trainings: every row once, in order\n")
