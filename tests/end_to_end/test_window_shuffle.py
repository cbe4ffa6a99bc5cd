"""A shuffle within windows: all rows, windows of neighbours that stay together, each in uniformly random order."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.dataset.explain.quality import order_quality
from exoshuffle.dataset.inputs.file_input import FileInput
from exoshuffle.dataset.jobs.windows import small_window
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import MemoryLimitError, OptionsError
from exoshuffle.futures import Engine
from exoshuffle.operators.steps.sample import numbers_within
from exoshuffle.units import parse_bytes
from tests.support.generated import assert_same_rows, generated, query
from tests.support.limits import large_memory_limit, small_memory_limit
from tests.support.oracle import write_files

ROWS = 60_000
WINDOW = 1000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return generated(ROWS)


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("windows") / "in", table, 3, rows_per_group=5000)


@pytest.fixture
def roomy(tmp_path: Path) -> Iterator[Engine]:
    """With room for worker processes beside a shuffle."""
    yield xs.init(memory_limit=large_memory_limit(), spill_dirs=str(tmp_path))
    xs.shutdown()


def ids(dataset: xs.Dataset) -> list[int]:
    return dataset.to_arrow()["id"].to_pylist()


def stretches(dataset: xs.Dataset, window: int | str) -> list[range]:
    """The rows of each window, as they are cut from files of 20,000 rows each that ``id`` numbers."""
    rows = small_window(dataset.node, window)
    if rows is not None:
        files = range(0, ROWS, ROWS // 3)
        return [
            range(start + at, start + min(at + rows, ROWS // 3))
            for start in files
            for at in range(0, ROWS // 3, rows)
        ]
    source = FileInput(dataset.node.source)
    size = parse_bytes(window) if isinstance(window, str) else source.window_bytes(window)
    cut = source.pieces(size * 2 // 3)
    starts = [split.file_index * ROWS // 3 for split in cut]
    return [
        range(start + split.first_row, start + split.end)
        for start, split in zip(starts, cut, strict=True)
    ]


def windows_of(found: list[int], cut: list[range]) -> list[list[int]]:
    """The rows of each window in the order in which they come out, the first window first; each is in one piece."""
    places = {row: place for place, row in enumerate(found)}
    windows = []
    for stretch in cut:
        inside = sorted(places[row] for row in stretch)
        assert inside[-1] - inside[0] == len(stretch) - 1, stretch
        windows.append(found[inside[0] : inside[-1] + 1])
    return sorted(windows, key=lambda window: places[window[0]])


def test_rows_stay_and_windows_stay_together(
    table: pa.Table, source: Path, engine: LocalEngine
) -> None:
    spilled = engine.stats()["spilled_bytes"]
    shuffled = xs.read_parquet(source).random_shuffle(seed=1, window=WINDOW).to_arrow()
    assert shuffled.schema.equals(table.schema)
    assert_same_rows(shuffled, table)
    found = shuffled["id"].to_pylist()
    places = {row: place for place, row in enumerate(found)}
    for start in range(0, ROWS, WINDOW):
        inside = [places[row] for row in range(start, start + WINDOW)]
        assert max(inside) - min(inside) == WINDOW - 1, start
    assert engine.stats()["spilled_bytes"] == spilled
    order = [row // WINDOW for row in found[::WINDOW]]
    assert sorted(order) == list(range(ROWS // WINDOW)) != order


@pytest.mark.parametrize("window", [200, 5000, 20_000, "50kB", "10MB"])
def test_no_window_has_more_rows(window: int | str, source: Path, engine: LocalEngine) -> None:
    del engine
    dataset = xs.read_parquet(source)
    cut = stretches(dataset, window)
    if isinstance(window, int):
        assert max(map(len, cut)) <= window
        assert len(cut) <= 3 * ROWS // window
    found = ids(dataset.random_shuffle(seed=2, window=window))
    assert sorted(found) == list(range(ROWS))
    windows = windows_of(found, cut)
    assert all(window != sorted(window) for window in windows if len(window) > 10)
    assert windows != sorted(windows)


def test_the_order_depends_on_the_seed_alone(source: Path, tmp_path: Path) -> None:
    made = []
    for num_cpus, memory in [(1, large_memory_limit()), (2, small_memory_limit()), (3, "2GB")]:
        xs.init(memory_limit=memory, spill_dirs=str(tmp_path), num_cpus=num_cpus)
        dataset = xs.read_parquet(source)
        made.append(
            (
                ids(dataset.random_shuffle(seed=5, window=WINDOW)),
                ids(dataset.filter("id % 2 = 0").random_shuffle(seed=5, window="200kB")),
            )
        )
        xs.shutdown()
    assert made[0] == made[1] == made[2]
    assert sorted(made[0][1]) == list(range(0, ROWS, 2))
    xs.init(memory_limit=small_memory_limit(), spill_dirs=str(tmp_path))
    assert ids(xs.read_parquet(source).random_shuffle(seed=6, window=WINDOW)) != made[0][0]
    xs.shutdown()


def test_windows_of_which_a_row_group_has_many_are_not_read_one_by_one(tmp_path: Path) -> None:
    """A million rows in windows of 1,000 decoded their row group a thousand times, half of it each time."""
    rows = pa.table({"id": range(200_000)})
    pq.write_table(rows, tmp_path / "one.parquet")
    one = xs.read_parquet(tmp_path / "one.parquet").node
    assert small_window(one, 1000) == 1000
    assert small_window(one, 49_999) == 49_999
    assert small_window(one, 50_000) is None
    assert small_window(one, "16kB") == 2000
    assert small_window(one, "800kB") is None
    pq.write_table(rows, tmp_path / "many.parquet", row_group_size=40_000)
    many = xs.read_parquet(tmp_path / "many.parquet").node
    assert small_window(many, 33_000) is None
    assert small_window(many, 31_000) == 31_000  # which are less than 256 kB


@pytest.mark.parametrize("window", [1, 7, 1000, 100_000])
def test_numbers_of_windows_are_the_same_wherever_they_are_made(
    window: int, engine: LocalEngine, tmp_path: Path
) -> None:
    """Maps number rows of files natively, steps in Python; both as the rule says."""
    del engine
    rows = 3000
    pq.write_table(pa.table({"id": range(rows)}), tmp_path / "one.parquet")
    dataset = xs.read_parquet(tmp_path / "one.parquet")
    made = numbers_within(window, 4, 0, 0, rows).to_pylist()
    assert made[5:9] == numbers_within(window, 4, 0, 5, 4).to_pylist()
    wanted = sorted(range(rows), key=lambda row: made[row])
    assert ids(dataset.random_shuffle(4, window=window)) == wanted
    stepped = dataset.filter("id >= 0").random_shuffle(4, window=window)
    assert ids(stepped) == wanted


# --- uniform within a window -------------------------------------------------------------------------------------


def assert_uniform(windows: list[list[int]], cells: int = 8) -> None:
    """Chi-square of (place in the input) x (place in the output), both within the window, over all windows.

    Margins are fixed, so there are 49 degrees of freedom, with the mean 49 and the variance 98.
    """
    counts = [0] * cells**2
    for window in windows:
        low, size = min(window), len(window)
        for place, row in enumerate(window):
            counts[(row - low) * cells // size * cells + place * cells // size] += 1
    mean = sum(map(len, windows)) / cells**2
    statistic = sum((count - mean) ** 2 / mean for count in counts)
    assert abs(statistic - 49) < 4 * 98**0.5, statistic


def test_every_order_within_a_window_is_as_likely(source: Path, engine: LocalEngine) -> None:
    del engine
    dataset = xs.read_parquet(source)
    found = ids(dataset.random_shuffle(seed=11, window=1200))
    assert_uniform(windows_of(found, stretches(dataset, 1200)))


@pytest.mark.parametrize("defect", ["none", "not shuffled", "rotated", "half shuffled", "blocks"])
def test_the_statistic_finds_defects(defect: str) -> None:
    rng = random.Random(4)
    windows = []
    for start in range(0, ROWS, 800):
        window = list(range(start, start + 800))
        if defect == "rotated":
            cut = rng.randrange(800) // 2
            window = window[cut:] + window[:cut]
        elif defect == "half shuffled":
            head = window[:400]
            rng.shuffle(head)
            window[:400] = head
        elif defect == "blocks":  # within 100 rows only
            for low in range(0, 800, 100):
                part = window[low : low + 100]
                rng.shuffle(part)
                window[low : low + 100] = part
        elif defect == "none":
            rng.shuffle(window)
        windows.append(window)
    if defect == "none":
        assert_uniform(windows)
        return
    with pytest.raises(AssertionError):
        assert_uniform(windows)


def test_the_order_of_windows_is_random(source: Path, engine: LocalEngine) -> None:
    """The mean of |old place - new place| over many windows is a third of their number."""
    del engine
    dataset = xs.read_parquet(source)
    cut = stretches(dataset, 400)
    count = len(cut)
    numbers = {stretch[0]: number for number, stretch in enumerate(cut)}
    for seed in (1, 2):
        windows = windows_of(ids(dataset.random_shuffle(seed, window=400)), cut)
        moved = [abs(numbers[min(window)] - place) for place, window in enumerate(windows)]
        assert abs(sum(moved) / count**2 - 1 / 3) < 4 * 0.3 / count**0.5, seed


# --- inputs ------------------------------------------------------------------------------------------------------


def test_unions_functions_and_what_comes_behind(
    table: pa.Table, source: Path, roomy: Engine
) -> None:
    del roomy
    dataset = xs.read_parquet(source).select("id", "k")
    both = dataset.union(dataset.map_batches(lambda batch: batch)).random_shuffle(3, window=WINDOW)
    flat = table.select(["id", "k"])
    assert_same_rows(both.to_arrow(), pa.concat_tables([flat, flat]))
    counted = dataset.random_shuffle(3, window=WINDOW).group_by("k").agg(n="count")
    wanted = query("select k, count(*) as n from t group by k", t=table)
    assert_same_rows(counted.to_arrow(), wanted)
    assert len(ids(dataset.random_shuffle(3, window=WINDOW).limit(10))) == 10


@pytest.mark.parametrize("kind", ["csv", "jsonl", "records"])
def test_other_formats(kind: str, engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    if kind == "records":
        gensort(tmp_path / "in", 20_000, partitions=3)
        dataset = xs.read_records(tmp_path / "in").random_shuffle(3, window=500)
        dataset.write_records(tmp_path / "out")
        before, after = (valsort(tmp_path / name) for name in ("in", "out"))
        assert (after.records, after.checksum) == (20_000, before.checksum)
        return
    rows = pa.table({"id": range(20_000), "text": ["abc" * (i % 5) for i in range(20_000)]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    xs.read_parquet(tmp_path / "rows.parquet").repartition(2).sort("id").write(
        tmp_path / "in", WriteOptions(kind)
    )
    read = xs.read_csv if kind == "csv" else xs.read_json
    found = ids(read(tmp_path / "in").random_shuffle(3, window=500))
    assert sorted(found) == list(range(20_000))
    moved = [abs(one - other) for one, other in itertools.pairwise(found)]
    assert 50 < sorted(moved)[10_000] < 500  # neighbours of a window, hardly ever of the input
    assert found == ids(read(tmp_path / "in").random_shuffle(3, window=500))


def test_the_bill_tells_the_quality_of_the_order(source: Path, engine: LocalEngine) -> None:
    del engine
    dataset = xs.read_parquet(source)
    sizes = [len(stretch) for stretch in stretches(dataset, "600kB")]
    assert len(sizes) > 1
    why = dataset.random_shuffle(1, window="600kB").explain().why
    assert f"(quality of the order {order_quality(sizes):.2f}; that of a uniform one is 1)" in why


def test_mistakes(source: Path, engine: LocalEngine) -> None:
    del engine
    dataset = xs.read_parquet(source)
    with pytest.raises(OptionsError, match="window is 0; it must be a number of rows"):
        dataset.random_shuffle(window=0)
    with pytest.raises(OptionsError, match="'many' is not a size"):
        dataset.random_shuffle(window="many")
    with pytest.raises(OptionsError, match="leave out strategy and num_partitions"):
        dataset.random_shuffle(window=5, num_partitions=2)
    with pytest.raises(OptionsError, match="write the result of the other operation first"):
        dataset.sort("id").random_shuffle(window=5)
    with pytest.raises(MemoryLimitError, match=r"a window of 1.00 GB takes 3.02 GB"):
        dataset.random_shuffle(window="1GB").to_arrow()
