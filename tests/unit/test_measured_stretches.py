"""The looks into an input before a shuffle: stretches of a bounded size, whatever the size of the input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.inputs import file_input, file_sizes
from exoshuffle.dataset.inputs.file_input import FileInput
from exoshuffle.errors import CorruptFileError
from exoshuffle.operators.core.order import ByKeys, SortKey
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.steps.columns import Filter
from exoshuffle.operators.steps.functions import MapBatches
from exoshuffle.plan.workload import Resources
from exoshuffle.strategies import plan_shuffle

ROWS = 100_000
READ_BYTES = 20_000
pytestmark = pytest.mark.usefixtures("engine")


def _parquet(folder: Path) -> xs.Dataset:
    pq.write_table(pa.table({"k": range(ROWS)}), folder / "in.parquet", row_group_size=30_000)
    return xs.read_parquet(folder / "in.parquet")


def _arrow(folder: Path) -> xs.Dataset:
    table = pa.table({"k": range(ROWS)})
    with pa.ipc.new_file(folder / "in.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=30_000)
    return xs.read_ipc(folder / "in.arrow")


@pytest.mark.parametrize("made", [_parquet, _arrow])
def test_a_large_input_is_measured_and_sampled_by_short_stretches(
    made: Callable[[Path], xs.Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_sizes, "MAX_CANDIDATES", 3)
    monkeypatch.setattr(file_sizes, "MEASURED_BYTES", READ_BYTES)
    monkeypatch.setattr(file_input, "SAMPLED_BYTES", READ_BYTES)
    read: list[str] = []
    weighed = file_sizes.weighed

    def noted(map_input: Any, parts: list[list[str]], share: float, memory: int) -> Any:
        read.extend(split for part in parts for group in part for split in group)
        return weighed(map_input, parts, share, memory)

    monkeypatch.setattr(file_sizes, "weighed", noted)
    rows = made(tmp_path)
    source = FileInput(rows.node.source, (Filter("k >= 0"),))
    side = Side(rows.schema, ByKeys((SortKey("k"),)))
    workload = source.measure(side)
    assert len(read) >= 3
    assert max(split.bytes for split in read) <= READ_BYTES
    assert abs(workload.num_rows - ROWS) <= ROWS // 20
    samples = xs.get(source.sample(side, [(0, ""), (1, ""), (2, "")], [ROWS] * 3))
    assert 3 * 12 <= sum(map(len, samples)) <= 3 * READ_BYTES * 4


def test_small_files_are_measured_with_their_neighbours(tmp_path: Path) -> None:
    for number in range(320):  # fewer would not be combined before they are grouped
        pq.write_table(pa.table({"k": range(50), "v": range(50)}), tmp_path / f"{number}.parquet")
    groups = xs.read_parquet(tmp_path).group_by("k").agg(total=("v", "sum"))
    # In each file by itself no key comes twice: 16,000 groups.
    (line,) = (line for line in str(groups.explain()).splitlines() if line.startswith("input"))
    assert line.endswith(", 1,000 rows")


@pytest.mark.parametrize("steps", [(), (Filter("k >= 0"),)])
def test_splits_have_room_for_the_largest_rows(steps: tuple[Any, ...], tmp_path: Path) -> None:
    """Half of the rows are all but nothing, and lie beside others of 10 kB in one row group."""
    texts = ["x" if row < 1000 else f"{row}" * 2_500 for row in range(2000)]
    table = pa.table({"k": range(2000), "s": texts})
    pq.write_table(table, tmp_path / "in.parquet", use_dictionary=False, write_batch_size=16)
    rows = xs.read_parquet(tmp_path / "in.parquet")
    source = FileInput(rows.node.source, steps)
    side = Side(rows.schema, ByKeys((SortKey("k"),)))
    splits = source.cut(side, 2_000_000, source.measure(side))
    sizes = [sum(map(len, texts[split.first_row : split.end])) for split in splits]
    assert max(sizes) <= 2_500_000


@pytest.mark.parametrize("steps", [(), (Filter("k >= 0"),)])
def test_a_file_of_one_large_row_makes_no_splits(steps: tuple[Any, ...], tmp_path: Path) -> None:
    """It was taken for an eighth of all rows, and for where all others are as large: 300 splits of 3 MB."""
    pq.write_table(pa.table({"k": [1], "s": ["y" * 1_000_000]}), tmp_path / "0.parquet")
    for number in range(1, 8):
        table = pa.table({"k": range(30_000), "s": ["x"] * 30_000})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=200)
    rows = xs.read_parquet(tmp_path)
    source = FileInput(rows.node.source, steps)
    side = Side(rows.schema, ByKeys((SortKey("k"),)))
    workload = source.measure(side)
    assert len(source.cut(side, 2_000_000, workload)) <= 20
    if not steps:
        assert workload.total_bytes < 15_000_000


@pytest.mark.parametrize("steps", [(), (Filter("k >= 0"),)])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_long_row_of_text_is_found_wherever_it_is(
    ending: str, steps: tuple[Any, ...], tmp_path: Path
) -> None:
    """A stretch of text ends with a row. Only first rows of stretches were looked at."""
    path = tmp_path / f"in.{ending}"
    line = "%d,%s\n" if ending == "csv" else '{"k": %d, "s": "%s"}\n'
    with path.open("w") as file:
        file.write("k,s\n" if ending == "csv" else "")
        for k in range(40_000):
            file.write(line % (k, "x" * (10_000_000 if k == 20_000 else 10)))
    rows = xs.read_csv(path) if ending == "csv" else xs.read_json(path)
    side = Side(rows.schema, ByKeys((SortKey("k"),)))
    workload = FileInput(rows.node.source, steps).measure(side)
    assert 10_000_000 <= workload.max_row_bytes <= 15_000_000
    assert 10_000_000 <= workload.total_bytes <= 15_000_000
    assert workload.num_rows <= 150_000  # it would be 680,000 with the long row in short ones


@pytest.mark.parametrize("steps", [(), (Filter("k >= 0"),)])
@pytest.mark.parametrize("long_bytes", [5_000_000, 15_000_000])
def test_rows_that_have_most_bytes_are_found(
    steps: tuple[Any, ...], long_bytes: int, tmp_path: Path
) -> None:
    """Of 60,000 rows, six have nearly all bytes. They seemed to have 2 MB, though the file tells its size.

    Pages with the shorter ones are read whole. There is no room for this with the longer ones: none is found.
    """
    long_rows = {group * 20_000 + at for group in range(3) for at in (3_000, 15_000)}
    texts = [
        f"{k:05}" * (long_bytes // 5) if k in long_rows else f"short {k}" for k in range(60_000)
    ]
    num_bytes = sum(map(len, texts))
    table = pa.table({"k": range(60_000), "s": texts})
    path = tmp_path / "in.parquet"
    pq.write_table(table, path, row_group_size=20_000, use_dictionary=False, compression="zstd")
    rows = xs.read_parquet(path)
    side = Side(rows.schema, ByKeys((SortKey("k"),)))
    workload = FileInput(rows.node.source, steps).measure(side)
    assert 0.9 * num_bytes <= workload.total_bytes <= 1.2 * num_bytes
    if long_bytes == 5_000_000:
        assert long_bytes <= workload.max_row_bytes <= 1.1 * long_bytes
    elif not steps:  # with steps, stretches are read whole, and one of them has a long row
        assert workload.max_row_bytes < long_bytes


def test_few_looks_decode_a_row_group_of_many_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages have all rows of the group: eight looks decoded 3,000 columns eight times."""
    table = pa.table({f"c{i}": range(i, i + 20_000) for i in range(400)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=20_000)
    looks: list[int] = []
    evenly = file_sizes.evenly

    def counted(items: list[Any], count: int) -> list[Any]:
        looks.append(count)
        return evenly(items, count)

    monkeypatch.setattr(file_sizes, "evenly", counted)
    rows = xs.read_parquet(tmp_path)
    workload = FileInput(rows.node.source, ()).measure(Side(rows.schema, ByKeys((SortKey("c0"),))))
    assert looks == [1]
    assert workload.num_rows == 20_000
    assert 64_000_000 <= workload.total_bytes <= 66_000_000


def _same(table: pa.Table) -> pa.Table:
    return table


def _num_splits(path: Path, budget_bytes: int, steps: tuple[Any, ...] = ()) -> int:
    """Returns how many parts a sort cuts a file into."""
    rows = xs.read_parquet(path)
    source = FileInput(rows.node.source, steps)
    side = Side(rows.schema, ByKeys((SortKey("c0"),)))
    workload = source.measure(side)
    plan = plan_shuffle(workload, Resources(budget_bytes, 2))
    return len(source.cut(side, plan.split_bytes, workload))


def test_rows_that_share_their_pages_are_one_split(tmp_path: Path) -> None:
    """Each of eight splits decoded the whole row group. Memory that has no room for that still cuts it."""
    wide = pa.table({f"c{i}": range(i, i + 5_000) for i in range(1_000)})
    pq.write_table(wide, tmp_path / "wide.parquet", row_group_size=5_000)
    assert _num_splits(tmp_path / "wide.parquet", 10**9) == 1
    assert _num_splits(tmp_path / "wide.parquet", 10**9, (Filter("c0 >= 0"),)) == 1
    assert _num_splits(tmp_path / "wide.parquet", 10**8) > 1
    steps = (MapBatches(_same, wide.schema),)
    assert _num_splits(tmp_path / "wide.parquet", 10**9, steps) > 1, "all CPUs run a function"


def test_one_row_group_of_many_pages_is_cut_for_all_cpus(tmp_path: Path) -> None:
    table = pa.table({f"c{i}": range(i, i + 500_000) for i in range(10)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=500_000)
    assert _num_splits(tmp_path / "in.parquet", 10**9) == 8


def test_rows_of_one_size_are_measured_unread(tmp_path: Path) -> None:
    """Measuring 3,000 columns took 0.3 s of CPU, longer than their map. Damaged pages show that none was read."""
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"k": range(ROWS)}), path, compression="none", use_dictionary=False)
    whole = bytearray(path.read_bytes())
    whole[4:100_000] = bytes(99_996)
    path.write_bytes(whole)
    rows = xs.read_parquet(path)
    side = Side(rows.schema, ByKeys((SortKey("k"),)))
    workload = FileInput(rows.node.source).measure(side)
    assert (workload.num_rows, workload.total_bytes) == (ROWS, ROWS * workload.max_row_bytes)
    with pytest.raises(CorruptFileError, match="not a readable Parquet file"):
        rows.sort("k").to_arrow()
