"""``mode=`` of writing: what happens to an output that exists, and that files are added at once, behind the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle._native import StoredPath
from exoshuffle.dataset.write import directory, replacing
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.dataset.write.seal import is_sealed
from exoshuffle.errors import OptionsError, OutputError
from tests.support.generated import generated

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]


def rows(*ids: int) -> xs.Dataset:
    return xs.from_pydict({"id": list(ids), "k": [each % 2 for each in ids]})


def ids(folder: Path) -> list[int]:
    return xs.read_parquet(folder).to_pydict()["id"]


def names(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(folder)) for path in found)


class TestAppend:
    """Files are added to a directory."""

    def test_it_makes_what_is_not_there(self, tmp_path: Path) -> None:
        rows(1, 2).write_parquet(tmp_path / "out", mode="append")
        assert ids(tmp_path / "out") == [1, 2]

    def test_parts_follow_those_that_are_there(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        rows(5, 6).repartition(2).write_parquet(out)
        before = {name: (out / name).stat() for name in names(out)}
        result = rows(3, 4, 1).repartition(3).write_parquet(out, mode="append")
        added = [f"part-0000{n}.parquet" for n in (2, 3, 4)]
        assert [file["name"] for file in result.files] == added
        assert result.rows == 3
        assert names(out) == [*before, *added]
        assert ids(out) == [5, 6, 3, 4, 1]
        after = {name: (out / name).stat() for name in before}
        assert [(s.st_ino, s.st_mtime_ns) for s in after.values()] == [
            (s.st_ino, s.st_mtime_ns) for s in before.values()
        ]

    def test_the_directory_stays_sealed(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        for each in range(3):
            rows(each).write_parquet(out, mode="append")
            assert is_sealed(StoredPath(out))
        assert ids(out) == [0, 1, 2]
        rows(9).write_parquet(out, overwrite=True)
        assert ids(out) == [9]
        assert os.listdir(tmp_path) == ["out"]

    def test_folders(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        rows(1, 2, 4).write_parquet(out, partition_by="k")
        rows(3, 6).filter("k = 0").write_parquet(out, partition_by="k", mode="append")
        rows(5).write_parquet(out, partition_by="k", mode="append")
        read = xs.read_parquet(out).sort("id").to_pydict()
        assert read == {"id": [1, 2, 4, 5, 6], "k": [1, 0, 0, 1, 0]}
        assert is_sealed(StoredPath(out))

    def test_rows_of_none(self, tmp_path: Path) -> None:
        rows(1).write_parquet(tmp_path / "out")
        rows(1).filter("id > 1").write_parquet(tmp_path / "out", mode="append")
        assert ids(tmp_path / "out") == [1]

    def test_what_others_wrote_is_refused(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        out.mkdir()
        pq.write_table(pa.table({"id": [1]}), out / "mine.parquet")
        with pytest.raises(OutputError, match="holds what exoshuffle did not write"):
            rows(2).write_parquet(out, mode="append")
        assert names(out) == ["mine.parquet"]

    def test_another_format_is_refused(self, tmp_path: Path) -> None:
        rows(1).write_csv(tmp_path / "out")
        with pytest.raises(OutputError, match=r"has part-00000\.csv, and \.parquet files cannot"):
            rows(2).write_parquet(tmp_path / "out", mode="append")
        assert names(tmp_path / "out") == ["part-00000.csv"]
        assert os.listdir(tmp_path) == ["out"]

    @pytest.mark.parametrize("form", ["parquet", "ipc", "csv"])
    def test_other_columns_are_refused(self, form: str, tmp_path: Path) -> None:
        def write(given: xs.Dataset, **options: Any) -> object:
            return getattr(given, f"write_{form}")(tmp_path / "out", mode="append", **options)

        name = "arrow" if form == "ipc" else form
        write(rows(1))
        others = {
            "names": rows(2).rename({"k": "kk"}),
            "fewer": rows(2).select("id"),
            "more": rows(2).with_columns(z="1"),
        }
        if form != "csv":  # which does not tell types
            others["types"] = rows(2).cast({"k": "int32"})
        words = "has files of (.*), and these rows are (.*); give them these names and types by"
        for given in others.values():
            with pytest.raises(OutputError, match=words.replace("(.*)", r"\(.*\)")):
                write(given)
        with pytest.raises(
            OutputError, match="has files by no column, and these would be by k; give"
        ):
            write(rows(2), partition_by="k")
        with pytest.raises(OutputError, match="has files of"):
            others["more"].explain(tmp_path / "out", mode="append", options=WriteOptions(name))
        write(rows(3).select("k", "id"))  # in another order
        read: xs.Dataset = getattr(xs, f"read_{form}")(tmp_path / "out")
        assert sorted(read.to_pydict()["id"]) == [1, 3]
        assert os.listdir(tmp_path) == ["out"]

    @pytest.mark.parametrize("form", ["parquet", "ipc", "csv", "json"])
    def test_the_same_types_are_appended(self, form: str, tmp_path: Path) -> None:
        """Types that files hold in a way of their own are those of the next rows, too."""
        flat = generated(50).drop_columns(["nested"])
        table = flat if form in ("csv", "json") else generated(50)
        if form in ("parquet", "ipc"):
            words = pa.array(["a", "b"] * 25)
            table = table.append_column("words", words.dictionary_encode())
            table = table.append_column("view", words.cast(pa.string_view()))
            table = table.append_column("large", words.cast(pa.large_string()))
            table = table.append_column("date64", pa.array([86_400_000] * 50, pa.date64()))
            table = table.append_column("instant", pa.array([1] * 50, pa.timestamp("ns", "UTC")))
            table = table.append_column("price", pa.array([1] * 50, pa.decimal128(20, 3)))
            table = table.append_column("span", pa.array([1] * 50, pa.duration("ms")))
        for _ in range(2):
            getattr(xs.from_arrow(table), f"write_{form}")(tmp_path / "out", mode="append")
        assert getattr(xs, f"read_{form}")(tmp_path / "out").count() == 100

    @pytest.mark.parametrize("is_there", [False, True])
    def test_what_others_add_meanwhile_is_not_lost(
        self, is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / "out"
        if is_there:
            rows(1).write_parquet(out)
        sync = directory.OutputDirectory._sync
        others = [rows(7)]

        def meanwhile(self: Any, given: Any) -> None:
            sync(self, given)
            while others:
                others.pop().write_parquet(out, mode="append")

        monkeypatch.setattr(directory.OutputDirectory, "_sync", meanwhile)
        with pytest.raises(OutputError, match="changed by somebody else meanwhile; append again"):
            rows(2).write_parquet(out, mode="append")
        assert ids(out) == ([1, 7] if is_there else [7])

    def test_what_others_add_in_the_last_moment_is_not_lost(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / "out"
        rows(1).write_parquet(out)
        exchange = replacing.exchange
        others = [rows(7)]

        def meanwhile(one: Path, other: Path) -> bool:
            while others:
                others.pop().write_parquet(out, mode="append")
            return exchange(one, other)

        monkeypatch.setattr(replacing, "exchange", meanwhile)
        with pytest.raises(OutputError, match="changed by somebody else meanwhile; append again"):
            rows(2).write_parquet(out, mode="append")
        assert ids(out) == [1, 7]
        assert os.listdir(tmp_path) == ["out"]

    def test_without_hard_links(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refused(*_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        rows(1).write_parquet(tmp_path / "out")
        monkeypatch.setattr(replacing, "link", refused)
        with pytest.raises(OutputError, match="by hard links; write to another directory"):
            rows(2).write_parquet(tmp_path / "out", mode="append")
        assert ids(tmp_path / "out") == [1]
        assert os.listdir(tmp_path) == ["out"]

    @pytest.mark.parametrize("path", ["out.parquet", "-"])
    def test_a_file_is_refused(self, path: str, tmp_path: Path) -> None:
        output = path if path == "-" else tmp_path / path
        with pytest.raises(OptionsError, match="mode is 'append', which adds files to a directory"):
            rows(2).write_parquet(output, mode="append")


class TestOthers:
    """Modes that write all or nothing."""

    @pytest.mark.parametrize("place", ["out", "out.parquet"])
    def test_ignore(self, place: str, tmp_path: Path) -> None:
        first = rows(1).write_parquet(tmp_path / place, mode="ignore")
        second = rows(2).write_parquet(tmp_path / place, mode="ignore")
        assert (first.rows, second.rows, second.files) == (1, 0, [])
        assert ids(tmp_path / place) == [1]

    @pytest.mark.parametrize("place", ["out", "out.parquet"])
    def test_overwrite_and_error(self, place: str, tmp_path: Path) -> None:
        rows(1).write_parquet(tmp_path / place, mode="error")
        rows(2).write_parquet(tmp_path / place, mode="overwrite")
        with pytest.raises(OutputError, match="exists"):
            rows(3).write_parquet(tmp_path / place, mode="error")
        assert ids(tmp_path / place) == [2]

    def test_explain_checks_it_too(self, tmp_path: Path) -> None:
        rows(1).write_parquet(tmp_path / "out")
        rows(1).explain(tmp_path / "out", mode="append")
        with pytest.raises(OutputError, match="exists"):
            rows(1).explain(tmp_path / "out", mode="error")
