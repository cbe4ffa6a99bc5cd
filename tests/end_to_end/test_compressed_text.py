"""Compressed text is read as what it is compressed from; what is cut off or damaged is an error, never fewer rows."""

from __future__ import annotations

import gc
import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.opening import open_dataset
from exoshuffle.errors import CorruptFileError, InputError

ROWS = 30_000
CSV = "id,name\n" + "".join(f'{i * 7919 % ROWS},"name, {i}"\n' for i in range(ROWS))
JSON = "".join(f'{{"id":{i * 7919 % ROWS},"name":"name {i}"}}\n' for i in range(ROWS))


def zstd(text: bytes) -> bytes:
    made: bytes = pa.Codec("zstd").compress(text, asbytes=True)
    return made


CODECS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "zst": zstd}
TEXTS = {"csv": CSV.encode(), "jsonl": JSON.encode(), "json": JSON.encode()}

pytestmark = pytest.mark.usefixtures("roomy_engine")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("extension", TEXTS)
def test_as_duckdb_reads_it(extension: str, codec: str, tmp_path: Path) -> None:
    path = tmp_path / f"in.{extension}.{codec}"
    path.write_bytes(CODECS[codec](TEXTS[extension]))
    found = open_dataset(path).sort("id").to_arrow()
    function = "read_csv" if extension == "csv" else "read_json"
    query = f"select id, name from {function}(?) order by id"  # noqa: S608
    wanted = duckdb.connect().execute(query, [str(path)]).fetchall()
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == wanted
    assert len(wanted) == ROWS


@pytest.mark.parametrize("codec", CODECS)
def test_members_and_frames_follow_each_other(codec: str, tmp_path: Path) -> None:
    half = len(CSV) // 2
    encode = CODECS[codec]
    parts = [encode(CSV[:half].encode()), encode(b""), encode(CSV[half:].encode())]
    (tmp_path / f"x.csv.{codec}").write_bytes(b"".join(parts))
    (tmp_path / "x.csv").write_text(CSV)
    compressed = xs.read_csv(tmp_path / f"x.csv.{codec}").to_arrow()
    assert compressed == xs.read_csv(tmp_path / "x.csv").to_arrow()


def test_files_of_a_directory_compressed_or_not(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    text = b"id,name\n1,a\n2,b\n"
    (tmp_path / "in" / "a.csv").write_bytes(text)
    (tmp_path / "in" / "b.csv.gz").write_bytes(gzip.compress(text))
    (tmp_path / "in" / "deep" / "c.csv.zst").write_bytes(zstd(text))
    (tmp_path / "in" / "d.csv").write_bytes(gzip.compress(text))
    (tmp_path / "in" / "_SUCCESS").write_bytes(b"")
    rows = open_dataset(tmp_path / "in")
    assert rows.to_arrow()["id"].to_pylist() == [1, 2] * 4
    names = [Path(file).name for file in rows.files]
    assert names == ["a.csv", "b.csv.gz", "d.csv", "c.csv.zst"]
    assert xs.read_csv(f"{tmp_path}/in/*.gz").to_arrow().num_rows == 2
    (tmp_path / "x.tsv.gz").write_bytes(gzip.compress(text.replace(b",", b"\t")))
    assert xs.read_csv(tmp_path / "x.tsv.gz").to_arrow().num_rows == 2
    (tmp_path / "in" / "e.jsonl.gz").write_bytes(gzip.compress(b'{"id": 3}\n'))
    with pytest.raises(InputError, match=r"a\.csv' looks like csv but .*e\.jsonl\.gz' looks like"):
        open_dataset(tmp_path / "in")
    (tmp_path / "data.gz").write_bytes(gzip.compress(text))
    with pytest.raises(InputError, match=r"format of .*data\.gz' cannot be told"):
        open_dataset(tmp_path / "data.gz")
    assert xs.read_csv(tmp_path / "data.gz").to_arrow().num_rows == 2


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_cut_off_or_damaged_is_an_error(codec: str, tmp_path: Path) -> None:
    path, whole = tmp_path / f"x.csv.{codec}", CODECS[codec](CSV.encode())
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0x55
    cases = {
        "empty": b"",
        "cut in the header": whole[:3],
        "cut in the middle": whole[: len(whole) // 2],
        "cut at the end": whole[:-1],
        "cut in a second member": whole + whole[:50],
        "damaged": bytes(damaged),
        "not compressed": CSV.encode(),
        "text behind it": whole + b"id,name\n1,a\n",
    }
    for name, content in cases.items():
        path.write_bytes(content)
        if name == "damaged" and codec == "zst":
            continue  # its frames have checksums only if that was asked for
        with pytest.raises(CorruptFileError, match=rf"x\.csv\.{codec}'"):
            pytest.fail(f"{name}: {xs.read_csv(path).to_arrow().num_rows} rows")


def test_errors_of_rows_name_the_file_as_it_is_known(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 20_000 + b"1,oops\n"))
    with pytest.raises(InputError, match=r"x\.csv\.gz'?,? line 20002") as caught:
        xs.read_csv(path).sort("a").to_arrow()
    assert "/proc/" not in str(caught.value)
    assert "\0" not in str(caught.value)
    bad = tmp_path / "bad.csv"
    rows = xs.read_csv(path, bad_rows=bad).sort("a")
    assert rows.write_csv(tmp_path / "out.csv").rows == 20_000
    assert f'"{path}",20002,' in bad.read_text()


def test_functions_in_worker_processes_read_it_too(tmp_path: Path) -> None:
    (tmp_path / "x.csv.zst").write_bytes(zstd(CSV.encode()))
    rows = xs.read_csv(tmp_path / "x.csv.zst").map_batches(lambda batch: batch.select(["id"]))
    assert sorted(rows.to_arrow()["id"].to_pylist()) == list(range(ROWS))
    assert rows.sample(100, seed=1).to_arrow() == rows.sample(100, seed=1).to_arrow()


def test_nothing_stays_behind(tmp_path: Path) -> None:
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    gc.collect()  # else what tests before have left is closed meanwhile
    before = set(os.listdir("/proc/self/fd"))
    rows = xs.read_csv(tmp_path / "x.csv.gz")
    assert len(set(os.listdir("/proc/self/fd")) - before) == 1
    assert list((tmp_path / "spill").iterdir()) == []
    del rows
    assert set(os.listdir("/proc/self/fd")) <= before


BOMB = """
import sys
import exoshuffle as xs
from exoshuffle.errors import ExoshuffleError
from exoshuffle.observe.memory import peak_resident_bytes

xs.init(memory_limit="300MB", spill_dirs=sys.argv[2])
try:
    rows = xs.read_csv(sys.argv[1]).group_by().agg(n="count")
    print(rows.to_arrow()["n"][0].as_py())
except ExoshuffleError as error:
    print(type(error).__name__)
print(peak_resident_bytes())
"""


@pytest.mark.parametrize(("name", "line"), [("rows", b"0" * 199 + b"\n"), ("one row", b"0" * 200)])
def test_far_more_text_than_memory(name: str, line: bytes, tmp_path: Path) -> None:
    """400 MB, of which there are 2 MB in the file; as one value it is refused."""
    path, many = tmp_path / "bomb.csv.gz", 400_000_000 // len(line)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"a\n")
        for _ in range(100):
            file.write(line * (many // 100))
    arguments = [sys.executable, "-c", BOMB, str(path), str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    outcome, peak = done.stdout.split()
    assert int(peak) <= 300_000_000
    if name == "rows":
        assert int(outcome) == many
    else:
        assert outcome == "MemoryLimitError"
