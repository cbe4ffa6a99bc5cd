"""``join_asof`` of files, against Polars and DuckDB."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import exoshuffle as xs
from exoshuffle.cli.main import cli
from exoshuffle.dataset.execute import Execution
from exoshuffle.dataset.jobs import merge_joins, spilling
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import DiskFullError, OptionsError, SchemaError

# Polars starts its threads now, and not while a test looks for what its engine leaves behind.
pl.DataFrame({"ts": [1]}).join_asof(pl.DataFrame({"ts": [1]}), on="ts")

DIRECTIONS = ("backward", "forward", "nearest")
ROWS = 60_000


def _side(seed: int, column: str, *, is_sorted: bool) -> pa.Table:
    rng = random.Random(seed)
    times = [rng.randrange(20_000) for _ in range(ROWS)]
    if is_sorted:
        times.sort()
    groups = [rng.choice("abcdef") for _ in times]
    numbers = list(range(ROWS))
    return pa.table({"ts": pa.array(times).cast(pa.timestamp("s")), "g": groups, column: numbers})


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some twenty pieces a side, not one."""
    monkeypatch.setattr(merge_joins, "MIN_PIECE_BYTES", 50_000)
    monkeypatch.setattr(merge_joins, "rows_at_once", lambda _: 3_000)


def _written(folder: Path, name: str, table: pa.Table, num_files: int = 3) -> xs.Dataset:
    (folder / name).mkdir()
    size = -(-table.num_rows // num_files)
    for number in range(num_files):
        part = table.slice(number * size, size)
        pq.write_table(part, folder / name / f"{number}.parquet", row_group_size=10_000)
    return xs.read_parquet(folder / name)


@pytest.mark.usefixtures("engine", "small_pieces")
@pytest.mark.parametrize("by", [None, "g"])
@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_as_polars_joins(tmp_path: Path, direction: str, is_sorted: bool, by: str | None) -> None:
    left, right = (_side(seed, name, is_sorted=is_sorted) for seed, name in ((1, "a"), (2, "b")))
    if by is None:
        right = right.drop_columns("g")
    found = _written(tmp_path, "left", left).join_asof(
        _written(tmp_path, "right", right), on="ts", by=by, direction=direction, tolerance="3s"
    )
    lefts, rights = (pl.from_arrow(side).sort("ts", maintain_order=True) for side in (left, right))
    expected = lefts.join_asof(
        rights, on="ts", by=by, strategy=direction, tolerance="3s", check_sortedness=False
    )
    if by is not None:
        expected = expected.sort("g", "ts", maintain_order=True)
    assert found.schema.names == expected.columns
    assert pl.from_arrow(found.to_arrow()).equals(expected)


@pytest.mark.usefixtures("engine", "small_pieces")
def test_as_duckdb_joins(tmp_path: Path) -> None:
    left_side = _side(1, "a", is_sorted=False)
    # Of equal keys DuckDB takes any row.
    right_side = _side(2, "b", is_sorted=False).group_by(["g", "ts"]).aggregate([("b", "min")])
    right_side = right_side.rename_columns(["g", "ts", "b"])
    found = (
        _written(tmp_path, "left", left_side).join_asof(
            _written(tmp_path, "right", right_side), "ts", by="g"
        )
    ).to_arrow()
    expected = duckdb.sql(
        "SELECT a, b FROM left_side l ASOF LEFT JOIN right_side r ON l.g = r.g AND l.ts >= r.ts"
    ).to_arrow_table()
    assert found.select(["a", "b"]).sort_by("a") == expected.sort_by("a")


@pytest.mark.usefixtures("engine", "small_pieces")
def test_sides_in_order_are_not_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = (_side(seed, name, is_sorted=True) for seed, name in ((1, "a"), (2, "b")))
    sides = [_written(tmp_path, "left", left), _written(tmp_path, "right", right.drop_columns("g"))]
    expected = sides[0].join_asof(sides[1], "ts", strategy="push").to_arrow()

    def no_sort(*_: Any) -> None:
        raise AssertionError("a side in order is sorted")

    monkeypatch.setattr(Execution, "shuffle_job", no_sort)
    assert sides[0].join_asof(sides[1], "ts").to_arrow().equals(expected)
    with pytest.raises(AssertionError, match="a side in order is sorted"):
        sides[0].join_asof(sides[1], "ts", strategy="push").to_arrow()


@pytest.mark.usefixtures("engine", "small_pieces")
@pytest.mark.parametrize("out_of_order", ["", "g", "ts"])
def test_sides_in_order_of_several_keys_are_not_sorted(
    out_of_order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [_side(seed, name, is_sorted=True) for seed, name in ((1, "a"), (2, "b"))]
    left, right = (table.sort_by([("g", "ascending"), ("ts", "ascending")]) for table in tables)
    if out_of_order:
        # The last row comes before those of its group, or of all groups.
        late = right.slice(ROWS - 1).to_pylist()[0]
        early = {"g": late | {"g": "a"}, "ts": late | {"ts": right["ts"][0].as_py()}}[out_of_order]
        right = pa.concat_tables([right, pa.Table.from_pylist([early], right.schema)])
    sides = [_written(tmp_path, "left", left), _written(tmp_path, "right", right)]
    expected = sides[0].join_asof(sides[1], "ts", by="g", strategy="push").to_arrow()

    def no_sort(*_: Any) -> None:
        raise AssertionError("a side in order is sorted")

    assert sides[0].join_asof(sides[1], "ts", by="g").to_arrow().equals(expected)
    # Few rows are sorted in one piece.
    monkeypatch.setattr(Execution, "whole_job", no_sort)
    joined = sides[0].join_asof(sides[1], "ts", by="g")
    if out_of_order:
        with pytest.raises(AssertionError, match="a side in order is sorted"):
            joined.to_arrow()
    else:
        assert joined.to_arrow().equals(expected)


@pytest.mark.usefixtures("engine", "small_pieces")
def test_what_the_disk_has_no_room_for_is_refused_before_it_starts(
    tmp_path: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = (_side(seed, name, is_sorted=True) for seed, name in ((1, "a"), (2, "b")))
    joined = _written(tmp_path, "left", left).join_asof(_written(tmp_path, "right", right), "ts")
    monkeypatch.setattr(merge_joins.MergeJoinJob, "held_bytes", 2 * engine.budget_bytes)
    assert joined.explain().spilled_bytes > engine.budget_bytes
    monkeypatch.setattr(spilling, "free_bytes", lambda _: 1_000_000)
    with pytest.raises(DiskFullError, match=r"^join_asof will spill about .* has 1\.00 MB free"):
        joined.write_parquet(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("engine", "small_pieces")
def test_a_side_that_is_out_of_order_at_its_end_only(tmp_path: Path) -> None:
    left, right = (_side(seed, name, is_sorted=True) for seed, name in ((1, "a"), (2, "b")))
    early = pc.less(right["ts"].cast("int64"), 30)
    moved = pa.concat_tables([right.filter(pc.invert(early)), right.filter(early)])
    moved = moved.drop_columns("g")
    right = right.drop_columns("g")
    expected = _written(tmp_path, "left", left).join_asof(_written(tmp_path, "in", right), "ts")
    found = xs.read_parquet(tmp_path / "left").join_asof(_written(tmp_path, "out", moved), "ts")
    assert found.to_arrow().equals(expected.to_arrow())


@pytest.mark.usefixtures("engine", "small_pieces")
def test_files_in_order_that_come_in_another(tmp_path: Path) -> None:
    """Each piece is in order, but not behind the one before it."""
    left, right = (_side(seed, name, is_sorted=True) for seed, name in ((1, "a"), (2, "b")))
    right = right.drop_columns("g")
    first = pc.less(right["ts"].cast("int64"), 10_000)
    parts = [right.filter(pc.invert(first)), right.filter(first)]
    (tmp_path / "swapped").mkdir()
    for number, part in enumerate(parts):
        pq.write_table(part, tmp_path / "swapped" / f"{number}.parquet")
    expected = _written(tmp_path, "left", left).join_asof(_written(tmp_path, "in", right), "ts")
    found = xs.read_parquet(tmp_path / "left").join_asof(
        xs.read_parquet(tmp_path / "swapped"), "ts"
    )
    assert found.to_arrow().equals(expected.to_arrow())


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("empty", [{"left"}, {"right"}, {"left", "right"}])
def test_sides_without_rows(tmp_path: Path, empty: set[str]) -> None:
    table = pa.table({"t": [1, 2], "x": ["a", "b"]})
    sides = [
        _written(tmp_path, name, table.slice(0, 0 if name in empty else 2), 1)
        for name in ("left", "right")
    ]
    joined = sides[0].join_asof(sides[1], on="t")
    found = joined.to_arrow()
    assert found.schema.names == ["t", "x", "x_right"]
    assert found.num_rows == (0 if "left" in empty else 2)
    if "right" in empty:
        assert found["x_right"].null_count == found.num_rows
    joined.write_parquet(tmp_path / "out")
    assert pq.read_table(tmp_path / "out").equals(found)


@pytest.mark.usefixtures("engine")
def test_operations_before_and_behind(tmp_path: Path) -> None:
    left_side, right_side = _side(1, "a", is_sorted=False), _side(2, "b", is_sorted=False)
    made = (
        _written(tmp_path, "left", left_side)
        .filter("g <> 'f'")
        .join_asof(_written(tmp_path, "right", right_side).distinct(["g", "ts"]), "ts", by="g")
        .filter("b IS NOT NULL")
        .group_by("g")
        .agg(n="count", most=("b", "max"))
        .sort("g")
    )
    expected = duckdb.sql(
        "WITH r AS (SELECT g, ts, min(b) AS b FROM right_side GROUP BY ALL) SELECT l.g, count(*) AS n, max(b) AS most "
        "FROM left_side l ASOF JOIN r ON l.g = r.g AND l.ts >= r.ts WHERE l.g <> 'f' GROUP BY ALL ORDER BY l.g"
    ).to_arrow_table()
    assert made.to_arrow().to_pylist() == expected.to_pylist()
    assert "join_asof of " in str(made.explain(results="batches"))


@pytest.mark.usefixtures("engine")
def test_the_plan_names_both_sorts(tmp_path: Path) -> None:
    sides = [_written(tmp_path, n, _side(1, n, is_sorted=False)) for n in ("left", "right")]
    joined = sides[0].join_asof(sides[1], "ts", by="g")
    title, *columns = repr(joined).splitlines()
    assert title == "Dataset(3 parquet files, 3 parquet files | join_asof on g, ts)"
    assert columns == [f"  {field.name}: {field.type}" for field in joined.schema]
    bill = joined.explain()
    assert bill.operator.startswith("join_asof of ")
    assert [below.operator for below in bill.before] == ["sort", "sort"]
    assert bill.rows == 2 * ROWS
    assert bill.memory_bytes <= xs.futures.current_engine().memory_limit
    assert bill.output_files >= 1


def test_command_line(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    (tmp_path / "trades.csv").write_text("ts,symbol,price\n5,A,10\n9,B,20\n7,A,11\n")
    (tmp_path / "quotes.csv").write_text("ts,symbol,bid\n1,A,1\n6,A,2\n2,B,3\n")
    arguments = [
        "join-asof",
        *(str(tmp_path / name) for name in ("trades.csv", "quotes.csv", "out.csv")),
    ]
    options = ["--on", "ts", "--by", "symbol", "--tolerance", "4"]
    done = CliRunner().invoke(cli, [*arguments, *options])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out.csv").read_text() == (
        "ts,symbol,price,bid\n5,A,10,1\n7,A,11,2\n9,B,20,\n"
    )


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no column": ({}, OptionsError, "needs the column that has to be near: on=, or both left_on="),
    "half a pair": ({"left_on": "t"}, OptionsError, "or both left_on= and right_on="),
    "both": ({"on": "t", "left_on": "t"}, OptionsError, "give one or the other"),
    "several": ({"on": ["t", "x"]}, OptionsError, "is on one column, and got .*; more go into by="),
    "unknown": ({"on": "time"}, SchemaError, "on the left side .*time"),
    "types": ({"left_on": "t", "right_on": "x"}, SchemaError, "cannot join 't' .* with 'x'"),
    "in by": ({"on": "t", "by": "t"}, OptionsError, "has 't' in by= and in on="),
    "direction": ({"on": "t", "direction": "back"}, OptionsError, "one of backward, forward, near"),
    "polars": ({"on": "t", "strategy": "nearest"}, OptionsError, "write direction='nearest'"),
    "negative": ({"on": "t", "tolerance": -1}, OptionsError, "is -1; it must not be negative"),
    "text": ({"on": "t", "tolerance": "1 day"}, OptionsError, "'1 day'; of column 't' .int64. it"),
    "infinite": ({"on": "t", "tolerance": float("inf")}, OptionsError, "a number that is finite"),
    "suffix": ({"on": "t", "suffix": ""}, OptionsError, "join_asof would make two columns named"),
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(tmp_path: Path, name: str) -> None:
    arguments, error, message = WRONG[name]
    side = _written(tmp_path, "in", pa.table({"t": [1], "x": ["a"]}), 1)
    with pytest.raises(error, match=message):
        side.join_asof(side, **arguments)
    with pytest.raises(OptionsError, match="join_asof takes a Dataset"):
        side.join_asof(pa.table({"t": [1]}), on="t")
