"""Functions that run where the results of a shuffle, a scan or a join are made.

They run in worker processes, and are in the plan, as those before are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.jobs.in_workers import database_bytes
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.errors import MemoryLimitError
from exoshuffle.plan.workload import BUFFER_BYTES
from exoshuffle.units import parse_bytes
from tests.conftest import checked_engine
from tests.support.oracle import write_files
from tests.support.shuffled import always_shuffle

ROWS = 200_000
ROOM = 700_000_000
#: For a shuffle without processes.
LITTLE_ROOM = 66_000_000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six columns of numbers: 10 MB."""
    numbers = pa.array([n * 7919 % ROWS for n in range(ROWS)], pa.int64())
    table = pa.table(dict.fromkeys("kabcde", numbers))
    return write_files(tmp_path_factory.mktemp("functions") / "in", table, 4, rows_per_group=10_000)


@pytest.fixture(autouse=True)
def _shuffles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are counted by plans of shuffles, also where few rows come before functions."""
    always_shuffle(monkeypatch)


@pytest.fixture
def roomy() -> Iterator[xs.Engine]:
    """So much room that plans are the same with and without worker processes."""
    yield xs.init(memory_limit=limits.limit_for(ROOM), num_cpus=2)
    xs.shutdown()


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[LocalEngine]:
    """So little room that processes have none beside a shuffle, even with a task at a time."""
    yield from checked_engine(tmp_path / "spill", LITTLE_ROOM)


def same(rows: pa.Table) -> pa.Table:
    return rows


def with_process(rows: pa.Table) -> pa.Table:
    return pa.table({"process": pa.array([os.getpid()] * rows.num_rows, pa.int64())})


def few(rows: xs.Dataset) -> xs.Dataset:
    return rows.limit(100).select("k", small="a")


WAYS: dict[str, Callable[[xs.Dataset], xs.Dataset]] = {
    "scan": lambda rows: rows,
    "sort": lambda rows: rows.sort("k"),
    "sort and steps": lambda rows: rows.sort("k").filter("k > 3").select("a"),
    "first rows of a sort": lambda rows: rows.sort("k").limit(10),
    "first rows of partitions": lambda rows: rows.sort("k", num_partitions=9).limit(10),
    "groups": lambda rows: rows.group_by("k").agg(n=("a", "list")),
    "windows": lambda rows: rows.random_shuffle(window="1MB"),
    "join of a sort with little": lambda rows: rows.sort("k").join(few(rows), on="k"),
    "join of a scan with little": lambda rows: rows.join(few(rows), on="k"),
}
SCANS = ("scan", "join of a scan with little")
#: Their reduces use DuckDB, in the processes of the functions.
BY_DATABASE = ("first rows of a sort", "groups")
#: Batches of these are made in their blocks, unless something comes behind.
IN_PLACE = ("sort", "join of a sort with little")


@pytest.mark.usefixtures("roomy")
@pytest.mark.parametrize("way", WAYS)
def test_they_run_in_worker_processes(way: str, source: Path) -> None:
    made = WAYS[way](xs.read_parquet(source)).map_batches(with_process).to_arrow()
    processes = set(made["process"].to_pylist())
    assert processes
    assert os.getpid() not in processes


@pytest.mark.parametrize("results", ["files", "batches"])
@pytest.mark.parametrize("way", WAYS)
def test_the_bill_has_the_processes_of_functions_behind(
    way: str, results: str, source: Path, roomy: LocalEngine
) -> None:
    made = WAYS[way](xs.read_parquet(source))
    if results == "batches" and way in IN_PLACE:
        in_place = made.explain(results="batches")
        made = made.filter("true")
        assert made.explain(results="batches").memory_bytes > in_place.memory_bytes
    plain = made.explain(results=results)  # type: ignore[arg-type]
    behind = made.map_batches(same).explain(results=results)  # type: ignore[arg-type]
    workers = roomy.workers_bytes("process")
    assert workers > 0
    assert behind.memory_bytes < roomy.memory_limit
    # Those of scans read and write in the processes; reduces had buffers for that before.
    buffers = roomy.num_cpus * BUFFER_BYTES if way in SCANS else 0
    database = database_bytes() if way in BY_DATABASE else 0
    assert behind.memory_bytes == plain.memory_bytes + workers + buffers + database


@pytest.mark.parametrize("way", ["sort", "first rows of partitions", "join of a sort with little"])
def test_what_has_no_room_for_processes_is_refused_before_it_starts(
    way: str, source: Path, tight: LocalEngine, tmp_path: Path
) -> None:
    tasks: list[object] = []
    tight.add_observer(lambda event: tasks.append(event) if event.name == "map" else None)
    made = WAYS[way](xs.read_parquet(source))
    for refused in (made.map_batches(same), made.filter("k > 0").map_batches(same).select("k")):
        with pytest.raises(MemoryLimitError, match="does not fit into a memory limit"):
            refused.explain(tmp_path / "out")
        with pytest.raises(MemoryLimitError, match="does not fit into a memory limit"):
            refused.write_parquet(tmp_path / "out")
    assert not tasks
    assert made.write_parquet(tmp_path / "out").rows > 0
    assert tasks


@pytest.mark.parametrize("budget_bytes", [50_000_000, 60_000_000, 68_000_000])
def test_the_limit_that_is_named_has_room_for_all_processes(
    budget_bytes: int, source: Path, tmp_path: Path
) -> None:
    """Less has room for some of them, or for none beside anything else."""
    rows = xs.read_parquet(source).map_batches(same).sort("k")
    rows.schema  # noqa: B018  which loads what would be loaded in between
    limit = limits.limit_for(budget_bytes)
    xs.init(memory_limit=limit, num_cpus=2)
    with pytest.raises(MemoryLimitError, match="does not fit") as refused:
        rows.write_parquet(tmp_path / "out")
    xs.shutdown()
    shown, named = re.findall(r"(?:of|is) (\d[\d.]* MB)", str(refused.value))
    assert parse_bytes(shown) == pytest.approx(limit, rel=0.01)
    xs.init(memory_limit=named, num_cpus=2)
    assert rows.write_parquet(tmp_path / "out").rows == ROWS
    xs.shutdown()
