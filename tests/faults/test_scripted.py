"""Failures by script, in worker processes: whatever fails in between, every row arrives exactly once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.errors import TaskError, WorkerDiedError
from exoshuffle.operators.core.sinks import PIECE_BYTES
from exoshuffle.strategies import (
    BestEffort,
    FixedBlockSize,
    FixedFiles,
    MergeOptions,
    PreShuffleMerge,
    Push,
    Simple,
    Speculation,
    Strategy,
    Streaming,
)
from exoshuffle.testing import assert_every_row_arrives, failing
from exoshuffle.testing.scripted import Outcome, Script

pytestmark = [pytest.mark.usefixtures("shared_engine"), pytest.mark.shares_engine]


@pytest.mark.parametrize("strategy", [Simple(), Push()], ids=["simple", "push*"])
def test_a_map_fails_once(strategy: Strategy) -> None:
    with failing({("map", 3, 1): "raise"}) as engine:
        assert_every_row_arrives(strategy, 7, 5)
        assert engine.attempts() == {("map", 3): 2}


@pytest.mark.parametrize("keep_map_outputs", [False, True])
def test_a_merge_dies_twice(keep_map_outputs: bool) -> None:
    with failing({("merge", 1, 1): "die", ("merge", 1, 2): "die"}) as engine:
        assert_every_row_arrives(Push(keep_map_outputs), 7, 5)
        assert engine.attempts() == {("merge", 1): 3}


def test_every_step_fails_in_its_own_way() -> None:
    script: Script = {
        **{("map", index, 1): "die" for index in (0, 6)},
        ("merge", 0, 1): "raise",
        ("merge", 3, 1): "die",
        ("merge", 3, 2): "raise",
        ("reduce", 2, 1): "raise",
        ("reduce", 4, 1): "die",
    }
    with failing(script) as engine:
        assert_every_row_arrives(Push(), 7, 5)
        assert engine.attempts() == {
            ("map", 0): 2,
            ("map", 6): 2,
            ("merge", 0): 2,
            ("merge", 3): 3,
            ("reduce", 2): 2,
            ("reduce", 4): 2,
        }


@pytest.mark.parametrize("outcome", ["raise", "die"])
def test_one_failure_too_many_names_task_and_attempt(outcome: Any) -> None:
    with failing({("map", 5, attempt): outcome for attempt in range(1, 10)}) as engine:
        with pytest.raises(TaskError, match="task map failed in attempt 4") as caught:
            assert_every_row_arrives(Push(), 7, 5)
        assert (caught.value.task_name, caught.value.attempt) == ("map", 4)
        assert isinstance(caught.value.__cause__, WorkerDiedError) == (outcome == "die")
        assert engine.attempts() == {("map", 5): 4}


def by_lot(seed: int, num_splits: int, num_partitions: int) -> Script:
    """Every step of a shuffle may fail up to three times, which leaves one attempt; few do, and fewer die."""
    lot = random.Random(seed)
    calls = [("map", num_splits), ("merge", num_splits), ("reduce", num_partitions)]
    # Fewer rounds than maps, each of a fold for each partition.
    calls.append(("fold", num_splits * num_partitions))
    script: dict[tuple[str, int, int], Outcome] = {("map", 0, 1): "raise"}
    for name, count in calls:
        for number in range(count):
            for attempt in range(1, lot.choices([1, 2, 3, 4], [80, 14, 4, 2])[0]):
                script[name, number, attempt] = "die" if lot.random() < 0.2 else "raise"
    return script


#: Copies of all maps but the first few, so that some come twice and some are cancelled.
COPIES = Speculation(multiple=1, fraction=0.1, min_seconds=0)
ALL_STRATEGIES = {
    "simple": Simple(),
    "simple-copies": Simple(COPIES),
    "push*": Push(),
    "push": Push(keep_map_outputs=True, speculation=COPIES),
    "push-effort": Push(keep_map_outputs=True, best_effort=BestEffort(percent=50)),
    "push*-bytes": Push(merge_bytes=1000),
    # Merges that are not done when half of them are get cancelled.
    "pre-shuffle-merge": PreShuffleMerge(MergeOptions(FixedFiles(2), percent=50)),
    "pre-shuffle-merge-copies": PreShuffleMerge(MergeOptions(FixedFiles(3)), COPIES),
    "pre-shuffle-merge-bytes": PreShuffleMerge(MergeOptions(FixedBlockSize(300), percent=100)),
    "streaming": Streaming(round_size=2),
    "streaming-copies": Streaming(round_size=4, speculation=COPIES),
}
WITHOUT_COPIES = ["simple", "push*", "push*-bytes", "pre-shuffle-merge", "streaming"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strategy", ALL_STRATEGIES)
def test_whatever_fails_every_row_arrives_once(strategy: str, seed: int) -> None:
    """The seed that fails is in the name of the test; many more, without an engine: test_strategies_exactly_once."""
    with failing(by_lot(seed, 7, 4)) as engine:
        assert_every_row_arrives(ALL_STRATEGIES[strategy], 7, 4)
        if strategy in WITHOUT_COPIES:  # A copy may have made what the script would have failed.
            assert engine.attempts()  # Otherwise the script names nothing that has run.


@pytest.mark.parametrize("strategy", ["simple", "push", "streaming"])
def test_a_sort_writes_every_record_once(tmp_path: Path, strategy: str) -> None:
    gensort(tmp_path / "records", 20_000, partitions=2)
    before = valsort(tmp_path / "records")
    dataset = xs.read_records(tmp_path / "records")
    script: Script = {("map", 0, 1): "die", ("reduce", 1, 1): "die", ("reduce", 2, 1): "raise"}
    if strategy == "streaming":
        script |= {("fold", 2, 1): "die", ("fold", 5, 1): "raise"}
    with failing(script) as engine:
        dataset.sort(strategy=strategy, num_partitions=4).write_records(tmp_path / "sorted")
        assert engine.attempts() == {(name, number): 2 for name, number, _ in script}
    after = valsort(tmp_path / "sorted")
    assert after.is_sorted
    assert (after.records, after.checksum) == (before.records, before.checksum)
    assert len(list((tmp_path / "sorted").glob("part-*"))) == 4


@pytest.mark.parametrize("outcome", ["raise", "die"])
def test_blocks_of_a_partition_that_fails_after_them_come_once(
    outcome: Outcome, tmp_path: Path
) -> None:
    """A reduce hands over block after block: another attempt makes those again that somebody has taken."""
    rows = 1_500
    table = pa.table({"k": pa.array([1] * rows), "a": pa.array(range(rows))})
    pq.write_table(table, tmp_path / "in.parquet")
    source = xs.read_parquet(tmp_path / "in.parquet")
    pairs = source.join(source.rename({"a": "b"}), on="k", num_partitions=2)
    script: Script = {("reduce", number, 1): outcome for number in range(2)}
    with failing(script) as engine:
        batches = list(pairs.iter_batches())
        assert engine.attempts() == {("reduce", number): 2 for number in range(2)}
    made = pa.Table.from_batches(batches)
    assert made.nbytes > 2 * PIECE_BYTES
    counted = made.group_by("a").aggregate([("b", "count"), ("b", "sum")])
    assert counted.num_rows == rows
    assert set(counted["b_count"].to_pylist()) == {rows}
    assert set(counted["b_sum"].to_pylist()) == {rows * (rows - 1) // 2}
