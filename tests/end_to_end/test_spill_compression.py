"""Spilled bytes that are compressed: the same rows, fewer bytes on disk, within the same limit; and who chooses it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits, spilling
from exoshuffle.engines.local.memory.spilling import codec_of
from exoshuffle.errors import MemoryLimitError
from tests.support.commands import Outcome
from tests.support.limits import SMALL_BUDGET_BYTES

NUM_ROWS = 1_500_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of keys in no order and texts that repeat: 80 MB."""
    made = tmp_path_factory.mktemp("rows")
    draw = random.Random(5)
    keys = pa.array([draw.getrandbits(40) for _ in range(NUM_ROWS)])
    names = pa.array([f"customer {number % 5000} of the north" for number in range(NUM_ROWS)])
    pq.write_table(pa.table({"key": keys, "name": names}), made / "rows.parquet")
    return made


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_sort_that_spills_packed_rows(codec: str, folder: Path, tmp_path: Path) -> None:
    packing = xs._native.Store.packing_bytes(codec, 1)
    limit = limits.limit_for(SMALL_BUDGET_BYTES + packing)
    with xs.init(memory_limit=limit, spill_dirs=str(tmp_path), spill_compression=codec) as engine:
        rows = xs.read_parquet(folder).sort("key")
        assert f"compressed by {codec}" in str(rows.explain())
        found = pa.Table.from_batches(rows.iter_batches()).combine_chunks()
        stats = engine.stats()
    expected = pq.read_table(folder).sort_by("key")
    assert found.equals(expected.cast(found.schema))
    assert 0 < stats["written_bytes"] < 0.7 * stats["spilled_bytes"]
    assert stats["restored_bytes"] > 0


def test_auto_compresses_where_the_disk_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {}
    for kind in ("ssd", "network", "rotational"):
        monkeypatch.setattr(spilling, "disk_kind", lambda _, kind=kind: kind)
        chosen[kind] = codec_of("auto", ["."])
    assert chosen == {"ssd": None, "network": "lz4", "rotational": "lz4"}
    assert codec_of("none", ["."]) is None


def test_its_buffers_come_out_of_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "resident_bytes", lambda: 100_000_000)

    def budget(compression: str) -> int:
        options = {"spill_dirs": str(tmp_path), "spill_compression": compression}
        with xs.init(memory_limit="500MB", **options) as engine:
            return engine.stats()["budget_bytes"]

    assert budget("none") - budget("zstd") == xs._native.Store.packing_bytes("zstd", 1)


def test_a_limit_that_leaves_no_room_for_them_is_refused(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.close()
    # A second look finds less than the first, which gives memory back.
    found = limits.resident_bytes()
    monkeypatch.setattr(limits, "resident_bytes", lambda: found)
    limit = limits.limit_for(limits.MIN_BUDGET_BYTES + 2_000_000)
    with pytest.raises(MemoryLimitError, match="the smallest that works is"):
        xs.init(memory_limit=limit, spill_compression="lz4")


def test_the_command_line(folder: Path, tmp_path: Path, process: Callable[..., Outcome]) -> None:
    arguments = ["sort", str(folder), str(tmp_path / "out"), "--by", "key", "--explain"]
    found = process(*arguments, "--spill-compression", "zstd", "--memory-limit", "1GB")
    assert found.code == 0, found.err
    wrong = process(*arguments, "--spill-compression", "lz5")
    assert wrong.code == 2
    assert "'zstd'" in wrong.err
    of_ray = [*arguments, "--spill-compression", "lz4", "--engine", "ray"]
    assert "of the local engine" in process(*of_ray).err
