"""gensort makes Ordinal's bytes, sort orders fixed-length records, valsort notices when it did not."""

from __future__ import annotations

import collections
import hashlib
import importlib
import random
import zlib
from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle import _native
from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import CorruptFileError, OptionsError, OutputError, SchemaError

FIRST_1000_CHECKSUM = "1f9ffe645ec"
FIRST_1000_SHA256 = "58bc059727593984c8b04682ac359c4db035a6225097e824afb660f275566e0c"


def _content(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("part-*")))


def _records(content: bytes, size: int = 100) -> list[bytes]:
    return [content[i : i + size] for i in range(0, len(content), size)]


@pytest.mark.parametrize("partitions", [None, 1, 3, 7])
def test_the_first_thousand_records_are_ordinals(partitions: int | None, tmp_path: Path) -> None:
    result = gensort(tmp_path / "r", 1000, partitions=partitions)
    content = _content(tmp_path / "r")
    assert result.bytes == len(content) == 100_000
    assert hashlib.sha256(content).hexdigest() == FIRST_1000_SHA256
    assert content[:10] == bytes.fromhex("4a696d47726179524950")
    found = valsort(tmp_path / "r")
    assert found.checksum == FIRST_1000_CHECKSUM
    assert f"{sum(map(zlib.crc32, _records(content))):x}" == FIRST_1000_CHECKSUM
    assert not found.is_sorted


def test_a_start_continues_the_sequence(tmp_path: Path) -> None:
    gensort(tmp_path / "all", 5000)
    gensort(tmp_path / "head", 1234)
    gensort(tmp_path / "tail", 5000 - 1234, start=1234, partitions=3)
    assert _content(tmp_path / "head") + _content(tmp_path / "tail") == _content(tmp_path / "all")


def test_ascii_records_are_printable_lines(tmp_path: Path) -> None:
    gensort(tmp_path / "r", 1000, ascii=True)
    for record in _records(_content(tmp_path / "r")):
        assert record.endswith(b"\r\n")
        assert all(32 <= byte < 127 for byte in record[:-2])


def test_skewed_keys_share_their_beginnings(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    gensort(tmp_path / "r", 100_000, skew=True)
    xs.read_records(tmp_path / "r").sort().write_records(tmp_path / "out")
    before, after = valsort(tmp_path / "r"), valsort(tmp_path / "out")
    assert after.is_sorted
    assert after.checksum == before.checksum
    beginnings = collections.Counter(record[:6] for record in _records(_content(tmp_path / "r")))
    assert beginnings.most_common(1)[0][1] > 1000


@pytest.mark.parametrize("strategy", ["simple", "push"])
@pytest.mark.parametrize("num_partitions", [1, 4, 33])
def test_records_are_sorted_stably(
    strategy: str, num_partitions: int, engine: LocalEngine, tmp_path: Path
) -> None:
    del engine
    gensort(tmp_path / "r", 30_000, partitions=4)
    dataset = xs.read_records(tmp_path / "r").sort(strategy=strategy, num_partitions=num_partitions)
    result = dataset.write_records(tmp_path / "out")
    wanted = sorted(_records(_content(tmp_path / "r")), key=lambda record: record[:10])
    assert _content(tmp_path / "out") == b"".join(wanted)
    assert len(result.files) == num_partitions
    for file in result.files:
        assert file["crc32"] == zlib.crc32((tmp_path / "out" / file["name"]).read_bytes())


@pytest.mark.parametrize(
    ("size", "key_size"), [(1, 1), (2, 1), (13, 3), (16, 16), (200, 9), (5000, 20)]
)
@pytest.mark.parametrize("strategy", ["simple", "push"])
def test_records_of_any_size(
    size: int, key_size: int, strategy: str, engine: LocalEngine, tmp_path: Path
) -> None:
    del engine
    rng = random.Random(size)
    few = [rng.randbytes(key_size) for _ in range(50)]
    records = [rng.choice(few) + rng.randbytes(size - key_size) for _ in range(3000)]
    (tmp_path / "in").mkdir()
    for index in range(3):
        (tmp_path / "in" / f"{index}.bin").write_bytes(
            b"".join(records[index * 1000 : (index + 1) * 1000])
        )
    dataset = xs.read_records(tmp_path / "in", record_size=size, key_size=key_size)
    dataset.sort(strategy=strategy, num_partitions=5).write_records(tmp_path / "out")
    assert _content(tmp_path / "out") == b"".join(
        sorted(records, key=lambda record: record[:key_size])
    )
    assert valsort(tmp_path / "out", record_size=size, key_size=key_size).is_sorted


def test_spilled_records_keep_their_checksum(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    gensort(tmp_path / "r", 1_200_000)
    for strategy in ("simple", "push"):
        dataset = xs.read_records(tmp_path / "r").sort(strategy=strategy)
        result = dataset.write_records(tmp_path / "out", overwrite=True)
        assert result.spilled_bytes > 30_000_000
        found = valsort(tmp_path / "out")
        assert found.is_sorted
        assert (found.records, found.checksum) == (1_200_000, valsort(tmp_path / "r").checksum)


def test_target_file_size_of_records(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    gensort(tmp_path / "r", 20_000)
    dataset = xs.read_records(tmp_path / "r").sort(num_partitions=2)
    result = dataset.write_records(tmp_path / "out", target_file_size="500kB")
    assert len(result.files) >= 4
    assert all(file["bytes"] % 100 == 0 for file in result.files)
    assert valsort(tmp_path / "out").is_sorted


def test_valsort_finds_the_first_record_out_of_order_across_files(tmp_path: Path) -> None:
    (tmp_path / "a.dat").write_bytes(b"".join(b"%010d" % i + b"." * 90 for i in range(5)))
    (tmp_path / "b.dat").write_bytes(b"".join(b"%010d" % i + b"." * 90 for i in (3, 9, 8, 8)))
    found = valsort([tmp_path / "a.dat", tmp_path / "b.dat"])
    assert (found.records, found.unordered, found.duplicates) == (9, 2, 1)
    assert found.first_unordered == 5
    assert found.first_unordered_file == str(tmp_path / "b.dat")
    assert found.first_unordered_index == 0


@pytest.mark.usefixtures("engine")
def test_wrong_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="-1 records"):
        gensort(tmp_path / "r", -1)
    with pytest.raises(OptionsError, match="0 partitions"):
        gensort(tmp_path / "r", 10, partitions=0)
    gensort(tmp_path / "r", 10)
    with pytest.raises(OutputError, match="exists"):
        gensort(tmp_path / "r", 10)
    with pytest.raises(CorruptFileError, match=r"1000 bytes.*record size 300"):
        xs.read_records(tmp_path / "r", record_size=300)
    with pytest.raises(OptionsError, match=r"key of 11 bytes.*record of 10"):
        xs.read_records(tmp_path / "r", record_size=10, key_size=11)
    with pytest.raises(OptionsError, match="record"):
        xs.read_records(tmp_path / "r", record_size=0, key_size=0)
    with pytest.raises(OptionsError, match="by="):
        xs.read_records(tmp_path / "r").sort("key")
    with pytest.raises(OptionsError, match="cannot be written as parquet"):
        xs.read_records(tmp_path / "r").sort().write_parquet(tmp_path / "out")


@pytest.mark.parametrize("name", ["num_records", "start", "partitions"])
@pytest.mark.parametrize("number", [2.5, "3"])
def test_numbers_that_are_not_whole_are_refused(name: str, number: object, tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match=rf"{name} is .*{number}.*whole number"):
        gensort(tmp_path / "r", **{"num_records": 10, name: number})  # type: ignore[arg-type]
    assert not (tmp_path / "r").exists()


def test_paths_of_gensort_are_those_of_other_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert gensort("~/home", 10).path == str(tmp_path / "home")
    assert gensort(f"file://{tmp_path}/url", 10).path == str(tmp_path / "url")
    with pytest.raises(OutputError, match=r"scheme 's3'.*only local paths"):
        gensort("s3://bucket/key", 10)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "url"]


@pytest.mark.usefixtures("engine")
def test_records_with_different_keys_are_not_united(tmp_path: Path) -> None:
    gensort(tmp_path / "r", 10)
    rows = [xs.read_records(tmp_path / "r", key_size=size) for size in (10, 4)]
    with pytest.raises(SchemaError, match=r"have 4 and 10 bytes; read all with the same key_size"):
        rows[0].union(rows[1])
    assert rows[1].union(rows[1]).sort().write_records(tmp_path / "out").rows == 20


def test_more_records_than_the_disk_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        importlib.import_module("exoshuffle.cloudsort.gensort"), "free_bytes", lambda _: 99_999
    )
    with pytest.raises(OutputError, match=r"1000 records take 100 kB.* has 100\.0 kB free"):
        gensort(tmp_path / "out", 1000)
    gensort(tmp_path / "out", 999)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("start", [2**64 - 6, 2**64, 2**128 - 10])
def test_records_have_numbers_of_128_bits(start: int, tmp_path: Path) -> None:
    result = gensort(tmp_path / "r", 10, start=start, partitions=2)
    records = _records(_content(tmp_path / "r"))
    assert (result.bytes, len(records)) == (1000, 10)
    numbers = [int(record[12:44], 16) for record in records]
    assert numbers == list(range(start, start + 10))


def test_a_range_beyond_the_last_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match=rf"10 records from .* has number {2**128 - 1};"):
        gensort(tmp_path / "r", 10, start=2**128 - 9)
    assert not (tmp_path / "r").exists()


def test_who_was_told_to_stop_does_not_begin(tmp_path: Path) -> None:
    gensort(tmp_path / "r", 100, partitions=1)
    stop = _native.Stop()
    stop.set()
    with pytest.raises(InterruptedError):
        _native.valsort_file(str(tmp_path / "r" / "part-00000.dat"), 100, 10, stop)
    with pytest.raises(InterruptedError):
        _native.gensort_file(str(tmp_path / "new"), 0, 100, False, False, stop)
