"""Joining files of many splits gives what DuckDB gives."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError, SchemaError
from tests.support.generated import assert_same_rows, generated, query
from tests.support.matrix import cut_small
from tests.support.oracle import write_files


@pytest.fixture(scope="module")
def left() -> pa.Table:
    return generated(100_000, keys=30_000, seed=1)


@pytest.fixture(scope="module")
def right() -> pa.Table:
    # Keys of another width; some are missing on either side.
    table = generated(30_000, keys=45_000, seed=2)
    return query("select k::int as k, id as other, x, text from t", t=table)


@pytest.fixture(scope="module")
def files(left: pa.Table, right: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joined")
    write_files(folder / "left", left, 3, rows_per_group=10_000)
    write_files(folder / "right", right, 2, rows_per_group=10_000)
    return folder


@pytest.fixture(scope="module")
def wanted(left: pa.Table, right: pa.Table) -> Callable[[str], pa.Table]:
    """The rows that DuckDB makes of a kind of join, asked once for both strategies."""
    renamed = right.rename_columns(["k", "other", "x_right", "text_right"])

    @functools.cache
    def rows(how: str) -> pa.Table:
        others = "" if how in ("semi", "anti") else ", other, x_right, text_right"
        columns = f"id, k, small, x, text, nested, moment{others}"
        return query(f"select {columns} from l {how} join r using (k)", l=left, r=renamed)  # noqa: S608  names of this test

    return rows


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("strategy", ["simple", "push"])
def test_joins_are_those_of_duckdb(
    how: str, strategy: str, files: Path, wanted: Callable[[str], pa.Table], engine: LocalEngine
) -> None:
    del engine
    joined = xs.read_parquet(files / "left").join(
        xs.read_parquet(files / "right"), on="k", how=how, strategy=strategy, num_partitions=40
    )
    assert joined.explain().splits > 2
    assert_same_rows(joined.to_arrow(), wanted(how))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_numbers_meet_as_in_duckdb(
    how: str, engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN meets NaN, and −0.0 meets 0.0, in whatever files and of whatever width they are; null meets nothing."""
    del engine
    cut_small(monkeypatch)
    left = query("select id, x from t where x < 20 or isnan(x) or x is null", t=generated(2000))
    right = query("select x::float as x, id as other from t", t=generated(400, seed=2))
    for special in (left, right):
        zeros = special.filter(pc.equal(special["x"], 0))["x"].to_pylist()
        assert {math.copysign(1, zero) for zero in zeros} == {1, -1}
    write_files(tmp_path / "left", left, 3, rows_per_group=50)
    write_files(tmp_path / "right", right, 2, rows_per_group=50)
    joined = xs.read_parquet(tmp_path / "left").join(
        xs.read_parquet(tmp_path / "right"), on="x", how=how, strategy="push", num_partitions=9
    )
    others = "" if how in ("semi", "anti") else ", other"
    wanted = query(f"select id, x{others} from l {how} join r using (x)", l=left, r=right)  # noqa: S608
    assert_same_rows(joined.to_arrow(), wanted)


def test_cross_join(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    small = generated(300)
    write_files(tmp_path / "in", small, 2)
    dataset = xs.read_parquet(tmp_path / "in")
    joined = dataset.select("id").join(dataset.select("text"), how="cross").to_arrow()
    assert_same_rows(joined, query("select l.id, r.text from t l cross join t r", t=small))


def test_a_hot_key_makes_more_than_fits(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    table = pa.table({"k": pa.array([1] * 2000, pa.int64()), "pad": ["x" * 100] * 2000})
    write_files(tmp_path / "in", table, 2)
    dataset = xs.read_parquet(tmp_path / "in")
    result = dataset.join(dataset, on="k").write_parquet(tmp_path / "out", compression="zstd")
    assert result.rows == 4_000_000


def test_wrong_arguments(files: Path) -> None:
    left, right = xs.read_parquet(files / "left"), xs.read_parquet(files / "right")
    for error, message, arguments in [
        (OptionsError, "on", {}),
        (OptionsError, "sideways", {"on": "k", "how": "sideways"}),
        (SchemaError, "nope", {"on": "nope"}),
        (SchemaError, r"text.*other|other.*text", {"left_on": "text", "right_on": "other"}),
        (OptionsError, "left_on", {"left_on": ["k", "text"], "right_on": "k"}),
    ]:
        with pytest.raises(error, match=message):
            left.join(right, **arguments)
