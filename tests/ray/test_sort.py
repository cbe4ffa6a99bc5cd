"""Sorting on Ray: the bytes that the local engine writes, from Python and from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.engines.ray import RayEngine
from exoshuffle.errors import CorruptFileError
from exoshuffle.futures.events import TaskFinished
from tests.ray.outputs import contents

STRATEGIES = ["simple", "push", "pre_shuffle_merge"]
NUM_RECORDS = 300_000


pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records and a table."""
    root = tmp_path_factory.mktemp("data")
    gensort(root / "records", NUM_RECORDS, partitions=3)
    (root / "table").mkdir()
    for i in range(3):
        rows = range(40_000 * i, 40_000 * (i + 1))
        keys = [None if row % 11 == 0 else (row * 7919) % 1000 - 500 for row in rows]
        table = pa.table(
            {
                "key": pa.array(keys, pa.int64()),
                "text": [f"row {row}" * (row % 3) for row in rows],
                "list": [[row, row + 1] if row % 5 else None for row in rows],
            }
        )
        pq.write_table(table, root / "table" / f"{i}.parquet")
    return root


@pytest.fixture(scope="module")
def expected(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The output of the local engine."""
    root = tmp_path_factory.mktemp("local")
    xs.init(num_cpus=2, memory_limit="2GB")
    for sort in (sort_records, sort_table):
        sort(data, root / sort.__name__, "simple")
    xs.shutdown()
    return {path.name: contents(path) for path in root.iterdir()}


def sort_records(data: Path, output: Path, strategy: str) -> None:
    xs.read_records(data / "records").sort(strategy=strategy, num_partitions=5).write_records(
        output
    )


def sort_table(data: Path, output: Path, strategy: str) -> None:
    table = xs.read_parquet(data / "table")
    ordered = table.sort(["key", "text"], [True, False], strategy=strategy, num_partitions=4)
    ordered.write_parquet(output)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("sort", [sort_records, sort_table])
def test_the_same_bytes(
    expected: dict[str, dict[str, bytes]],
    data: Path,
    tmp_path: Path,
    sort: Callable[..., None],
    strategy: str,
) -> None:
    sort(data, tmp_path / "out", strategy)
    assert contents(tmp_path / "out") == expected[sort.__name__]
    assert len(expected[sort.__name__]) >= 4


def test_more_than_the_object_store(engine: RayEngine, tmp_path: Path) -> None:
    gensort(tmp_path / "in", 2_500_000, partitions=4)
    assert engine.budget_bytes < 250_000_000
    for strategy in STRATEGIES:
        result = (
            xs.read_records(tmp_path / "in")
            .sort(strategy=strategy)
            .write_records(tmp_path / strategy)
        )
        assert result.spilled_bytes is None  # whoever started this Ray may know
        before, after = valsort(tmp_path / "in"), valsort(tmp_path / strategy)
        assert after.is_sorted
        assert (after.records, after.checksum) == (before.records, before.checksum)


def test_tables_in_memory(data: Path) -> None:
    table = xs.read_parquet(data / "table").sort("key").to_arrow()
    keys = table["key"].to_pylist()
    assert keys == sorted(keys, key=lambda key: (key is None, key))
    assert table.num_rows == 120_000
    scanned = xs.read_parquet(data / "table").to_arrow()
    assert scanned["text"].to_pylist() == [f"row {row}" * (row % 3) for row in range(120_000)]


def test_explain(data: Path, tmp_path: Path) -> None:
    bill = xs.read_records(data / "records").sort().explain(tmp_path)
    assert bill.rows == NUM_RECORDS
    assert bill.spill_free_bytes is None
    shown = str(bill)
    assert "unknown" not in shown
    assert "a Ray cluster that was found: 1 node, 2 CPUs, 200 MB of object store" in shown
    assert "not enforced: what processes really take" in shown
    assert list(bill.runs_on) == json.loads(json.dumps(bill.to_dict()))["runs_on"]


def test_every_step_is_seen(engine: RayEngine, data: Path, tmp_path: Path) -> None:
    seen: list[TaskFinished] = []
    engine.add_observer(seen.append)
    dataset = xs.read_records(data / "records").sort(strategy="push", num_partitions=3)
    num_splits = dataset.explain().splits
    dataset.write_records(tmp_path / "out")
    engine.remove_observer(seen.append)  # tells the rest
    names = [event.name for event in seen]
    assert (names.count("map"), names.count("reduce")) == (num_splits, 3)


def test_errors_are_those_of_the_local_engine(data: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    content = bytearray((data / "table" / "0.parquet").read_bytes())
    content[4:400] = bytes(396)
    (tmp_path / "in" / "broken.parquet").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"broken\.parquet"):
        xs.read_parquet(tmp_path / "in").sort("key", num_partitions=3).write_parquet(
            tmp_path / "out"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_the_command_line(
    expected: dict[str, dict[str, bytes]], data: Path, tmp_path: Path
) -> None:
    program = [sys.executable, "-c", "from exoshuffle.cli import main; main()", "sort"]
    files = [str(data / "records"), str(tmp_path / "out"), "--format", "records"]
    options = [
        "--engine",
        "ray",
        "--num-cpus",
        "2",
        "--memory-limit",
        "1GB",
        "--partitions",
        "5",
        "--json",
    ]
    done = subprocess.run(
        [*program, *files, *options], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["rows"] == NUM_RECORDS
    assert contents(tmp_path / "out") == expected["sort_records"]
