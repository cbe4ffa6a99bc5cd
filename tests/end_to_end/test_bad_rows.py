"""Rows that cannot be read are left out where that is asked for, counted once, and written with their reasons."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
from click.testing import CliRunner

import exoshuffle as xs
from exoshuffle.cli.main import cli
from exoshuffle.errors import InputError, OptionsError
from exoshuffle.testing.scripted import Script, failing

pytestmark = pytest.mark.usefixtures("engine")

CSV = 'i,s\n1,a\n2,"oops\n3\n4,"x"y\n5,e,f\n6,"g\nh"\n7,\xff\n8,z\n'
BAD_LINES = [3, 4, 5, 6, 9]


def bad_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_bad_row_costs_its_line(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(CSV.encode("latin-1"))
    read = xs.read_csv(tmp_path / "in.csv", bad_rows=tmp_path / "bad.csv")
    assert read.to_arrow().to_pylist() == [
        {"i": 1, "s": "a"},
        {"i": 6, "s": "g\nh"},
        {"i": 8, "s": "z"},
    ]
    found = bad_rows(tmp_path / "bad.csv")
    assert [int(row["line"]) for row in found] == BAD_LINES
    assert [row["text"] for row in found] == ['2,"oops', "3", '4,"x"y', "5,e,f", "7,\ufffd"]
    assert [row["reason"].split(",")[0].split(":")[0] for row in found] == [
        "the quote that opens in column 3 closes",
        "values",
        "the quote that opens in column 3 closes",
        "values",
        "it is no UTF-8",
    ]
    assert {row["file"] for row in found} == {str(tmp_path / "in.csv")}


def many(path: Path, num_rows: int) -> dict[int, str]:
    """Writes rows of which some are bad; returns these by line."""
    bad = {}
    with path.open("w") as file:
        file.write("i,s\n")
        for i in range(num_rows):
            line = f"{i},{'x' * (i % 300)}\n"
            if i % 997 == 5:
                line = ('%d,"open\n', "%d\n", "%dx,no number\n", '%d,"a"b\n')[i % 4] % i
                bad[i + 2] = line.strip()
            file.write(line)
    return bad


@pytest.mark.parametrize("way", ["sort", "filter", "group_by"])
def test_bad_rows_are_counted_once_however_they_are_read(way: str, tmp_path: Path) -> None:
    bad = many(tmp_path / "in.csv", 60_000)
    types = {"i": "int64", "s": "text"}
    read = xs.read_csv(tmp_path / "in.csv", bad_rows=tmp_path / "bad.csv", schema=types)
    made = {
        "sort": lambda: read.sort("i", num_partitions=4),
        "filter": lambda: read.select("i").filter("i >= 0"),
        "group_by": lambda: read.group_by("i").agg(n="count"),
    }[way]()
    result = made.write_parquet(tmp_path / "out")
    assert result.bad_rows == len(bad)
    assert result.rows == 60_000 - len(bad)
    kept = xs.read_parquet(tmp_path / "out").sort("i").to_arrow()["i"].to_pylist()
    assert kept == [i for i in range(60_000) if i + 2 not in bad]
    assert {int(row["line"]): row["text"] for row in bad_rows(tmp_path / "bad.csv")} == bad
    assert made.write_parquet(tmp_path / "again").bad_rows == len(bad)
    assert len(bad_rows(tmp_path / "bad.csv")) == len(bad)


def test_bad_rows_count_once_where_tasks_run_again(tmp_path: Path) -> None:
    bad = many(tmp_path / "in.csv", 60_000)
    types = {"i": "int64", "s": "text"}
    read = xs.read_csv(tmp_path / "in.csv", bad_rows=tmp_path / "bad.csv", schema=types)
    script: Script = {
        ("bad_rows", 0, 1): "raise",
        ("bad_rows", 1, 1): "die",
        ("bad_rows", 1, 2): "raise",
    }
    with failing(script) as engine:
        result = read.sort("i").write_parquet(tmp_path / "out")
        attempts = engine.attempts()
    assert (attempts["bad_rows", 0], attempts["bad_rows", 1]) == (2, 3)
    assert (result.rows, result.bad_rows) == (60_000 - len(bad), len(bad))
    assert {int(row["line"]): row["text"] for row in bad_rows(tmp_path / "bad.csv")} == bad
    assert len(bad_rows(tmp_path / "bad.csv")) == len(bad)


def test_files_are_told_apart(tmp_path: Path) -> None:
    bad = many(tmp_path / "a.csv", 30_000)
    (tmp_path / "b.csv").write_text("i,s\n1\n2,x\n")
    files, types = [tmp_path / "a.csv", tmp_path / "b.csv"], {"i": "int64"}
    read = xs.read_csv(files, bad_rows=tmp_path / "bad.txt", schema=types)
    assert read.sort("i").write_csv(tmp_path / "out").bad_rows == len(bad) + 1
    last = bad_rows(tmp_path / "bad.txt")[-1]
    assert (last["file"], last["line"]) == (str(tmp_path / "b.csv"), "2")


def test_bad_lines_of_json_are_left_out(tmp_path: Path) -> None:
    lines = ['{"a": 1}', '{"a": 2', "3}", "", '{"a": 4}{"a": 5}', "[6]", '{"a": 7}', '{"a": [8]}']
    later = ['{"a": 9}'] * 10_001 + ['{"a": "x"}', '{"b": 1}', '{"a": ', "1}", '{"a": 10}']
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(lines + later))
    read = xs.read_json(path, bad_rows=tmp_path / "bad.csv")
    assert read.to_arrow()["a"].to_pylist() == [1, 7, *[9] * 10_001, 10]
    found = [int(row["line"]) for row in bad_rows(tmp_path / "bad.csv")]
    assert found == [2, 3, 5, 6, 8, 10_010, 10_011, 10_012, 10_013]


@pytest.mark.parametrize("lines", ['{"a": 1\n, "b": 2}', '{"a": 1}{"a": 2}'])
def test_a_line_of_json_is_one_row(lines: str, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"a": 1, "b": 1}\n' * 10_001 + lines + "\n")
    with pytest.raises(InputError, match="line 10002: "):
        xs.read_json(path).to_arrow()


def test_a_file_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("i,s\n1\n")
    for other in ("in.csv", "."):
        with pytest.raises(OptionsError, match="bad_rows"):
            xs.read_csv(tmp_path / "in.csv", bad_rows=tmp_path / other)
    for _ in range(2):
        xs.read_csv(tmp_path / "in.csv", bad_rows=tmp_path / "bad.csv").to_arrow()
    assert len(bad_rows(tmp_path / "bad.csv")) == 1
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["bad.csv", "in.csv"]


def test_several_inputs_share_a_file_of_bad_rows(tmp_path: Path) -> None:
    for name in ("l", "r"):
        (tmp_path / f"{name}.csv").write_text(f"id,{name}\n1,2\n{name}\n3,4\n")
    left, right = (
        xs.read_csv(tmp_path / f"{name}.csv", bad_rows=tmp_path / "bad.txt") for name in ("l", "r")
    )
    assert left.join(right, on="id").write_csv(tmp_path / "out").bad_rows == 2
    assert [row["text"] for row in bad_rows(tmp_path / "bad.txt")] == ["l", "r"]


def test_a_row_is_bad_once_however_often_it_is_read(tmp_path: Path) -> None:
    for year in (2023, 2024, 2025):
        (tmp_path / f"in/year={year}").mkdir(parents=True)
        (tmp_path / f"in/year={year}/x.csv").write_text(f"id,v\n1,2\nbad {year}\n")
    read = xs.read_csv(tmp_path / "in", bad_rows=tmp_path / "bad.txt")
    two = read.filter("year = 2023").union(read.filter("year = 2024"))
    assert two.write_csv(tmp_path / "out").bad_rows == 2
    assert [row["text"] for row in bad_rows(tmp_path / "bad.txt")] == ["bad 2023", "bad 2024"]
    joined = read.join(read.filter("year = 2024").filter("year > 2000"), on="id")
    assert joined.write_csv(tmp_path / "joined").bad_rows == 3
    assert len(bad_rows(tmp_path / "bad.txt")) == 3


WAYS: dict[str, Callable[[xs.Dataset], xs.Dataset]] = {
    "at once": lambda rows: rows,
    "behind a sort": lambda rows: rows.sort("v"),
    "behind a random order": lambda rows: rows.random_shuffle(seed=1),
    "behind groups": lambda rows: rows.group_by("year").agg(v=("v", "sum")),
    "behind a step": lambda rows: rows.with_columns(w="v + 1"),
    "behind a join": lambda rows: rows.join(rows.select("id"), on="id"),
}


@pytest.mark.parametrize("left", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_a_filter_takes_the_bad_rows_of_files_wherever_it_stands(
    way: str, left: int, tmp_path: Path
) -> None:
    for year in (2023, 2024, 2025):
        (tmp_path / f"in/year={year}").mkdir(parents=True)
        (tmp_path / f"in/year={year}/x.csv").write_text(f"id,v\n{year},2\nbad {year}\n")
    read = xs.read_csv(tmp_path / "in", bad_rows=tmp_path / "bad.txt")
    made = WAYS[way](read).filter(f"year <= {2022 + left}")
    # Both sides of a join read the files; the other one has no column that the filter names.
    num_read = 3 if way == "behind a join" else left
    result = made.write_csv(tmp_path / "out")
    assert (result.rows, result.bad_rows) == (left, num_read)
    assert len(bad_rows(tmp_path / "bad.txt")) == num_read


def test_lines_count_anew_in_a_file_that_is_named_twice(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("i,s\n1,x\n2\n3,y\n")
    xs.read_csv([path, path], bad_rows=tmp_path / "bad.txt").to_arrow()
    assert [row["line"] for row in bad_rows(tmp_path / "bad.txt")] == ["3", "3"]


def test_places_where_bad_rows_cannot_go(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/x.csv").write_text("i,s\n1,x\n")
    os.mkfifo(tmp_path / "pipe")
    for path, words in [
        (tmp_path / "pipe", "no regular file"),
        (Path("/dev/null"), "no regular file"),
        (tmp_path / "in/bad.csv", "would read as input"),
    ]:
        with pytest.raises(OptionsError, match=words):
            xs.read_csv(tmp_path / "in", bad_rows=path)
    with pytest.raises(OptionsError, match="would read as input"):
        xs.read_csv(f"{tmp_path}/in/*.csv", bad_rows=tmp_path / "in/bad.csv")
    assert xs.read_csv(tmp_path / "in", bad_rows=tmp_path / "in/_bad.csv").to_arrow().num_rows == 1


def test_without_bad_rows_the_file_has_a_header_only(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("i,s\n1,x\n")
    read = xs.read_csv(tmp_path / "in.csv", bad_rows=tmp_path / "bad.csv")
    read.explain()
    assert not (tmp_path / "bad.csv").exists()
    assert read.to_arrow().num_rows == 1
    assert pyarrow.csv.read_csv(tmp_path / "bad.csv").num_rows == 0


def test_a_bad_header_is_an_error_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('i,"s"x\n1,2\n')
    with pytest.raises(InputError, match="line 1, the header: "):
        xs.read_csv(tmp_path / "in.csv", bad_rows="skip")


@pytest.mark.parametrize("arguments", [["sort", "--by", "i"], ["shuffle"], ["distinct"]])
def test_the_command_line_has_the_same_options(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"left out\n#c\ni;s\n1;'a;b\\''\nNA;\xe9\n3\n")
    command, *rest = arguments
    options = "--delimiter ; --quote ' --escape \\ --comment # --null-value NA --skip-rows 1"
    options += f" --encoding latin-1 --bad-rows {tmp_path / 'bad.csv'} --json"
    result = CliRunner().invoke(
        cli, [command, str(tmp_path / "in.csv"), str(tmp_path / "out"), *rest, *options.split()]
    )
    assert result.exit_code == 0, result.output
    summary: dict[str, Any] = json.loads(result.stdout)
    assert (summary["rows"], summary["bad_rows"]) == (2, 1)
    rows = xs.read_csv(tmp_path / "out").to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["s"]) == [{"i": 1, "s": "a;b'"}, {"i": None, "s": "é"}]
    assert [row["line"] for row in bad_rows(tmp_path / "bad.csv")] == ["6"]


def test_options_of_text_are_refused_for_other_formats(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("i\n1\n")
    xs.read_csv(tmp_path / "in.csv").write_parquet(tmp_path / "in")
    for option in (["--bad-rows", "skip"], ["--quote", "'"], ["--null-value", "x"]):
        result = CliRunner().invoke(
            cli,
            ["sort", str(tmp_path / "in"), str(tmp_path / "out"), "--by", "i", *option],
            standalone_mode=False,
        )
        assert isinstance(result.exception, OptionsError)
        assert option[0] in str(result.exception)


@pytest.mark.parametrize("options", [{"comment": "#"}, {"bad_rows": "skip"}])
def test_wide_files_have_batches_of_fewer_rows(options: dict[str, Any], tmp_path: Path) -> None:
    names = [f"c{column}" for column in range(200)]
    rows = [[row + column for column in range(200)] for row in range(5_000)]
    with (tmp_path / "in.csv").open("w") as file:
        csv.writer(file).writerows([names, *rows])
    table = xs.read_csv(tmp_path / "in.csv", **options).to_arrow()
    assert table["c0"].to_pylist() == list(range(5_000))
    assert table["c199"].to_pylist() == list(range(199, 5_199))


def bytes_read() -> int:
    """The bytes that this process has read so far."""
    [line] = [line for line in Path("/proc/self/io").read_text().splitlines() if "rchar" in line]
    return int(line.split()[1])


def test_where_bad_rows_are_is_found_without_reading_what_is_before(tmp_path: Path) -> None:
    bad = '7,"x"y,z\n'
    (tmp_path / "in.csv").write_text("i,s,t\n" + (f"1,a,{'b' * 1_000}\n" + bad) * 1_000)
    read = xs.read_csv(tmp_path / "in.csv", bad_rows=tmp_path / "bad.csv")
    before = bytes_read()
    assert read.to_arrow().num_rows == 1_000
    assert bytes_read() - before < 10_000_000
    found = bad_rows(tmp_path / "bad.csv")
    assert [int(row["line"]) for row in found] == list(range(3, 2_003, 2))
    assert {row["text"] for row in found} == {bad.strip()}
    assert {row["reason"] for row in found} == {
        "the quote that opens in column 3 closes, and text stands behind it, in column 6"
    }


def test_quotes_that_open_further_down_are_told_from_the_line_of_the_row(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('s,t\n"a\nb","c"d\n1,2\n3,"\n\n"x\n')
    xs.read_csv(tmp_path / "in.csv", bad_rows=tmp_path / "bad.csv").to_arrow()
    assert [
        row["reason"] for row in bad_rows(tmp_path / "bad.csv") if "quote" in row["reason"]
    ] == [
        "the quote that opens in column 4 of the next line closes, and text stands behind it, "
        "in column 7 of the next line",
        "the quote that opens in column 4 closes, and text stands behind it, in column 7",
        "the quote that opens in column 3 closes, and text stands behind it, in column 2, 2 lines below",
        "the quote that opens in column 1 is never closed",
    ]


def test_good_rows_between_bad_ones_keep_their_order(tmp_path: Path) -> None:
    lines = [f"{i},a" if i % 7 else f"{i},a,b" for i in range(30)]
    lines += [f"{i},a" if i % 611 else f"x{i},a" for i in range(30, 30_000)]
    (tmp_path / "in.csv").write_text("\n".join(["i,s", *lines]))
    types = {"i": "int64", "s": "text"}
    read = xs.read_csv(tmp_path / "in.csv", bad_rows=tmp_path / "bad.csv", schema=types)
    expected = [i for i in range(30_000) if (i % 7 if i < 30 else i % 611)]
    assert read.to_arrow()["i"].to_pylist() == expected
    texts = [row["text"] for row in bad_rows(tmp_path / "bad.csv")]
    assert texts == [line for line in lines if line.count(",") > 1 or line[0] == "x"]


def test_lines_of_json_that_make_as_many_rows_together_are_bad(tmp_path: Path) -> None:
    good = ['{"a": 1}'] * 10_001
    (tmp_path / "in.jsonl").write_text(
        "\n".join([*good, '{"a": 2}{"a": 3}', '{"a":', "4}", good[0]])
    )
    read = xs.read_json(tmp_path / "in.jsonl", bad_rows=tmp_path / "bad.csv")
    assert read.to_arrow()["a"].to_pylist() == [1] * 10_002
    assert [int(row["line"]) for row in bad_rows(tmp_path / "bad.csv")] == [10_002, 10_003, 10_004]
