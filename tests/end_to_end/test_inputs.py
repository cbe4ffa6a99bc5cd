"""The kinds of paths: file, directory, glob, list; which files of a directory count; files without rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.errors import InputError
from tests.support.formats import WRITERS

pytestmark = pytest.mark.usefixtures("engine")


def _file(path: Path, *values: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"v": pa.array(values, pa.int64())}), path)
    return path


def _sorted(paths: object) -> list[int]:
    values: list[int] = xs.read_parquet(paths).sort("v").to_arrow()["v"].to_pylist()  # type: ignore[arg-type]
    return values


def test_a_file_as_string_and_as_path(tmp_path: Path) -> None:
    file = _file(tmp_path / "a.parquet", 2, 1)
    assert _sorted(file) == _sorted(str(file)) == [1, 2]


def test_a_directory_is_searched_recursively_without_hidden_names(tmp_path: Path) -> None:
    _file(tmp_path / "in" / "b.parquet", 2)
    _file(tmp_path / "in" / "deep" / "er" / "a.parquet", 1)
    _file(tmp_path / "in" / ".hidden.parquet", 100)
    _file(tmp_path / "in" / "_tmp" / "x.parquet", 100)
    (tmp_path / "in" / "_SUCCESS").write_text("{}")
    assert _sorted(tmp_path / "in") == [1, 2]


def test_globs_and_lists(tmp_path: Path) -> None:
    _file(tmp_path / "a1.parquet", 1)
    _file(tmp_path / "a2.parquet", 2)
    _file(tmp_path / "b1.parquet", 3)
    _file(tmp_path / "d" / "e" / "c1.parquet", 4)
    assert _sorted(f"{tmp_path}/a*.parquet") == [1, 2]
    assert _sorted(f"{tmp_path}/?1.parquet") == [1, 3]
    assert _sorted(f"{tmp_path}/[ab]1.parquet") == [1, 3]
    assert _sorted(f"{tmp_path}/**/*1.parquet") == [1, 3, 4]
    assert _sorted([tmp_path / "b1.parquet", f"{tmp_path}/d", f"{tmp_path}/a*"]) == [1, 2, 3, 4]


def test_files_keep_the_order_of_the_arguments(tmp_path: Path) -> None:
    first, second = _file(tmp_path / "b.parquet", 1), _file(tmp_path / "a.parquet", 2)
    assert xs.read_parquet([first, second]).files == [str(first), str(second)]
    assert xs.read_parquet([first, second]).to_arrow()["v"].to_pylist() == [1, 2]


def test_a_file_named_like_a_glob_is_that_file(tmp_path: Path) -> None:
    _file(tmp_path / "x[1].parquet", 5)
    _file(tmp_path / "x1.parquet", 6)
    assert _sorted(tmp_path / "x[1].parquet") == [5]


def test_a_file_listed_twice_counts_twice(tmp_path: Path) -> None:
    file = _file(tmp_path / "a.parquet", 1)
    assert _sorted([file, file]) == [1, 1]


def test_files_without_rows_among_others(tmp_path: Path) -> None:
    _file(tmp_path / "a.parquet")
    _file(tmp_path / "b.parquet", 2, 1)
    _file(tmp_path / "c.parquet")
    assert _sorted(tmp_path) == [1, 2]


@pytest.mark.parametrize("strategy", ["auto", "simple", "push"])
def test_no_rows_at_all_give_one_file_with_the_schema(strategy: str, tmp_path: Path) -> None:
    _file(tmp_path / "in" / "a.parquet")
    _file(tmp_path / "in" / "b.parquet")
    dataset = xs.read_parquet(tmp_path / "in").sort("v", strategy=strategy, num_partitions=3)
    result = dataset.write_parquet(tmp_path / "out")
    assert (result.rows, len(result.files)) == (0, 1)
    assert pq.read_table(tmp_path / "out").schema.field("v").type == pa.int64()
    assert dataset.to_arrow().schema == dataset.schema
    assert len(list(dataset.iter_batches())) <= 3


@pytest.mark.parametrize(
    "operation",
    [
        lambda rows: rows,
        lambda rows: rows.filter("v > 0"),
        lambda rows: rows.map_batches(lambda table: table),
        lambda rows: rows.sample(fraction=0.5),
        lambda rows: rows.union(rows),
        lambda rows: rows.limit(3),
        lambda rows: rows.random_shuffle(window=2),
        lambda rows: rows.join(rows, on="v", how="semi"),
        lambda rows: rows.join(rows.rename({"v": "w"}), how="cross").select("v"),
    ],
)
def test_no_rows_at_all_give_one_file_without_a_shuffle_too(
    operation: Callable[[xs.Dataset], xs.Dataset], tmp_path: Path
) -> None:
    made = operation(xs.read_parquet(_file(tmp_path / "in" / "a.parquet")))
    result = made.write_parquet(tmp_path / "out")
    assert (result.rows, [file["name"] for file in result.files]) == (0, ["part-00000.parquet"])
    assert pq.read_table(tmp_path / "out").schema.field("v").type == pa.int64()


@pytest.mark.parametrize("extension", WRITERS)
def test_no_rows_at_all_in_any_format(extension: str, tmp_path: Path) -> None:
    rows = xs.read_parquet(_file(tmp_path / "in" / "a.parquet"))
    result = getattr(rows, WRITERS[extension])(tmp_path / "out")
    assert [file["name"] for file in result.files] == [f"part-00000.{extension}"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", ""), ("a.csv", "v\n"), ("a.jsonl", ""), ("a.jsonl", "\n\n"), ("a.dat", "")],
)
def test_an_empty_file_among_others(name: str, content: str, tmp_path: Path) -> None:
    full = {"csv": "v\n2\n1\n", "jsonl": '{"v": 2}\n{"v": 1}\n', "dat": "x" * 100}
    extension = name.partition(".")[2]
    (tmp_path / name).write_text(content)
    (tmp_path / f"b.{extension}").write_text(full[extension])
    if extension == "dat":
        assert xs.read_records(tmp_path).sort().write_records(tmp_path.parent / "o").rows == 1
    else:
        read = xs.read_csv if extension == "csv" else xs.read_json
        assert read(tmp_path).sort("v").to_arrow()["v"].to_pylist() == [1, 2]


def test_nullability_may_differ_between_files(tmp_path: Path) -> None:
    for name, nullable in (("a", False), ("b", True)):
        schema = pa.schema([pa.field("v", pa.int64(), nullable=nullable)])
        values = [None, 1] if nullable else [3, 2]
        pq.write_table(
            pa.table({"v": pa.array(values, pa.int64())}, schema), tmp_path / f"{name}.parquet"
        )
    assert _sorted(tmp_path) == [1, 2, 3, None]


def test_a_file_that_grew_between_plan_and_run_is_an_error(tmp_path: Path) -> None:
    file = _file(tmp_path / "a.parquet", 1)
    dataset = xs.read_parquet(file).sort("v")
    _file(file, *range(1000))
    with pytest.raises(xs.ExoshuffleError, match="changed since it was listed"):
        dataset.write_parquet(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.parquet")
    with pytest.raises(InputError, match=r"pipe\.parquet.*not a regular file"):
        xs.read_parquet(tmp_path / "pipe.parquet")


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.parquet")
    with pytest.raises(InputError, match="not UTF-8"):
        xs.read_parquet(name)


@pytest.mark.parametrize(("name", "message"), [("", "path is empty"), ("a\0b", "character 0")])
def test_a_name_that_no_file_has_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        xs.read_parquet(name)
