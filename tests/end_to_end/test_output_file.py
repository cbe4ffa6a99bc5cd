"""An output with an ending is one file, which appears complete or not at all; - is standard output."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.cloudsort import gensort
from exoshuffle.dataset.write import replacing
from exoshuffle.dataset.write.file import OutputFile
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.errors import OptionsError, OutputError
from tests.support.oracle import write_files
from tests.support.tables import distributed

ROWS = 30_000
LIMIT = ("--memory-limit", "2GB")
PROGRAM = [sys.executable, "-c", "from exoshuffle.cli import main; main()"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("file") / "in", distributed("uniform", ROWS), 3)


def wanted(source: Path) -> list[int]:
    """The keys in order, as DuckDB sorts them."""
    query = "select key from read_parquet(?) order by key"
    return [row[0] for row in duckdb.connect().execute(query, [f"{source}/*.parquet"]).fetchall()]


READERS: dict[str, Callable[[Path], pa.Table]] = {
    "out.parquet": pq.read_table,
    "out.pq": pq.read_table,
    "out.csv": pyarrow.csv.read_csv,
    "out.jsonl": pyarrow.json.read_json,
    "out.json": pyarrow.json.read_json,
    "out.arrow": lambda path: pa.ipc.open_file(path).read_all(),
    "out.feather": lambda path: pa.ipc.open_file(path).read_all(),
    "out.arrows": lambda path: pa.ipc.open_stream(path).read_all(),
    "out.v2.parquet": pq.read_table,
}


@pytest.mark.parametrize("name", READERS)
def test_the_ending_decides(name: str, source: Path, command, tmp_path: Path) -> None:
    out = tmp_path / name
    done = command("sort", source, out, "--by", "key", "--partitions", 4, *LIMIT)
    assert (done.code, done.err) == (0, "")
    assert READERS[name](out)["key"].to_pylist() == wanted(source)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.usefixtures("engine")
def test_from_python(source: Path, tmp_path: Path) -> None:
    rows = xs.read_parquet(source).sort("key", num_partitions=4)
    result = rows.write_parquet(tmp_path / "a" / "out.parquet", compression="zstd")
    (file,) = result.files
    assert (result.rows, file["name"], file["rows"]) == (ROWS, "out.parquet", ROWS)
    assert file["bytes"] == result.bytes == (tmp_path / "a" / "out.parquet").stat().st_size
    assert xs.read_parquet(result.path).to_arrow() == rows.to_arrow()
    assert rows.write_csv(tmp_path / "rows.txt").rows == ROWS
    assert (tmp_path / "rows.txt").read_text().startswith("key,text\n")
    assert rows.explain(tmp_path / "new.parquet").output_files == 1
    assert not (tmp_path / "new.parquet").exists()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "make",
    [
        lambda rows: rows.filter("key < 0"),
        lambda rows: rows.filter("key < 0").sort("key"),
        lambda rows: rows.limit(0),
    ],
)
def test_no_rows_are_a_file_too(make, source: Path, tmp_path: Path) -> None:
    rows = make(xs.read_parquet(source))
    assert rows.write_csv(tmp_path / "out.csv").rows == 0
    assert (tmp_path / "out.csv").read_text() == "key,text\n"
    rows.write_parquet(tmp_path / "out.parquet")
    assert pq.read_schema(tmp_path / "out.parquet").names == ["key", "text"]


@pytest.mark.usefixtures("engine")
def test_other_jobs_than_shuffles(source: Path, tmp_path: Path) -> None:
    rows = xs.read_parquet(source)
    jobs = {
        "scan": rows,
        "limit": rows.sort("key").limit(7),
        "later limit": rows.filter("key % 2 = 0").limit(9_000),
        "union": rows.union(rows),
        "function": rows.map_batches(lambda batch: batch.select(["key"])),
        "windows": rows.random_shuffle(1, window=500),
        "cross": rows.limit(20).join(rows.select("text").limit(30), how="cross"),
    }
    for name, job in jobs.items():
        job.write_ipc(tmp_path / f"{name}.arrow")
        assert pa.ipc.open_file(tmp_path / f"{name}.arrow").read_all() == job.to_arrow(), name


@pytest.mark.usefixtures("engine")
def test_records(tmp_path: Path) -> None:
    gensort(tmp_path / "in", 5_000, partitions=3)
    records = xs.read_records(tmp_path / "in").sort()
    records.write_records(tmp_path / "out.dat")
    records.write_records(tmp_path / "out")
    parts = sorted((tmp_path / "out").glob("part-*"))
    assert (tmp_path / "out.dat").read_bytes() == b"".join(part.read_bytes() for part in parts)


@pytest.mark.usefixtures("engine")
def test_what_is_a_directory_all_the_same(source: Path, tmp_path: Path) -> None:
    rows = xs.read_parquet(source).sort("key")
    (tmp_path / "there.parquet").mkdir()
    for name in ("out.parquet/", "there.parquet", ".hidden", "out"):
        rows.write_parquet(f"{tmp_path}/{name}")
        assert (tmp_path / name / "part-00000.parquet").is_file()
    with pytest.raises(OutputError, match=r"out exists"):
        rows.write_parquet(tmp_path / "out")


@pytest.mark.usefixtures("engine")
def test_an_existing_file_stays_unless_overwritten(source: Path, tmp_path: Path) -> None:
    rows, out = xs.read_parquet(source).sort("key"), tmp_path / "out.parquet"
    out.write_text("precious")
    with pytest.raises(OutputError, match=r"out\.parquet exists; pass overwrite=True"):
        rows.write_parquet(out)
    with pytest.raises(OutputError, match=r'not written by exoshuffle.*overwrite="anything"'):
        rows.write_parquet(out, overwrite=True)
    assert out.read_text() == "precious"
    rows.write_parquet(out, overwrite="anything")
    rows.limit(3).write_parquet(out, overwrite=True)
    assert pq.read_metadata(out).num_rows == 3
    link = tmp_path / "link.parquet"
    link.symlink_to("out.parquet")
    rows.limit(4).write_parquet(link, overwrite=True)
    assert link.is_symlink()
    assert pq.read_metadata(out).num_rows == 4


@pytest.mark.usefixtures("engine")
def test_a_failure_leaves_the_old_file_and_nothing_else(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("old")
    before = sorted(tmp_path.iterdir())
    rows = xs.read_parquet(source).filter("key // (key - key) > 0 or error(text)")
    with pytest.raises(xs.ExoshuffleError):
        rows.write_csv(out, overwrite="anything")
    assert out.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.usefixtures("engine")
def test_a_file_that_others_changed_needs_another_word(source: Path, tmp_path: Path) -> None:
    rows, out = xs.read_parquet(source).sort("key").limit(3), tmp_path / "out.csv"
    rows.write_csv(out)
    with out.open("a") as file:
        file.write("precious\n")
    with pytest.raises(OutputError, match="changed or copied since"):
        rows.write_csv(out, overwrite=True)
    out.write_text("")
    rows.write_csv(out, overwrite=True)
    rows.write_csv(out.rename(tmp_path / "moved.csv"), overwrite=True)


@pytest.mark.parametrize("can_link", [True, False])
def test_what_somebody_else_made_meanwhile_is_not_replaced(
    can_link: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_link:

        def link(*_: object) -> None:
            raise PermissionError(1, "no links here")

        monkeypatch.setattr(replacing, "link", link)
    for name, content in (("out.csv", "theirs"), ("new.csv", "ours")):
        with OutputFile(tmp_path / name, [], overwrite=False) as output:
            Path(output.staging / name).write_text("ours")
            if content == "ours":
                output.commit([{"name": name}])
            else:
                (tmp_path / name).write_text("theirs")
                with pytest.raises(OutputError, match="made by somebody else meanwhile"):
                    output.commit([{"name": name}])
        assert (tmp_path / name).read_text() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv", "out.csv"]


@pytest.mark.usefixtures("engine")
def test_contradictions_are_refused(source: Path, tmp_path: Path) -> None:
    rows = xs.read_parquet(source).sort("key")
    with pytest.raises(OptionsError, match=r"out\.csv ends in \.csv, which is csv"):
        rows.write_parquet(tmp_path / "out.csv")
    with pytest.raises(OptionsError, match=r"out\.csv\.gz ends in \.gz.*compress"):
        rows.write_csv(tmp_path / "out.csv.gz")
    with pytest.raises(OptionsError, match="target_file_size makes several files"):
        rows.write_csv(tmp_path / "out.csv", target_file_size="1MB")
    with pytest.raises(OptionsError, match="target_file_size makes several files"):
        rows.explain(tmp_path / "o.csv", options=WriteOptions("csv", "none", "1MB"))
    for name in ("in.parquet", "deep/out.parquet"):
        path = source.parent / "in" / name
        with pytest.raises(OutputError, match="inside the input"):
            rows.write_parquet(path, overwrite=True)
    one = next(source.iterdir())
    with pytest.raises(OutputError, match="is or holds the input"):
        xs.read_parquet(one).sort("key").write_parquet(one, overwrite=True)
    with pytest.raises(OutputError, match="the next time"):
        xs.read_parquet(f"{source}/*.parquet").write_parquet(source / "x.parquet")
    assert list(tmp_path.glob("*")) == [tmp_path / "spill"]


@pytest.mark.parametrize("extension", ["csv", "jsonl", "arrow", "parquet"])
def test_standard_output(extension: str, source: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "sort", source, "-", "--by", "key", "--output-format", extension, *LIMIT],
        capture_output=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
    )
    made = io.BytesIO(done.stdout)
    if extension == "csv":
        table = pyarrow.csv.read_csv(made)
    elif extension == "jsonl":
        table = pyarrow.json.read_json(made)
    elif extension == "parquet":
        table = pq.read_table(made)
    else:
        table = pa.ipc.open_stream(made).read_all()
    assert table["key"].to_pylist() == wanted(source)
    assert b"30,000 rows" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """So many rows that their stream is not at its end when the first of them cannot be written."""
    path = tmp_path / "many.parquet"
    pq.write_table(pa.table({"key": range(2_000_000)}), path)
    return path


def test_a_full_disk_is_named(many: Path) -> None:
    arguments = ["sort", many, "-", "--by", "key", "--output-format", "csv", *LIMIT]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, *map(str, arguments)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert "standard output" in done.stderr
    assert "No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("rows", ["source", "many"])
def test_a_reader_that_has_enough_ends_it_quietly(
    rows: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(rows)
    arguments = ["sort", path, "-", "--by", "key", "--output-format", "csv", *LIMIT]
    # The reading end is closed before the program writes.
    with subprocess.Popen(
        [*PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        said = running.stderr.read()
        assert running.wait(60) == 141
    assert said == b""
