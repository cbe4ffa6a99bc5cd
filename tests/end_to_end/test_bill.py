"""The bill and what then happens: tasks, merges, files, bytes spilled and bytes read back are as it says."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from examples.strategy_two_level import TwoLevel
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.jobs import spilling
from exoshuffle.engines.local.memory import limits
from exoshuffle.errors import DiskFullError
from exoshuffle.futures.events import TaskFinished
from exoshuffle.strategies import Streaming

NUM_ROWS = 700_000
BUDGET_BYTES = 90_000_000
NUM_FILES = 4
SEED = 5


@dataclass
class Counted:
    """The events of an engine; ``end`` closes it, as the last events come after the last result."""

    engine: xs.Engine
    tasks: collections.Counter[str] = field(default_factory=collections.Counter)
    stats: dict[str, int] = field(default_factory=dict)

    def __call__(self, event: TaskFinished) -> None:
        self.tasks[event.name] += 1

    def end(self) -> None:
        self.stats = self.engine.stats()
        xs.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 106 MB of rows with unique keys, in random order."""
    made = tmp_path_factory.mktemp("bill")
    numbers = random.Random(SEED)
    keys = list(range(NUM_ROWS))
    numbers.shuffle(keys)
    per_file = NUM_ROWS // NUM_FILES
    for index in range(NUM_FILES):
        some = keys[index * per_file : (index + 1) * per_file]
        columns = {
            f"v{i}": pa.Array.from_buffers(
                pa.int64(), per_file, [None, pa.py_buffer(numbers.randbytes(8 * per_file))]
            )
            for i in range(18)
        }
        table = pa.table({"k": pa.array(some, pa.int64()), **columns})
        pq.write_table(table, made / f"{index}.parquet", use_dictionary=False, compression="none")
    return made


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    yield from counted_within(BUDGET_BYTES, tmp_path)


@pytest.fixture
def counted_beside_workers(tmp_path: Path) -> Iterator[Counted]:
    """Two worker processes take a quarter of the budget."""
    yield from counted_within(2 * BUDGET_BYTES, tmp_path)


def counted_within(budget_bytes: int, folder: Path) -> Iterator[Counted]:
    spill = folder / "spill"
    spill.mkdir()
    engine = xs.init(memory_limit=limits.limit_for(budget_bytes), spill_dirs=str(spill), num_cpus=2)
    counts = Counted(engine)
    engine.add_observer(counts)
    yield counts
    xs.shutdown()


def grouped(rows: Dataset, strategy: str) -> Dataset:
    sums = {f"s{i}": (f"v{i}", "max") for i in range(18)}
    return rows.group_by("k", strategy=strategy).agg(**sums)


OPERATORS: dict[str, Callable[[Dataset, str], Dataset]] = {
    "sort": lambda rows, strategy: rows.sort("k", strategy=strategy),
    "random_shuffle": lambda rows, strategy: rows.random_shuffle(1, strategy=strategy),
    "group_by": grouped,
    "join": lambda rows, strategy: rows.join(
        rows.select("k", "v1", "v2", "v3", "v4"), on="k", strategy=strategy
    ),
}


@pytest.mark.parametrize("strategy", ["simple", "push", "pre_shuffle_merge", "streaming"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_what_happens_is_what_the_bill_says(
    operator: str, strategy: str, folder: Path, counted: Counted, tmp_path: Path
) -> None:
    dataset = OPERATORS[operator](xs.read_parquet(folder), strategy)
    bill = dataset.explain(tmp_path / "out")
    result = dataset.write_parquet(tmp_path / "out")
    counted.end()
    assert counted.tasks["map"] == bill.splits
    assert counted.tasks["reduce"] == bill.partitions
    assert counted.tasks["fold"] == bill.folds
    assert bill.folds == (bill.rounds * bill.partitions if strategy == "streaming" else 0)
    assert len(result.files) == bill.output_files
    assert bill.spilled_bytes > BUDGET_BYTES // 4
    # By streaming it depends on when folds run beside maps, which states are still in memory.
    share = 0.3 if strategy == "streaming" else 0.15
    assert counted.stats["spilled_bytes"] == pytest.approx(bill.spilled_bytes, rel=share)
    assert result.bytes == pytest.approx(bill.output_bytes, rel=0.25)
    if strategy == "pre_shuffle_merge":
        # It gives up the last merges, and finds some of their inputs still in memory.
        assert counted.stats["restored_bytes"] <= bill.read_back_bytes * 1.2
        assert 0.9 * bill.merges - 1 <= counted.tasks["merge"] <= bill.merges
    else:
        assert counted.stats["fallback_bytes"] == 0
        read_back = pytest.approx(bill.read_back_bytes, rel=max(share, 0.2))
        assert counted.stats["restored_bytes"] == read_back
        assert counted.tasks["merge"] == bill.merges


def test_a_strategy_of_ones_own_does_what_its_bill_says(
    folder: Path, counted: Counted, tmp_path: Path
) -> None:
    ordered = xs.read_parquet(folder).sort("k", strategy=TwoLevel(), num_partitions=64)
    bill = ordered.explain(tmp_path / "out")
    ordered.write_parquet(tmp_path / "out")
    counted.end()
    tasks = counted.tasks
    run = tasks["map"], tasks["merge"], tasks["reduce"]
    assert run == (bill.splits, bill.merges, bill.partitions)
    assert bill.merges == 8
    assert bill.slices == 8 * bill.splits + 64
    # How many of the 8 merged groups are spilled depends on how early the first reduces run. 0.59 to 0.83 of what the
    # bill says was read back, on idle and busy machines. The excess over memory is, and no row more than twice.
    least, most = bill.row_bytes - BUDGET_BYTES, 2.02 * bill.row_bytes
    assert least < counted.stats["spilled_bytes"] < most
    assert least < counted.stats["restored_bytes"] < most
    assert bill.spilled_bytes == pytest.approx(bill.read_back_bytes, rel=0.02)
    assert bill.spilled_bytes == pytest.approx(2 * bill.row_bytes, rel=0.1)


def same(rows: pa.Table) -> pa.Table:
    return rows


FUNCTIONS: dict[str, Callable[[Dataset], Dataset]] = {
    "before": lambda rows: rows.map_batches(same).sort("k", strategy="simple"),
    "behind": lambda rows: rows.sort("k", strategy="simple").map_batches(same),
}


@pytest.mark.parametrize("place", FUNCTIONS)
def test_functions_spill_what_the_bill_says(
    place: str, folder: Path, counted_beside_workers: Counted, tmp_path: Path
) -> None:
    dataset = FUNCTIONS[place](xs.read_parquet(folder))
    bill = dataset.explain(tmp_path / "out")
    dataset.write_parquet(tmp_path / "out")
    counted_beside_workers.end()
    assert bill.spilled_bytes > bill.row_bytes // 2
    # On busy machines less is spilled: 0.76 of the bill was; on others 0.9 to 0.97.
    spilled = counted_beside_workers.stats["spilled_bytes"]
    assert bill.spilled_bytes // 2 < spilled < 1.15 * bill.spilled_bytes


def test_results_taken_one_by_one_are_not_spilled(folder: Path, counted: Counted) -> None:
    shuffled = xs.read_parquet(folder).random_shuffle(1, strategy="simple")
    bill = shuffled.explain(results="batches")
    assert sum(batch.num_rows for batch in shuffled.iter_batches()) == NUM_ROWS
    counted.end()
    assert counted.stats["spilled_bytes"] == pytest.approx(bill.spilled_bytes, rel=0.15)
    assert counted.stats["fallback_bytes"] == 0
    assert bill.output_files == bill.output_bytes == 0


def test_results_for_another_shuffle_are_billed(folder: Path, counted: Counted) -> None:
    last = xs.read_parquet(folder).random_shuffle(1).sort("k")
    bill = last.explain()
    (before,) = bill.before
    last.write_parquet(folder.parent / "sorted", overwrite=True)
    counted.end()
    assert counted.tasks["map"] == before.splits + before.partitions
    # The size of the first shuffle's rows is known only when it has run.
    assert counted.tasks["reduce"] == pytest.approx(bill.partitions + before.partitions, rel=0.1)
    assert counted.stats["fallback_bytes"] == 0
    expected = bill.spilled_bytes + before.spilled_bytes
    assert counted.stats["spilled_bytes"] == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("round_size", [3, 1000])
def test_rounds_of_a_size_that_was_given_are_billed(
    round_size: int, folder: Path, counted: Counted, tmp_path: Path
) -> None:
    strategy = Streaming(round_size=round_size)
    rows = xs.read_parquet(folder).select("k", "v1", "v2", "v3", "v4")
    parts = rows.random_shuffle(1, strategy=strategy, num_partitions=24)
    last = parts.sort("k", strategy=strategy, num_partitions=24)
    bill = last.explain()
    (before,) = bill.before
    last.write_parquet(tmp_path / "out")
    counted.end()
    assert before.splits > 10
    assert before.rounds == -(-before.splits // round_size)
    assert bill.rounds == -(-bill.splits // round_size)
    assert counted.tasks["fold"] == bill.folds + before.folds


def test_a_join_with_little_is_no_shuffle(folder: Path, counted: Counted, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": pa.array(range(100), pa.int64())}), tmp_path / "few.parquet")
    joined = xs.read_parquet(folder).join(xs.read_parquet(tmp_path / "few.parquet"), on="k")
    bill = joined.explain(tmp_path / "out")
    result = joined.write_parquet(tmp_path / "out")
    counted.end()
    assert (bill.strategy, bill.partitions, bill.spilled_bytes) == ("none", 0, 0)
    assert counted.tasks["scan"] - 1 == bill.splits  # one reads the right side
    assert result.rows == 100
    assert counted.tasks["map"] == counted.stats["spilled_bytes"] == 0


UNSHUFFLED = {
    "scan": (lambda rows: rows.select("k"), "scan", "scan"),
    "sample": (lambda rows: rows.sample(fraction=0.1, seed=1), "scan", "scan"),
    "window": (
        lambda rows: rows.random_shuffle(1, window="8MB"),
        "random_shuffle within windows of 8MB",
        "window",
    ),
    "rows": (
        lambda rows: rows.random_shuffle(1, window=50_000).select("k"),
        "random_shuffle within windows of 50,000 rows",
        "window",
    ),
}


@pytest.mark.parametrize("name", UNSHUFFLED)
def test_what_needs_no_shuffle_is_billed_too(
    name: str, folder: Path, counted: Counted, tmp_path: Path
) -> None:
    make, operator, task = UNSHUFFLED[name]
    dataset = make(xs.read_parquet(folder))
    bill = dataset.explain(tmp_path / "out")
    result = dataset.write_parquet(tmp_path / "out")
    counted.end()
    assert (bill.operator, bill.strategy) == (operator, "none")
    assert counted.tasks[task] == bill.splits == bill.output_files == len(result.files)
    assert (bill.partitions, bill.merges, bill.spilled_bytes) == (0, 0, 0)
    assert counted.stats["spilled_bytes"] == 0
    assert 0 < bill.memory_bytes <= counted.engine.memory_limit


def test_the_first_rows_and_unions_are_billed(folder: Path, counted: Counted) -> None:
    rows = xs.read_parquet(folder)
    assert rows.limit(10).explain().operator == "the first 10 rows"
    first = rows.limit(10).with_columns(twice="k * 2")
    assert first.explain().operator == "the first 10 rows"
    both = rows.sort("k").union(rows.random_shuffle(1)).explain()
    assert both.operator == "scan"
    assert [bill.operator for bill in both.before] == ["sort", "random_shuffle"]
    assert both.splits == sum(bill.partitions for bill in both.before)
    counted.end()
    assert not {"scan", "map", "reduce"} & counted.tasks.keys()


def test_a_join_with_little_after_a_shuffle_is_billed_as_that(
    folder: Path, counted: Counted, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"k": pa.array(range(100), pa.int64())}), tmp_path / "few.parquet")
    joined = (
        xs.read_parquet(folder).sort("k").join(xs.read_parquet(tmp_path / "few.parquet"), on="k")
    )
    assert joined.explain().operator.startswith("sort, then join with ")
    assert joined.explain().partitions == xs.read_parquet(folder).sort("k").explain().partitions
    counted.end()
    assert not counted.tasks


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_rows_of_text_are_billed_as_they_travel(form: str, tmp_path: Path) -> None:
    """A digit has one character and eight bytes; in JSON, each row repeats the names of its fields."""
    numbers = random.Random(SEED)
    table = pa.table({f"a_long_name_{i}": numbers.choices(range(10), k=30_000) for i in range(10)})
    with xs.init(memory_limit="2GB", num_cpus=2):
        rows = xs.from_arrow(table)
        in_memory = rows.sort("a_long_name_0").explain()
        if form == "csv":
            rows.write_csv(tmp_path / "in")
            read = xs.read_csv(tmp_path / "in")
        else:
            rows.write_json(tmp_path / "in")
            read = xs.read_json(tmp_path / "in")
        bill = read.sort("a_long_name_0").explain()
        assert bill.rows == pytest.approx(30_000, rel=0.03)
        assert f", about {bill.rows:,} rows" in str(bill)
        assert bill.row_bytes == pytest.approx(in_memory.row_bytes, rel=0.03)


def test_what_the_disk_has_no_room_for_is_refused_before_it_starts(
    folder: Path, counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilling, "free_bytes", lambda _: 1_000_000)
    shuffled = xs.read_parquet(folder).random_shuffle(1)
    with pytest.raises(DiskFullError, match=r"spill about \d+\.\d MB, .*spill has 1\.00 MB free"):
        shuffled.write_parquet(tmp_path / "out")
    counted.end()
    assert not counted.tasks
    assert not (tmp_path / "out").exists()
