"""Sorting on Ray gives the files that sorting on the embedded engine gives, byte for byte."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.cloudsort import gensort

pytest.importorskip("ray")

STRATEGIES = ["simple", "push"]
PROGRAM = [sys.executable, "-c", "from exoshuffle.cli import main; main()"]


def parts(folder: Path) -> dict[str, bytes]:
    """The files of an output directory, without the manifest."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "_SUCCESS"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files with keys that repeat, nulls and lists."""
    folder = tmp_path_factory.mktemp("table")
    for index in range(4):
        rows = range(index * 5_000, (index + 1) * 5_000)
        columns = {
            "key": pa.array([None if row % 11 == 0 else row * 7919 % 1000 for row in rows]),
            "text": pa.array([f"row {row}" for row in rows]),
            "list": pa.array([[row, row + 1] for row in rows]),
        }
        pq.write_table(pa.table(columns), folder / f"{index}.parquet", row_group_size=1_000)
    return folder


@pytest.fixture(scope="module")
def expected(table: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files that the embedded engine makes."""
    output = tmp_path_factory.mktemp("expected") / "out"
    xs.init(memory_limit="2GB", num_cpus=2)
    xs.read_parquet(table).sort(["key", "text"], num_partitions=5).write_parquet(output)
    xs.shutdown()
    return parts(output)


@pytest.fixture(scope="module")
def ray_engine(expected: dict[str, bytes]) -> Iterator[None]:
    """A Ray that the engine starts, for all tests here; after the embedded engine has done its part."""
    del expected
    xs.init(engine="ray", num_cpus=2, object_store_memory="250MB")
    yield
    xs.shutdown()


@pytest.mark.usefixtures("ray_engine")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_tables(tmp_path: Path, table: Path, expected: dict[str, bytes], strategy: str) -> None:
    dataset = xs.read_parquet(table).sort(["key", "text"], strategy=strategy, num_partitions=5)
    dataset.write_parquet(tmp_path / "out")
    assert parts(tmp_path / "out") == expected
    assert dataset.to_arrow().num_rows == 20_000


def test_records_from_the_shell(tmp_path: Path) -> None:
    gensort(tmp_path / "in", 20_000, partitions=3)
    common = ["--partitions", "4", "--memory-limit", "2GB", "--num-cpus", "2"]
    outputs = []
    for engine in ("local", "ray"):
        output = tmp_path / engine
        command = [*PROGRAM, "sort", str(tmp_path / "in"), str(output), "--engine", engine, *common]
        subprocess.run(command, check=True, timeout=120, capture_output=True)
        outputs.append(parts(output))
    assert outputs[0] == outputs[1]
