"""Training goes on where it stopped, on another engine: an order is the same wherever it is made."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import exoshuffle as xs
from exoshuffle.engines.ray import RayEngine
from tests.support.limits import large_memory_limit

ROWS = 6000


def test_a_state_of_one_engine_goes_on_on_the_other(engine: RayEngine, tmp_path: Path) -> None:
    del engine
    for number in range(2):
        rows = range(number * ROWS // 2, (number + 1) * ROWS // 2)
        pq.write_table(pa.table({"id": pa.array(rows, pa.int64())}), tmp_path / f"{number}.parquet")
    on_ray = {shuffle: stopped(tmp_path, shuffle) for shuffle in (True, "20kB", False)}
    xs.shutdown()
    with xs.init(memory_limit=large_memory_limit(), num_cpus=2):
        for shuffle, (rows, state) in on_ray.items():
            order = ids(loader(tmp_path, shuffle).epochs(2))
            going_on = loader(tmp_path, shuffle)
            going_on.load_state_dict(state)
            assert rows == order[: len(rows)]
            assert rows + ids(going_on.epochs(2)) == order
            assert sorted(order) == sorted([*range(ROWS)] * 2)


class Trainer:
    def __init__(self, rank: Any) -> None:
        self.rank = rank

    def train(self) -> tuple[list[list[int]], dict[str, Any]]:
        return [batch["id"].to_pylist() for batch in self.rank], self.rank.state_dict()


def test_actors_share_one_shuffle(engine: RayEngine, tmp_path: Path) -> None:
    del engine
    pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64())}), tmp_path / "0.parquet")
    trainers = [xs.remote(Trainer).remote(rank) for rank in loader(tmp_path, shuffle=True).split(2)]
    of_ranks, states = zip(*xs.get([each.train.remote() for each in trainers]), strict=True)
    got = [row for step in zip(*of_ranks, strict=True) for row in itertools.chain(*step)]
    assert got == ids(loader(tmp_path, shuffle=True).epochs(1))
    assert states[0] == states[1]


def loader(files: Path, shuffle: bool | str) -> xs.DataLoader:
    return xs.DataLoader(
        xs.read_parquet(files), batch_size=700, shuffle=shuffle, seed=3, format="arrow"
    )


def stopped(files: Path, shuffle: bool | str) -> tuple[list[int], dict[str, Any]]:
    """Rows of the first epoch and two batches of the next, and the state then."""
    made = loader(files, shuffle)
    epochs = itertools.chain.from_iterable(made.epochs(2))
    batches = itertools.islice(epochs, -(-ROWS // 700) + 2)
    rows = [row for batch in batches for row in batch["id"].to_pylist()]
    return rows, made.state_dict()


def ids(epochs: Any) -> list[int]:
    return [
        row for batch in itertools.chain.from_iterable(epochs) for row in batch["id"].to_pylist()
    ]
