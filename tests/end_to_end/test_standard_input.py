"""``-`` is standard input, in any format, compressed or not."""

from __future__ import annotations

import gzip
import io
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PROGRAM = [sys.executable, "-c", "from exoshuffle.cli import main; main()"]
TABLE = pa.table({"id": [(i * 7919) % 5000 for i in range(5000)], "name": ["x"] * 5000})
CSV = b"id,name\n" + b"".join(f"{i},x\n".encode() for i in TABLE["id"].to_pylist())
JSON = b"".join(f'{{"id":{i},"name":"x"}}\n'.encode() for i in TABLE["id"].to_pylist())


def arrow_stream() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return sink.getvalue()


def arrow_file() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return sink.getvalue()


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink)
    return sink.getvalue()


def run(
    folder: Path, given: bytes, *arguments: str, memory_limit: str = "1GB"
) -> subprocess.CompletedProcess[bytes]:
    spill = folder / "spill"
    spill.mkdir(exist_ok=True)
    done = subprocess.run(
        [*PROGRAM, *arguments, "--memory-limit", memory_limit, "--spill-dir", str(spill)],
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
        cwd=folder,
    )
    assert list(spill.iterdir()) == []
    return done


@pytest.mark.parametrize(
    "given",
    [CSV, JSON, gzip.compress(CSV), arrow_stream(), arrow_file(), parquet()],
    ids=["csv", "json", "csv.gz", "arrow stream", "arrow file", "parquet"],
)
def test_its_first_bytes_tell_the_format(given: bytes, tmp_path: Path) -> None:
    done = run(tmp_path, given, "sort", "-", "-", "--by", "id", "--output-format", "csv")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == b"id,name"
    assert [int(line.split(b",")[0]) for line in lines[1:]] == list(range(5000))


def test_it_goes_out_as_it_came_in(tmp_path: Path) -> None:
    done = run(tmp_path, arrow_stream(), "sort", "-", "-", "--by", "id")
    assert pa.ipc.open_stream(done.stdout).read_all()["id"].to_pylist() == list(range(5000))
    done = run(tmp_path, CSV, "sort", "-", "out.parquet", "--by", "id desc")
    assert done.returncode == 0, done.stderr
    assert pq.read_table(tmp_path / "out.parquet")["id"][0].as_py() == 4999
    done = run(tmp_path, parquet(), "explain", "-", "out/", "--by", "id")
    assert b"1 file, 28" in done.stdout


def test_it_is_closed(tmp_path: Path) -> None:
    arguments = [*PROGRAM, "sort", "-", "out/", "--by", "id", "--spill-dir", str(tmp_path)]
    command = " ".join(map(shlex.quote, arguments))
    done = subprocess.run(f"{command} <&-", shell=True, capture_output=True, text=True, check=False)  # noqa: S602
    assert done.returncode == 1
    assert done.stderr.startswith("exoshuffle: standard input is closed")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "arguments", "words"),
    [
        (b"", ["-", "-"], ["standard input", "empty"]),
        (b"id\n1\noops\n" * 9000, ["-", "out"], []),
        (gzip.compress(CSV)[:-5], ["-", "out"], ["standard input", "gzip", "too early"]),
        (CSV, ["-", "other.csv", "out"], ["- is standard input", "alone"]),
        (b"id\n" + b"1\n" * 20_000 + b"x\n", ["-", "out"], ["standard input", "line 20002"]),
    ],
)
def test_mistakes(given: bytes, arguments: list[str], words: list[str], tmp_path: Path) -> None:
    done = run(tmp_path, given, "sort", *arguments, "--by", "id")
    said = done.stderr.decode()
    assert (done.returncode == 0) == (words == []), said
    assert all(word in said for word in words), said
    assert "/proc/" not in said
    assert "Traceback" not in said


def test_pages_that_do_not_fit_are_those_of_standard_input(tmp_path: Path) -> None:
    sink = io.BytesIO()
    table = pa.table({"id": [1], "s": ["x" * 150_000_000]})
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, write_statistics=False)
    done = run(tmp_path, sink.getvalue(), "sort", "-", "out/", "--by", "id", memory_limit="250MB")
    assert done.returncode != 0
    assert "largest page of 'standard input' takes" in done.stderr.decode()
