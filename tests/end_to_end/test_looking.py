"""Results in memory as other libraries' tables, and looks at a dataset: first rows, columns, number of rows."""

from __future__ import annotations

import decimal
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import MemoryLimitError, OptionsError

pytestmark = pytest.mark.usefixtures("engine")

TABLE = pa.table(
    {
        "x": [3, 1, None, 2],
        "s": ["b", None, "c", "a"],
        "l": [[1], None, [], [2, 3]],
        "b": [True, False, None, True],
    }
)


@pytest.fixture
def rows() -> xs.Dataset:
    return xs.from_arrow(TABLE)


def tasks_run(engine: LocalEngine) -> int:
    return engine.stats()["num_tasks"]


def test_tables_of_other_libraries(rows: xs.Dataset) -> None:
    assert rows.to_polars().equals(pl.DataFrame(TABLE))
    assert rows.to_pydict() == TABLE.to_pydict()
    assert rows.to_pylist() == TABLE.to_pylist()
    assert rows.filter("false").to_pylist() == []
    pd = pytest.importorskip("pandas")
    pd.testing.assert_frame_equal(rows.to_pandas(), TABLE.to_pandas())
    arrays = rows.select("x", "s").to_numpy()
    assert {name: array.shape for name, array in arrays.items()} == {"x": (4,), "s": (4,)}


@pytest.mark.parametrize(
    "call", ["to_arrow", "to_pandas", "to_polars", "to_numpy", "to_pydict", "to_pylist"]
)
def test_results_larger_than_memory_are_refused(call: str, engine: LocalEngine) -> None:
    """Of numbers that are made as they are read, too; each call names itself as the remedy."""
    if call in ("to_pandas", "to_numpy"):
        pytest.importorskip("pandas")
    numbers = xs.range(engine.memory_limit)
    for dataset in (numbers, numbers.sort("id")):
        with pytest.raises(
            MemoryLimitError, match=rf"or call {call}\(force=True\), which takes mem"
        ):
            getattr(dataset, call)()


@pytest.mark.parametrize("call", ["to_pandas", "to_polars", "to_numpy"])
def test_a_library_that_is_missing(
    call: str, rows: xs.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = call.removeprefix("to_")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        OptionsError, match=f"{call} needs {library}, and it is not installed; inst"
    ):
        getattr(rows, call)()


def test_first_rows(rows: xs.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    assert rows.head(2).equals(TABLE.slice(0, 2))
    assert rows.head().equals(TABLE)
    assert rows.head(0).equals(TABLE.slice(0, 0))
    assert rows.sort("x").take(1) == [TABLE.to_pylist()[1]]
    rows.select("x", "s").with_columns(long="repeat('y', 50)").show(3)
    assert capsys.readouterr().out.splitlines() == [
        "    x  s       long",
        "int64  string  string",
        f"    3  b       {'y' * 39}…",
        f"    1  null    {'y' * 39}…",
        f" null  c       {'y' * 39}…",
        "(3 rows)",
    ]


def test_the_first_rows_read_no_more_than_they_have_to(engine: LocalEngine) -> None:
    """Of 10,000 parts."""
    before = tasks_run(engine)
    assert xs.range(10**10).filter("id >= 0").head(3)["id"].to_pylist() == [0, 1, 2]
    assert tasks_run(engine) - before < 20


def test_columns_and_repr_run_nothing(engine: LocalEngine, rows: xs.Dataset) -> None:
    before = tasks_run(engine)
    dataset = rows.sort("x").filter("x > 1")
    assert dataset.columns == ["x", "s", "l", "b"]
    assert repr(dataset).splitlines()[:3] == [
        "Dataset(from_arrow of pyarrow.Table | sort by x | filter)",
        "  x: int64",
        "  s: string",
    ]
    assert "<td>x</td><td>int64</td>" in dataset._repr_html_()
    assert "&lt;item: int64&gt;" in dataset._repr_html_()
    assert bool(dataset)
    assert tasks_run(engine) == before
    wide = xs.from_pydict({f"c{i}": [1] for i in range(1000)})
    assert repr(wide).splitlines()[-1] == "  and 970 columns more"
    assert "and 970 columns more" in wide._repr_html_()


def test_counts(rows: xs.Dataset) -> None:
    assert rows.count() == len(rows) == 4
    assert rows.filter("x > 1").count() == 2
    assert rows.filter("x > 100").count() == 0
    assert rows.filter("x > 1").sort("s").select("l").count() == 2
    assert rows.union(rows.filter("x = 1")).count() == 5
    assert rows.group_by("b").agg(n="count").count() == 3
    assert rows.join(rows, on="x").count() == 3
    assert rows.limit(3).filter("x is not null").count() == 2
    assert rows.map_batches(lambda _: {"y": [1] * 7}).count() == 7
    assert xs.range(10**15).random_shuffle(seed=1).count() == 10**15


def test_counts_of_files(tmp_path: Path, engine: LocalEngine) -> None:
    pq.write_table(TABLE, tmp_path / "in.parquet")
    pyarrow.csv.write_csv(TABLE.select(["x", "s"]), tmp_path / "in.csv")
    before = tasks_run(engine)
    assert xs.read_parquet(tmp_path / "in.parquet").sort("x").count() == 4
    assert tasks_run(engine) == before  # from footers
    assert xs.read_csv(tmp_path / "in.csv").count() == 4


def test_describe(rows: xs.Dataset) -> None:
    made = rows.select("x", "s", "b").describe().to_pydict()
    assert made == {
        "statistic": ["count", "null_count", "mean", "std", "min", "25%", "50%", "75%", "max"],
        "x": [3.0, 1.0, 2.0, 1.0, 1.0, 1.25, 2.0, 2.75, 3.0],
        "s": ["3", "1", None, None, "a", None, None, None, "c"],
        "b": ["3", "1", made["b"][2], None, "False", None, None, None, "True"],
    }
    assert float(made["b"][2]) == pytest.approx(2 / 3)
    assert rows.select("l").describe()["l"].to_pylist()[:2] == ["3", "1"]
    assert xs.range(0).describe()["id"].to_pylist() == [0.0, 0.0, *[None] * 7]


def test_describe_counts_what_cannot_be_computed() -> None:
    wide = pa.array([decimal.Decimal("1.5"), None], pa.decimal256(60, 2))
    made = xs.from_arrow(pa.table({"wide": wide, "x": [1, 2]})).describe()
    assert made["wide"].to_pylist() == [1.0, 1.0, *[None] * 7]
    assert made["x"].to_pylist()[:3] == [2.0, 0.0, 1.5]


def test_nanoseconds_are_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Arrow gives them as values of pandas, or refuses to."""
    kinds = {"at": pa.timestamp("ns"), "took": pa.duration("ns"), "zone": pa.timestamp("ns", "UTC")}
    columns = {name: pa.array([1_000, None, 1_001], kind) for name, kind in kinds.items()}
    given = xs.from_arrow(pa.table(columns))
    given.select("at").show()
    shown = capsys.readouterr().out.splitlines()
    assert shown[2:5] == [
        "1970-01-01 00:00:00.000001",
        "null",
        "1970-01-01 00:00:00.000001001",
    ]
    described = given.select("zone").describe().to_pydict()
    assert described["zone"][-1] == "1970-01-01 00:00:00.000001001Z"
