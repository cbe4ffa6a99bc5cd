"""Every format of tables on Ray: read, and written to the bytes that the local engine writes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.engines.ray import RayEngine
from tests.ray.outputs import contents
from tests.support.formats import READERS, WRITERS
from tests.support.generated import generated
from tests.support.oracle import write_files

#: Parquet is what ``test_sort`` sorts.
FORMATS = sorted(WRITERS.keys() - {"parquet"})
NUM_FILES, NUM_PARTITIONS = 3, 4


def sort(source: Path, output: Path, extension: str) -> dict[str, bytes]:
    """Sorts files of a format, and returns those written."""
    ordered = READERS[extension](source).sort(["small", "id"], num_partitions=NUM_PARTITIONS)
    getattr(ordered, WRITERS[extension])(output)
    return contents(output)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats")


@pytest.fixture(scope="module")
def expected(root: Path) -> dict[str, dict[str, bytes]]:
    """The output of the local engine, of files that it has written too."""
    table = generated(20_000).drop_columns(["nested"])  # CSV has no lists
    source = write_files(root / "parquet", table, NUM_FILES)
    xs.init(num_cpus=2, memory_limit="2GB")
    made = {}
    for extension in FORMATS:
        whole = xs.read_parquet(source).repartition(NUM_FILES)
        getattr(whole, WRITERS[extension])(root / f"{extension}-in")
        made[extension] = sort(root / f"{extension}-in", root / f"{extension}-local", extension)
    xs.shutdown()
    return made


def test_compressed_text_and_one_file(root: Path, engine: RayEngine) -> None:
    del engine
    text = "id,name\n" + "".join(f"{number * 7 % 500},x\n" for number in range(500))
    (root / "in.csv.gz").write_bytes(gzip.compress(text.encode()))
    rows = xs.read_csv(root / "in.csv.gz").sort("id", num_partitions=NUM_PARTITIONS)
    assert rows.write_csv(root / "out.csv").rows == 500
    ordered = "id,name\n" + "".join(f"{number},x\n" for number in range(500))
    assert (root / "out.csv").read_text() == ordered


def test_hive_directories(root: Path, engine: RayEngine) -> None:
    del engine
    table = generated(3000).select(["id", "small"])
    source = write_files(root / "plain", table, NUM_FILES)
    xs.read_parquet(source).sort("id").write_parquet(root / "hive", partition_by="small")
    rows = xs.read_parquet(root / "hive")
    read = rows.sort("id").select("id", "small").to_arrow()
    assert read.to_pylist() == table.sort_by("id").to_pylist()
    one = rows.filter("small = 3")
    assert len(one.files) == 1
    assert set(one.to_arrow().column("small").to_pylist()) == {3}


@pytest.mark.parametrize("extension", FORMATS)
def test_the_same_bytes(
    expected: dict[str, dict[str, bytes]], root: Path, extension: str, engine: RayEngine
) -> None:
    del engine
    written = sort(root / f"{extension}-in", root / f"{extension}-ray", extension)
    assert len(list((root / f"{extension}-in").glob("part-*"))) == NUM_FILES
    assert len([name for name in written if name.endswith(extension)]) == NUM_PARTITIONS
    assert written == expected[extension]
