"""Joining files larger than the budget gives what DuckDB gives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import OptionsError, SchemaError
from tests.end_to_end.generated import assert_same_rows, generated, query
from tests.end_to_end.oracle import write_files


@pytest.fixture(scope="module")
def left() -> pa.Table:
    return generated(200_000, keys=60_000, seed=1)


@pytest.fixture(scope="module")
def right() -> pa.Table:
    # Keys of another width; some are missing on either side.
    table = generated(60_000, keys=90_000, seed=2)
    return query("select k::int as k, id as other, x, text from t", t=table)


@pytest.fixture(scope="module")
def files(left: pa.Table, right: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joined")
    write_files(folder / "left", left, 3, rows_per_group=20_000)
    write_files(folder / "right", right, 2, rows_per_group=20_000)
    return folder


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("strategy", ["simple", "push"])
def test_joins_are_those_of_duckdb(
    how: str, strategy: str, files: Path, left: pa.Table, right: pa.Table, engine: LocalEngine
) -> None:
    del engine
    joined = xs.read_parquet(files / "left").join(
        xs.read_parquet(files / "right"), on="k", how=how, strategy=strategy, num_partitions=40
    )
    columns = "id, k, small, x, text, nested, moment"
    others = "" if how in ("semi", "anti") else ", other, x_right, text_right"
    wanted = query(
        f"select {columns}{others} from l {how} join r using (k)",  # noqa: S608  names of this test
        l=left,
        r=right.rename_columns(["k", "other", "x_right", "text_right"]),
    )
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
