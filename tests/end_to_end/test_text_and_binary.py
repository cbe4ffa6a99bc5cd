"""Plain text as lines and whole files as rows, against what Python reads."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.errors import InputError, MemoryLimitError, OutputError

pytestmark = pytest.mark.shares_engine
SEED = 11


def random_lines(count: int) -> list[str]:
    """Lines of all lengths, empty ones too, with what other formats find special."""
    draw = random.Random(SEED)
    lengths = (0, 0, 1, 5, 50, 500)
    return ["".join(draw.choices('ab"é\t\v, \x85{', k=draw.choice(lengths))) for _ in range(count)]


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """7 MB: several windows of what is read at once."""
    return [*random_lines(60_000), "x" * 3_000_000, "end"]


def texts(dataset: xs.Dataset) -> list[str]:
    return dataset.to_arrow()["text"].to_pylist()


@pytest.mark.usefixtures("shared_engine")
class TestText:
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    @pytest.mark.parametrize("last", [True, False])
    @pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
    def test_every_line_is_a_row(
        self, end: str, last: bool, mark: bytes, lines: list[str], tmp_path: Path
    ) -> None:
        path = tmp_path / "in.txt"
        path.write_bytes(mark + (end.join(lines) + (end if last else "")).encode())
        assert texts(xs.read_text(path)) == lines
        assert sorted(texts(xs.read_text(path).repartition(7))) == sorted(lines)

    @pytest.mark.parametrize(
        ("content", "wanted"),
        [
            (b"", []),
            (b"\n", [""]),
            (b"\n\n", ["", ""]),
            (b"a", ["a"]),
            (b"a\n\nb", ["a", "", "b"]),
            (b"a\rb\r\n\r\n", ["a\rb", ""]),
            (b"\xef\xbb\xbf", []),
        ],
    )
    def test_few_bytes(self, content: bytes, wanted: list[str], tmp_path: Path) -> None:
        path = tmp_path / "in.txt"
        path.write_bytes(content)
        assert texts(xs.read_text(path)) == wanted

    def test_lines_are_sorted_grouped_and_written(self, lines: list[str], tmp_path: Path) -> None:
        path = tmp_path / "in.txt.gz"
        path.write_bytes(gzip.compress("\n".join(lines).encode()))
        assert texts(xs.read_text(path).sort("text")) == sorted(lines, key=str.encode)
        groups = xs.read_text(path).group_by("text").agg(n=("text", "count")).to_arrow()
        counted = zip(groups["text"].to_pylist(), groups["n"].to_pylist(), strict=True)
        assert dict(counted) == Counter(lines)
        written = xs.read_text(path).random_shuffle(seed=1).write_text(tmp_path / "out")
        assert written.rows == len(lines)
        assert all(part["name"].endswith(".txt") for part in written.files)
        assert Counter(texts(xs.read_text(tmp_path / "out"))) == Counter(lines)

    def test_bytes_that_are_no_text_are_an_error_with_their_line(self, tmp_path: Path) -> None:
        path = tmp_path / "in.txt"
        path.write_bytes(b"good\n" * 500_000 + b"b\xffd\ngood\n")
        with pytest.raises(InputError, match="line 500001: it is no UTF-8"):
            xs.read_text(path).to_arrow()

    def test_a_line_that_there_is_no_memory_for_is_an_error(self, tmp_path: Path) -> None:
        path = tmp_path / "in.txt"
        path.write_bytes(b"good\n")
        with path.open("r+b") as file:
            file.truncate(300_000_000)  # a hole: takes no room
        with pytest.raises(MemoryLimitError, match="line 2: the row has more than"):
            sum(batch.num_rows for batch in xs.read_text(path).iter_batches())

    @pytest.mark.parametrize(
        ("column", "reason"),
        [
            (["a", None], "has a null"),
            (["a\nb"], "a text with a line end"),
            (["a\r"], "a text with a line end"),
        ],
    )
    def test_what_no_line_can_be_is_not_written(
        self, column: list[str | None], reason: str, tmp_path: Path
    ) -> None:
        pq.write_table(pa.table({"t": pa.array(column, pa.string())}), tmp_path / "in.parquet")
        with pytest.raises(OutputError, match=reason):
            xs.read_parquet(tmp_path / "in.parquet").write_text(tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_other_columns_are_not_written(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"t": ["a"], "n": [1]}), tmp_path / "in.parquet")
        table = xs.read_parquet(tmp_path / "in.parquet")
        with pytest.raises(InputError, match="can hold one column, and there are 2"):
            table.write_text(tmp_path / "out")
        with pytest.raises(InputError, match="cannot hold column 'n' of type Int64"):
            table.select("n").write_text(tmp_path / "out")

    def test_folders_are_columns(self, tmp_path: Path) -> None:
        for day in (1, 2):
            folder = tmp_path / f"day={day}"
            folder.mkdir()
            (folder / "x.txt").write_text("a\nb\n")
        rows = xs.read_text(tmp_path).filter("day = 2").to_arrow().to_pydict()
        assert rows == {"text": ["a", "b"], "day": [2, 2]}


@pytest.mark.usefixtures("shared_engine")
class TestBinary:
    @pytest.fixture
    def files(self, tmp_path: Path) -> dict[str, bytes]:
        """Files of all sizes, by their paths."""
        draw = random.Random(SEED)
        sizes = [0, 1, 4095, 4096, 70_000, 5_000_000] + [300] * 200
        contents = {str(tmp_path / f"{n:03}.dat"): draw.randbytes(s) for n, s in enumerate(sizes)}
        for path, content in contents.items():
            Path(path).write_bytes(content)
        return contents

    def test_every_file_is_a_row(self, files: dict[str, bytes], tmp_path: Path) -> None:
        rows = xs.read_binary(tmp_path).to_arrow()
        assert rows.schema == pa.schema(
            [
                pa.field("path", pa.string(), nullable=False),
                pa.field("bytes", pa.binary(), nullable=False),
            ]
        )
        assert list(zip(*rows.to_pydict().values(), strict=True)) == sorted(files.items())
        shuffled = xs.read_binary(tmp_path).random_shuffle(seed=1).to_arrow().to_pydict()
        assert dict(zip(*shuffled.values(), strict=True)) == files

    def test_paths_alone(self, files: dict[str, bytes], tmp_path: Path) -> None:
        """A file that there is no memory for is listed, too: nobody reads it."""
        large = tmp_path / "large"
        with large.open("wb") as file:
            file.truncate(2_000_000_000)
        paths = xs.read_binary(tmp_path).select("path")
        assert paths.to_arrow()["path"].to_pylist() == sorted([*files, str(large)])

    def test_it_is_written_as_parquet_unless_a_format_is_named(
        self, files: dict[str, bytes], tmp_path: Path
    ) -> None:
        made = xs.read_binary(str(tmp_path / "*.dat"))
        assert made.output_format == "parquet"
        assert made.write_parquet(tmp_path / "out").rows == len(files)
        with pytest.raises(InputError, match="can only be read; write another format"):
            made.explain(tmp_path / "other", options=WriteOptions("binary"))

    def test_a_file_that_there_is_no_memory_for_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "large"
        with path.open("wb") as file:
            file.truncate(2_000_000_000)
        with pytest.raises(
            MemoryLimitError, match=r"reading the whole file .* set memory_limit to"
        ):
            xs.read_binary(path).sort("path").to_arrow()
        with path.open("wb") as file:
            file.truncate(2**31)
        with pytest.raises(InputError, match="has 2147483648 bytes"):
            xs.read_binary(path)


def test_the_command_line_sorts_text_to_text(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("b\na\n\nc\n")
    program = [sys.executable, "-c", "from exoshuffle.cli import main; main()"]
    arguments = ["sort", "--by", "text", "in.txt", "out.txt"]
    subprocess.run([*program, *arguments], cwd=tmp_path, check=True, timeout=120)
    assert (tmp_path / "out.txt").read_text() == "\na\nb\nc\n"
