"""A large side of a shuffled join sends few rows that match nothing; the result is that of the join without that."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.inputs import narrowing
from exoshuffle.dataset.jobs import join_jobs, sieving
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.engines.local.memory import limits
from exoshuffle.operators.join import key_filter
from exoshuffle.operators.join.key_filter import KeyFilter, filter_of_keys
from exoshuffle.operators.join.keys import common_type

ROWS = 4000


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Filters sides, and narrows files, of any size."""
    monkeypatch.setattr(sieving, "LEAST_BYTES", 0)
    monkeypatch.setattr(sieving, "TIMES_AS_LARGE", 1)
    monkeypatch.setattr(narrowing, "SMALL_BYTES", 0)
    monkeypatch.setattr(narrowing, "SMALL_FILE_BYTES", 0)
    with xs.init(memory_limit=limits.limit_for(250_000_000), num_cpus=2):
        yield


#: Types of a key on both sides, and a value of a number below 1,000.
KEYS: dict[str, tuple[pa.DataType, pa.DataType, Callable[[int], Any]]] = {
    "widths": (pa.int32(), pa.int64(), lambda x: 7 * x - 900),
    "signs": (pa.uint64(), pa.int16(), lambda x: x),
    "floats": (
        pa.float32(),
        pa.float64(),
        lambda x: [float("nan"), -0.0, 0.0, x / 8][min(x, 3)],
    ),
    "decimals": (pa.decimal128(9, 2), pa.int64(), decimal.Decimal),
    "text": (pa.string(), pa.large_string(), lambda x: f"key {x}"),
    "views": (pa.string_view(), pa.string(), lambda x: f"a text that is not inlined: {x}"),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), pa.string(), lambda x: f"key {x}"),
    "binary": (pa.binary(), pa.binary(3), lambda x: x.to_bytes(3, "little")),
    "dates": (pa.date32(), pa.date32(), lambda x: dt.date(2000, 1, 1) + dt.timedelta(x)),
    "moments": (
        pa.timestamp("ms", "Europe/Berlin"),
        pa.timestamp("us", "UTC"),
        lambda x: dt.datetime(2024, 3, 30, tzinfo=dt.timezone.utc) + dt.timedelta(minutes=7 * x),
    ),
}


def _tables(tmp_path: Path, name: str) -> tuple[xs.Dataset, xs.Dataset]:
    """Writes a side of many rows, in order, and one of few; returns datasets, the second with a filter."""
    rng = random.Random(name)
    kind, other, value = KEYS[name]
    many = [None if rng.random() < 0.05 else row // 4 for row in range(ROWS)]
    few = [None, 0, 1, 2, *sorted(rng.sample(range(3, 1000), 300))]
    left = pa.table(
        {
            "k": pa.array([None if x is None else value(x) for x in many], kind),
            "part": pa.array([None if x is None else x % 3 for x in many], pa.int8()),
            "row": range(ROWS),
        }
    )
    right = pa.table(
        {
            "k": pa.array([None if x is None else value(x) for x in few], other),
            "part": pa.array([None if x is None else x % 3 for x in few], pa.int64()),
            "n": [-1 if x is None else x for x in few],
        }
    )
    pq.write_table(left, tmp_path / "left.parquet", row_group_size=200)
    pq.write_table(right, tmp_path / "right.parquet")
    data = xs.read_parquet(tmp_path / "left.parquet")
    return data, xs.read_parquet(tmp_path / "right.parquet").filter("n < 60")


def _steps(run: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the names of the steps of all inputs of the shuffles that a call has run."""
    found: list[str] = []
    planned = ShuffleJob.run

    def seen(job: ShuffleJob, *arguments: Any) -> Any:
        for source, side in job.inputs:
            found.extend(type(step).__name__ for step in (*source.steps, *side.steps))
        return planned(job, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ShuffleJob, "run", seen)
        run()
    return found


def _lines(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_the_rows_are_those_of_the_join_without_filters(
    name: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = _tables(tmp_path, name)
    on = ["k", "part"] if how in ("inner", "semi") and name != "floats" else ["k"]
    sides = (right, left) if how in ("left", "anti") else (left, right)
    joined = sides[0].join(sides[1], on=on, how=how, num_partitions=3)
    found: list[pa.Table] = []
    steps = _steps(lambda: found.append(joined.to_arrow()), monkeypatch)
    assert ("KeyFilter" in steps) == (how != "full")
    monkeypatch.setattr(sieving, "FILTERED_SIDES", dict.fromkeys(sieving.FILTERED_SIDES, ()))
    assert "KeyFilter" not in _steps(lambda: found.append(joined.to_arrow()), monkeypatch)
    assert _lines(found[0]) == _lines(found[1])
    assert found[0].schema.equals(found[1].schema)


@pytest.mark.parametrize("how", ["inner", "left", "right", "semi", "anti"])
@pytest.mark.parametrize("name", ["widths", "signs", "decimals", "dates", "text", "floats"])
def test_a_broadcast_join_reads_the_parts_of_files_that_may_match(
    name: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = _tables(tmp_path, name)
    left = left.with_columns(twice="row * 2").rename({"k": "key"})
    joined = left.join(right, left_on="key", right_on="k", how=how)
    rows_left: list[int] = []
    narrow = sieving.narrowed

    def seen(source: Any, steps: Any) -> Any:
        found = narrow(source, steps)
        rows_left.append(found.rows)
        return found

    monkeypatch.setattr(sieving, "narrowed", seen)
    found = joined.to_arrow()
    numbers = name in ("widths", "signs", "decimals", "dates")
    if numbers and how in ("inner", "semi"):
        assert rows_left
        assert max(rows_left) < ROWS / 5
    elif numbers:
        assert not rows_left
    shuffled = left.join(right, left_on="key", right_on="k", how=how, num_partitions=3)
    assert _lines(found) == _lines(shuffled.to_arrow())


def test_a_broadcast_side_of_all_rows_narrows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, _ = _tables(tmp_path, "widths")
    right = xs.read_parquet(tmp_path / "right.parquet")
    monkeypatch.setattr(sieving, "narrowed", None)
    assert left.join(right, on="k", how="semi").count() > 0


@pytest.mark.parametrize("name", KEYS)
def test_few_other_rows_pass(name: str) -> None:
    kind, other, value = KEYS[name]
    common = common_type(kind, other)
    assert common is not None
    keys = pa.table({"k": pa.array([value(x) for x in range(100)], other)})
    block = pa.BufferOutputStream()
    with pa.ipc.new_stream(block, keys.schema) as stream:
        stream.write_table(keys)
    bits, _ = filter_of_keys((("k", common),), ["k"], [block.getvalue().to_pybytes()])
    rows = pa.table({"k": pa.array([*map(value, range(1000)), None], kind)})
    step = KeyFilter((("k", common),), bits)
    marks = step.marks(rows).to_pylist()
    assert all(marks[:100])
    assert sum(marks[100:]) < 50
    kept = step.apply(rows.to_reader()).read_all()
    assert kept.num_rows == sum(marks)


def test_a_filter_that_keeps_most_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = pa.table({"k": range(1000)})
    block = pa.BufferOutputStream()
    with pa.ipc.new_stream(block, keys.schema) as stream:
        stream.write_table(keys)
    bits, condition = filter_of_keys((("k", pa.int64()),), ["key"], [block.getvalue().to_pybytes()])
    assert condition == '"key" BETWEEN 0 AND 999'
    step = KeyFilter((("k", pa.int64()),), bits)
    batches = [pa.record_batch({"k": range(start, start + 500)}) for start in (0, 500, 5000)]
    monkeypatch.setattr(
        key_filter, "chunks_of", lambda batches: (pa.Table.from_batches([b]) for b in batches)
    )
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert step.apply(reader).read_all().num_rows == 1500


def test_a_side_without_rows_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = _tables(tmp_path, "widths")
    joined = left.join(right.filter("n > 1000000"), on="k", num_partitions=2)
    assert joined.to_arrow().num_rows == 0
    assert "KeyFilter" in _steps(joined.to_arrow, monkeypatch)


def test_files_are_narrowed_by_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = _tables(tmp_path, "widths")
    sent: list[int | None] = []
    made = sieving.sieved

    def seen(*arguments: Any) -> ShuffleJob:
        job = made(*arguments)
        sent.extend(source.known_rows for source, side in job.inputs if side.tag == 0)
        return job

    monkeypatch.setattr(join_jobs, "sieved", seen)
    joined = left.join(right, on="k", num_partitions=2)
    assert joined.count() > 0
    # Keys of the first 60 of 1,000, four rows each, are in two row groups of 200 rows; null is in all.
    assert sent == [400]


@pytest.mark.parametrize("condition", [None, "n >= 0"])
def test_a_side_that_matches_is_sent_as_it_is(
    condition: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, _ = _tables(tmp_path, "widths")
    all_keys = pa.table({"k": [7 * x - 900 for x in range(1000)], "n": range(1000)})
    pq.write_table(all_keys, tmp_path / "all.parquet")
    right = xs.read_parquet(tmp_path / "all.parquet")
    joined = left.join(right.filter(condition) if condition else right, on="k", num_partitions=2)
    assert "KeyFilter" not in _steps(joined.to_arrow, monkeypatch)


def test_the_bill_names_the_side(tmp_path: Path) -> None:
    left, right = _tables(tmp_path, "widths")
    bill = left.join(right, on="k", num_partitions=2).explain()
    assert bill.filtered_side.startswith("left; rows whose keys the right side lacks are not sent")
    assert "filtered side" in str(bill)
    assert left.join(right, on="k", how="full", num_partitions=2).explain().filtered_side == ""


def test_the_condition_of_keys_imports_no_documented_kernels() -> None:
    """Their import took 0.1 s of CPU time of Q15 of TPC-H, a tenth of it."""
    program = """
import sys
import pyarrow as pa
from exoshuffle.operators.join.key_filter import condition_of_keys

few = pa.chunked_array([pa.array([3, None, 3])])
many = pa.chunked_array([pa.array(range(200))])
print(condition_of_keys(pa.table([few], ["k"]), ["a"]))
print(condition_of_keys(pa.table([many], ["k"]), ["a"]))
print("pyarrow.compute" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ['"a" IN (3)', '"a" BETWEEN 0 AND 199', "False"]
