"""Watching an aggregation: partial results of files, the last of them DuckDB's."""

from __future__ import annotations

import itertools
import random
import statistics
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv

import exoshuffle as xs
from examples import online_aggregation
from exoshuffle.dataset.online import Partial
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import InputError, OptionsError
from exoshuffle.testing.meeting import poll
from tests.support.generated import assert_same_rows, generated, query
from tests.support.oracle import write_files

ROWS = 50_000
AGGREGATES: dict[str, Any] = {
    "n": "count",
    "total": ("id", "sum"),
    "m": ("small", "mean"),
    "least": ("x", "min"),
    "most": ("text", "max"),
    "begins": ("text", "first"),
    "ends": ("id", "last"),
}
WANTED = """
    count(*) as n, sum(id)::bigint as total, avg(small) as m, min(x) as least, max(text) as most,
    first(text order by id) as begins, max(id) as ends
"""


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return generated(ROWS, keys=300)


@pytest.fixture(scope="module")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("online") / "in", table, 4, rows_per_group=5000)


def results(partial: Partial) -> pa.Table:
    """The table without errors."""
    names = [name for name in partial.table.column_names if not name.endswith("_error")]
    return partial.table.select(names)


@pytest.mark.parametrize("keys", [("k",), ("small", "moment"), ("id",)])
def test_the_last_result_is_that_of_duckdb(
    keys: tuple[str, ...], tmp_path: Path, engine: LocalEngine
) -> None:
    del engine
    table = generated(12_000, keys=300)
    source = write_files(tmp_path / "in", table, 4, rows_per_group=600)
    groups = xs.read_parquet(source).group_by(*keys).agg(**AGGREGATES)
    *before, last = groups.stream()
    assert len(before) >= 3
    names = ", ".join(keys)
    wanted = query(f"select {names}, {WANTED} from t group by {names}", t=table)  # noqa: S608  names of this test
    assert last.fraction == 1.0
    assert results(last).schema == groups.schema
    assert_same_rows(results(last), wanted)
    assert_same_rows(results(last), groups.to_arrow())
    for name in ("n", "total", "m"):
        assert set(last.table[f"{name}_error"].to_pylist()) == {0.0}


def test_estimates_come_early_and_become_exact(source: Path, engine: LocalEngine) -> None:
    del engine
    groups = xs.read_parquet(source).group_by("k").agg(**AGGREGATES)
    partials = list(groups.stream())
    fractions = [partial.fraction for partial in partials]
    assert len(partials) >= 10
    assert 0 < fractions[0] < 0.15
    assert fractions[-1] == 1.0
    assert all(a < b for a, b in itertools.pairwise(fractions))
    truth = {group["k"]: group for group in partials[-1].table.to_pylist()}
    for name in ("n", "total", "m"):
        errors = [
            statistics.median(partial.table[f"{name}_error"].to_pylist())
            for partial in partials[1:]
        ]
        assert all(a > b for a, b in itertools.pairwise(errors[::3]))
        assert errors[-1] == 0.0
    # The sum of ids depends on where a split lies, so the groups are right or wrong together.
    middle = partials[len(partials) // 2].table.to_pylist()
    for name in ("n", "m"):
        off = [abs(group[name] - truth[group["k"]][name]) for group in middle]
        inside = sum(
            error <= group[f"{name}_error"] for error, group in zip(off, middle, strict=True)
        )
        assert 0.88 <= inside / len(middle) <= 0.99


def test_bounds_hold_where_the_last_row_group_of_a_file_is_short(
    tmp_path: Path, engine: LocalEngine
) -> None:
    """Splits are then of two sizes: counted as equal ones, three large ones were sure of a wrong total."""
    del engine
    rng = random.Random(5)
    rows = 4 * 30_000
    table = pa.table(
        {"k": [row % 2 for row in range(rows)], "v": [rng.randrange(100) for _ in range(rows)]}
    )
    source = write_files(tmp_path / "in", table, 4, rows_per_group=8192)
    groups = xs.read_parquet(source).group_by("k").agg(c="count", s=("v", "sum"))
    inside = {name: [0, 0] for name in ("c", "s")}
    for seed in range(12):
        *partials, last = groups.stream(seed)
        truth = {group["k"]: group for group in last.table.to_pylist()}
        for partial in partials:
            for group, name in itertools.product(partial.table.to_pylist(), inside):
                error = group[f"{name}_error"]
                assert error != 0.0
                if error is not None:
                    off = abs(group[name] - truth[group["k"]][name])
                    inside[name][0] += off <= error
                    inside[name][1] += 1
    for name, (hits, cases) in inside.items():
        assert cases > 100
        assert hits >= 0.9 * cases, name


@pytest.mark.parametrize("form", ["csv", "blocks"])
def test_totals_of_splits_that_have_no_number_of_rows_go_by_their_bytes(
    form: str, tmp_path: Path, engine: LocalEngine
) -> None:
    """Two files of one size and one far smaller; and what a shuffle made of them."""
    del engine
    for index, rows in enumerate((40_000, 40_000, 2_000)):
        table = pa.table({"k": [row % 3 for row in range(rows)], "v": range(rows)})
        csv.write_csv(table, tmp_path / f"{index}.csv")
    rows = xs.read_csv(str(tmp_path / "*.csv"))
    if form == "blocks":
        rows = rows.repartition(20)
    *partials, last = rows.group_by("k").agg(n="count").stream()
    assert last.table["n_error"].to_pylist() == [0.0] * 3
    truth = {group["k"]: group["n"] for group in last.table.to_pylist()}
    for group in partials[0].table.to_pylist():
        # Short numbers at the beginning of a file make more rows of as many bytes.
        assert group["n"] == pytest.approx(truth[group["k"]], rel=0.15)
        assert group["n_error"] > 0


def test_the_order_of_reading_is_a_matter_of_the_seed(source: Path, engine: LocalEngine) -> None:
    del engine
    groups = xs.read_parquet(source).group_by("small").agg(n="count", m=("id", "mean"))
    runs = [list(itertools.islice(groups.stream(seed), 3)) for seed in (0, 0, 1)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_stopping_early_leaves_nothing_behind(source: Path, engine: LocalEngine) -> None:
    stream = xs.read_parquet(source).group_by("id").agg(total=("id", "sum")).stream()
    assert next(stream).fraction < 0.5
    stream.close()
    # The tasks that were submitted end by themselves.
    poll(lambda: engine.stats()["num_objects"] == engine.stats()["num_blocks"] == 0)


def test_nothing_runs_until_a_result_is_asked_for(source: Path, engine: LocalEngine) -> None:
    stream = xs.read_parquet(source).group_by("k").agg(n="count").stream()
    assert engine.stats()["num_objects"] == 0
    del stream


def test_all_rows_are_one_group_without_keys(
    table: pa.Table, source: Path, engine: LocalEngine
) -> None:
    del engine
    groups = xs.read_parquet(source).group_by()
    partials = list(groups.agg(n="count", m=("small", "mean"), least=("x", "min")).stream())
    assert [partial.table.num_rows for partial in partials] == [1] * len(partials)
    assert partials[0].table["m_error"][0].as_py() > partials[-2].table["m_error"][0].as_py() > 0
    wanted = query("select count(*) as n, avg(small) as m, min(x) as least from t", t=table)
    assert_same_rows(results(partials[-1]), wanted)
    (*_, counted) = groups.count().stream()
    assert counted.table.to_pylist() == [{"count": ROWS, "count_error": 0.0}]


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_no_rows(keys: tuple[str, ...], source: Path, engine: LocalEngine) -> None:
    del engine
    nothing = xs.read_parquet(source).filter("id < 0")
    groups = nothing.group_by(*keys).agg(n="count", total=("id", "sum"))
    *_, last = groups.stream()
    assert last.fraction == 1.0
    assert results(last).equals(groups.to_arrow())
    assert last.table["n_error"].to_pylist() == [0.0] * last.table.num_rows


def test_one_split(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    table = generated(100, keys=5)
    groups = xs.read_parquet(write_files(tmp_path / "one", table, 1)).group_by("k").count()
    (only,) = groups.stream()
    assert only.fraction == 1.0
    assert_same_rows(results(only), query("select k, count(*) as count from t group by k", t=table))


def test_behind_other_operations(table: pa.Table, source: Path, roomy_engine: LocalEngine) -> None:
    """Functions of the user run in worker processes; rows come from files and from blocks of a shuffle."""
    del roomy_engine
    files = xs.read_parquet(source).select("id", "k")
    rows = files.filter("id >= 1000").union(files.distinct("k"))
    rows = rows.map_batches(lambda batch: batch.append_column("j", batch["id"]))
    *_, last = rows.group_by("k").agg(n="count", total=("j", "sum")).stream(seed=3)
    wanted = query(
        "with firsts as (select min(id) as id, k from t group by k) "
        "select k, count(*) as n, sum(id)::bigint as total "
        "from (select id, k from t where id >= 1000 union all select id, k from firsts) group by k",
        t=table,
    )
    assert_same_rows(results(last), wanted)


def test_dictionaries_survive_the_rounds(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    rng = random.Random(4)
    words = [rng.choice(["a", "b", None]) for _ in range(5000)]
    table = pa.table(
        {
            "word": pa.array(words).dictionary_encode(),
            "text": [f"{word}{rng.randrange(9)}" for word in words],
            "x": [rng.randrange(100) for _ in words],
        }
    )
    groups = xs.read_parquet(write_files(tmp_path / "keys", table, 3)).group_by("word", "text")
    *_, last = groups.agg(n="count", total=("x", "sum"), end=("word", "last")).stream()
    wanted = query(
        'select word, text, count(*) as n, sum(x)::bigint as total, word as "end" from t group by word, text',
        t=table,
    )
    assert_same_rows(results(last), wanted)


def test_a_sum_that_does_not_fit_is_named(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    table = pa.table({"x": pa.array([2**62, 2**62], pa.int64())})
    rows = xs.read_parquet(write_files(tmp_path / "large", table, 1))
    with pytest.raises(InputError, match="sum of column 'x' does not fit int64"):
        list(rows.group_by().agg(total=("x", "sum")).stream())


def test_functions_that_cannot_be_watched_are_refused_at_once(source: Path) -> None:
    groups = xs.read_parquet(source).group_by("k").agg(m=("x", "median"))
    with pytest.raises(OptionsError, match="median"):
        groups.stream()


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    online_aggregation.main()
    assert "the first pages are sorted" in capsys.readouterr().out
