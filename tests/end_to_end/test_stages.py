"""Pipelines of stages: rows equal those of the same functions called in one go, whatever the needs and the memory."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet as pq

import exoshuffle as xs
from exoshuffle.dataset.jobs.stages import beginning
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.workers import preloading
from exoshuffle.errors import (
    ActorDiedError,
    NondeterminismError,
    OptionsError,
    SchemaError,
    SkippedWarning,
    TaskError,
)
from exoshuffle.operators.steps.rows import KeepRows
from exoshuffle.testing.meeting import poll
from tests.support.limits import ROOMY_BUDGET_BYTES

pytestmark = pytest.mark.shares_engine


@pytest.fixture(scope="module", autouse=True)
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xs.futures.Engine]:
    """An engine with two GPUs that nobody looks for, and room for pandas where workers would import it."""
    spill = tmp_path_factory.mktemp("spill")
    budget = ROOMY_BUDGET_BYTES + preloading.pandas_bytes()
    yield xs.init(
        memory_limit=limits.limit_for(budget),
        spill_dirs=str(spill),
        num_cpus=2,
        num_gpus=2,
        resources={"disk": 1},
    )
    xs.shutdown()


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve files, some of them empty, whose rows need more than one block each."""
    folder = tmp_path_factory.mktemp("rows")
    for number in range(12):
        count = 0 if number % 5 == 2 else 10_000
        start = number * 10_000
        table = pa.table(
            {
                "x": pa.array(range(start, start + count), pa.int64()),
                "text": pa.array([f"row {index} of {number}" for index in range(count)]),
                "list": pa.array([[index, None] for index in range(count)], pa.list_(pa.int64())),
                "none": pa.array(
                    [None if index % 3 else 0.5 for index in range(count)], pa.float64()
                ),
            }
        )
        pq.write_table(table, folder / f"{number:02}.parquet")
    return folder


def plus_one(batch):
    return batch.set_column(0, "x", pc.add(batch["x"], 1))


def half(batch):
    return batch.filter(pc.equal(pc.bit_wise_and(batch["x"], 1), 0))


def thrice(batch):
    return batch.take(pa.array([index // 3 for index in range(3 * batch.num_rows)], pa.int64()))


def none(batch):
    return batch.slice(0, 0)


def same(batch):
    return batch


def plus_one_from_7(batch):
    return plus_one(batch) if batch["x"].to_pylist()[:1] >= [70_000] else batch


def plus_one_in_rows_from_7(batch):
    x = batch["x"]
    is_behind = pc.greater_equal(x, 70_000)
    return batch.set_column(0, "x", pc.if_else(is_behind, pc.add(x, 1), x))


class Adder:
    """Adds a number that its constructor got."""

    def __init__(self, number, *, sign=1):
        self.number = sign * number

    def __call__(self, batch):
        return batch.set_column(0, "x", pc.add(batch["x"], self.number))


class Pid:
    """Tells its process, and how many batches it was called with."""

    def __init__(self):
        self.calls = 0

    def __call__(self, batch):
        self.calls += 1
        size = batch.num_rows
        told = {"pid": os.getpid(), "call": self.calls, "size": size}
        return {name: pa.array([value] * size, pa.int64()) for name, value in told.items()}


def expected(folder: Path, *functions) -> pa.Table:
    table = pq.read_table(folder)
    for function in functions:
        table = function(table)
    return table.combine_chunks()


CHAINS = {
    "a function on a GPU": [(plus_one, {"num_gpus": 1})],
    "functions of different needs": [
        (plus_one, {"num_gpus": 1}),
        (half, {"num_cpus": 1, "resources": {"disk": 1}}),
        (thrice, {"concurrency": 1}),
    ],
    "functions of equal needs": [(plus_one, {"num_gpus": 1}), (half, {"num_gpus": 1})],
    "a function before, and one behind": [
        (half, {}),
        (plus_one, {"num_gpus": 0.5}),
        (half, {}),
        (plus_one, {}),
    ],
    "no rows left": [(none, {"num_gpus": 1}), (plus_one, {"resources": {"disk": 0.1}})],
    "many rows of few": [(thrice, {"num_gpus": 2}), (thrice, {"num_gpus": 1}), (half, {})],
    "no needs at all": [(plus_one, {"num_cpus": 0})],
    "batches as they were": [
        (same, {"num_gpus": 1}),
        (plus_one, {"resources": {"disk": 0.1}}),
        (same, {"concurrency": 2}),
    ],
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_give_the_rows_of_their_functions(rows, name):
    dataset = xs.read_parquet(rows)
    for function, needs in CHAINS[name]:
        dataset = dataset.map_batches(function, batch_size=5000, **needs)
    assert dataset.to_arrow().combine_chunks() == expected(
        rows, *(function for function, _ in CHAINS[name])
    )


@pytest.mark.parametrize("is_ordered", [True, False])
def test_blocks_that_come_back_as_they_were_are_handed_on(rows, is_ordered):
    source = xs.read_parquet(rows)
    found = source.map_batches(plus_one_from_7, num_gpus=1, batch_size=5000, ordered=is_ordered)
    made = found.to_arrow().combine_chunks()
    wanted = expected(rows, plus_one_in_rows_from_7)
    assert made == wanted if is_ordered else made.sort_by("x") == wanted


def test_classes_give_the_rows_of_their_objects(rows):
    dataset = (
        xs.read_parquet(rows)
        .map_batches(Adder, fn_constructor_args=(5,), num_gpus=1, concurrency=(0, 2))
        .filter("x % 2 = 0")
        .map_batches(Adder, fn_constructor_args=(1,), fn_constructor_kwargs={"sign": -1})
        .select("x", "none")
    )
    found = dataset.to_arrow()
    table = pq.read_table(rows)
    x = pc.add(table["x"], 5)
    keep = pc.equal(pc.bit_wise_and(x, 1), 0)
    assert found["x"].to_pylist() == pc.subtract(x.filter(keep), 1).to_pylist()
    assert found["none"].to_pylist() == table["none"].filter(keep).to_pylist()


def test_results_go_where_all_results_go(rows, tmp_path):
    dataset = xs.read_parquet(rows).map_batches(plus_one, num_gpus=1).select("x")
    want = [*range(1, 20_001), *range(30_001, 70_001), *range(80_001, 120_001)]
    written = dataset.write_parquet(tmp_path / "out")
    assert written.rows == len(want)
    assert xs.read_parquet(tmp_path / "out").to_arrow()["x"].to_pylist() == want
    dataset.write_csv(tmp_path / "one.csv")
    assert xs.read_csv(tmp_path / "one.csv").count() == len(want)
    sizes = [batch.num_rows for batch in dataset.iter_batches(40_000)]
    assert sizes == [40_000, 40_000, 20_000]
    assert [row["x"] for row in dataset.take(3)] == [1, 2, 3]
    assert dataset.limit(30_000).to_arrow()["x"].to_pylist() == want[:30_000]
    assert dataset.sort("x", descending=True).head(2)["x"].to_pylist() == [120_000, 119_999]
    assert dataset.group_by("x").agg(n="count()").count() == len(want)
    assert dataset.union(dataset).count() == 2 * len(want)
    assert dataset.filter("x <= 3").count() == 3
    assert sorted(dataset.random_shuffle(seed=1).to_arrow()["x"].to_pylist()) == want


def test_a_shuffle_is_a_source_too(rows):
    dataset = xs.read_parquet(rows).sort("x", descending=True).map_batches(plus_one, num_gpus=1)
    found = dataset.to_arrow()["x"].to_pylist()
    assert found == sorted(expected(rows, plus_one)["x"].to_pylist(), reverse=True)


def test_no_order_keeps_the_rows(rows):
    found = xs.read_parquet(rows).map_batches(plus_one, num_gpus=1, ordered=False).to_arrow()
    assert sorted(found["x"].to_pylist()) == expected(rows, plus_one)["x"].to_pylist()


def test_batches_have_the_size_that_was_asked_for(rows):
    found = xs.read_parquet(rows).map_batches(Pid, batch_size=7000).to_arrow()
    assert len(set(found["pid"].to_pylist())) == 1
    assert max(found["size"].to_pylist()) == 7000
    assert max(found["call"].to_pylist()) >= found.num_rows / 7000
    plain = xs.read_parquet(rows).map_batches(
        lambda batch: {"size": [batch.num_rows]},
        batch_size=7000,
        schema=pa.schema({"size": pa.int64()}),
    )
    sizes = plain.to_arrow()["size"].to_pylist()
    assert max(sizes) == 7000
    assert sum(sizes) == found.num_rows


def test_objects_are_as_many_as_were_asked_for(rows):
    def pids(concurrency):
        dataset = xs.read_parquet(rows).map_batches(Pid, num_gpus=1, concurrency=concurrency)
        return set(dataset.to_arrow()["pid"].to_pylist())

    assert len(pids(1)) == 1
    assert 1 <= len(pids((0, 2))) <= 2


def test_batches_come_in_other_formats(rows):
    class Numbers:
        def __call__(self, frame):
            return frame.select(frame["x"] * 2)

    dataset = xs.read_parquet(rows).map_batches(Numbers, batch_format="polars")
    found = dataset.to_arrow()
    assert found["x"].to_pylist() == [2 * x for x in expected(rows)["x"].to_pylist()]


def test_what_little_memory_has_room_for(rows, monkeypatch):
    monkeypatch.setattr("exoshuffle.dataset.jobs.stages.running.waiting_bytes", lambda _: 1)
    few = rows / "01.parquet"
    dataset = (
        xs.read_parquet(few)
        .map_batches(thrice, num_gpus=1)
        .map_batches(Adder, fn_constructor_args=(1,), num_gpus=1)
        .map_batches(half, resources={"disk": 1})
    )
    assert dataset.to_arrow().combine_chunks() == expected(few, thrice, plus_one, half)


def test_an_object_that_dies_is_made_anew(rows, tmp_path):
    mark = tmp_path / "died"

    class Dying:
        def __call__(self, batch):
            if batch.num_rows and batch["x"][0].as_py() >= 50_000 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return plus_one(batch)

    found = xs.read_parquet(rows).map_batches(Dying, num_gpus=1, batch_size=1000).to_arrow()
    assert mark.exists()
    assert found.combine_chunks() == expected(rows, plus_one)


def test_an_object_that_always_dies_is_an_error(rows):
    class Dying:
        def __call__(self, batch):
            if batch.num_rows:
                os.kill(os.getpid(), signal.SIGKILL)
            return batch

    with pytest.raises(ActorDiedError, match="Dying"):
        xs.read_parquet(rows).map_batches(Dying, num_gpus=1).to_arrow()


def test_a_call_that_makes_fewer_blocks_when_it_is_made_again_is_an_error(rows, tmp_path):
    mark = tmp_path / "died"

    class Changing:
        def __call__(self, batch):
            if mark.exists():
                return batch.slice(0, 0)
            if batch.num_rows and batch["x"][0].as_py() >= 7_000:
                mark.touch()
                time.sleep(0.3)  # until its first blocks have been taken
                os.kill(os.getpid(), signal.SIGKILL)
            return pa.concat_tables([batch] * 200)

    dataset = xs.read_parquet(rows / "00.parquet").map_batches(
        Changing, num_gpus=1, batch_size=1000
    )
    with pytest.raises(
        NondeterminismError, match="Changing made 1 blocks when it was called again, and"
    ):
        dataset.to_arrow()


def test_errors_are_those_of_functions_and_nothing_runs_on(rows, engine):
    def failing(batch):
        if batch.num_rows and batch["x"][0].as_py() >= 50_000:
            raise KeyError("too large")
        return batch

    class Unmade:
        def __init__(self):
            raise LookupError("no weights")

        def __call__(self, batch):
            return batch

    with pytest.raises(KeyError, match="too large"):
        xs.read_parquet(rows).map_batches(failing, num_gpus=1).to_arrow()
    schema = xs.read_parquet(rows).schema
    with pytest.raises(LookupError, match="no weights"):
        xs.read_parquet(rows).map_batches(Unmade, schema=schema).to_arrow()
    with pytest.raises(LookupError, match="no weights"):
        xs.read_parquet(rows).map_batches(Unmade)
    poll(lambda: engine.stats()["num_objects"] == 0)


def test_a_consumer_that_leaves_ends_the_pipeline(rows, engine):
    batches = (
        xs.read_parquet(rows)
        .map_batches(Adder, fn_constructor_args=(1,), num_gpus=1)
        .iter_batches()
    )
    next(batches)
    batches.close()
    poll(lambda: engine.stats()["num_objects"] == 0)


def test_the_bill_names_the_stages(rows):
    dataset = (
        xs.read_parquet(rows)
        .map_batches(plus_one)
        .map_batches(Adder, fn_constructor_args=(1,), num_gpus=1, concurrency=(0, 2))
        .map_batches(half)
    )
    bill = dataset.explain()
    assert bill.operator == "scan → Adder [1 GPU; 0 to 2 at once] → half [1 CPU]"
    assert "stages run side by side" in bill.why
    assert "Adder on 1 GPU" in repr(dataset) or dataset.node.label


def test_stages_that_keep_what_others_need_are_refused(rows):
    dataset = (
        xs.read_parquet(rows)
        .map_batches(Adder, fn_constructor_args=(1,), num_gpus=1, concurrency=2)
        .map_batches(plus_one, num_gpus=1)
    )
    with pytest.raises(
        OptionsError, match=r"need 3 GPU at once, .* and the engine has 2\. Write conc"
    ):
        dataset.to_arrow()


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (plus_one, {"num_gpus": 3}, "map_batches needs 3 GPU, and the engine has 2: ask for less"),
        (plus_one, {"concurrency": 3}, "map_batches needs 3 × 1 CPU, and the engine has 2"),
        (Adder, {"num_gpus": 1, "concurrency": (1, 3)}, "map_batches needs 3 × 1 GPU, and the"),
        (plus_one, {"concurrency": 0}, "concurrency is 0; give a number from 1 on, or two"),
        (plus_one, {"concurrency": (2, 1)}, r"concurrency is \(2, 1\); give"),
        (plus_one, {"resources": {"tape": 1}}, "needs 1 tape, and the engine has 0"),
        (plus_one, {"num_gpus": -1}, "num_gpus is -1; it must be a number that is not negative"),
        (plus_one, {"batch_size": 0}, "batch_size is 0; it must be a whole number from 1 on"),
        (plus_one, {"ordered": 1}, "ordered is 1; write True or False"),
        (plus_one, {"fn_constructor_args": (1,)}, "with arguments of a constructor; give a class"),
        (int, {}, "the class int, which has no method __call__"),
        (Adder, {"batch_format": "rows"}, "batch_format is 'rows'"),
    ],
)
def test_what_cannot_work_is_refused_at_the_call(rows, function, arguments, words):
    with pytest.raises(OptionsError, match=words):
        xs.read_parquet(rows).map_batches(function, **arguments)


def test_small_blocks_go_to_a_task_together(rows, monkeypatch):
    monkeypatch.setattr(beginning, "TOGETHER_SECONDS", 1e9)
    dataset = (
        xs.read_parquet(rows).map_batches(half, num_gpus=1).map_batches(plus_one, num_gpus=0.5)
    )
    assert dataset.to_arrow().combine_chunks() == expected(rows, half, plus_one)


class Pickled:
    """A function that counts how often this process pickles it."""

    times = 0

    def __getstate__(self):
        Pickled.times += 1
        return {}

    def __call__(self, batch):
        return batch


def test_functions_are_pickled_once_for_all_tasks_of_a_stage(monkeypatch):
    monkeypatch.setattr(beginning, "TOGETHER_SECONDS", 0)
    rows, times = xs.from_pydict({"x": list(range(2000))}), []
    for count in (1, 20):
        monkeypatch.setattr(Pickled, "times", 0)
        parts = rows.repartition(count)
        assert parts.map_batches(Pickled(), concurrency=2).count() == 2000
        times.append(Pickled.times)
    assert 0 < times[0] == times[1]


def test_rows_are_mapped_one_by_one(rows):
    def twice(row):
        return {**row, "x": 2 * row["x"]}

    def copies(row):
        for number in range(row["x"] % 3):
            yield {"x": row["x"], "number": number}

    few = rows / "01.parquet"
    dataset = xs.read_parquet(few)
    want = expected(few)
    doubled = want.set_column(0, "x", pc.multiply(want["x"], 2))
    assert dataset.map(twice).to_arrow().combine_chunks() == doubled
    assert dataset.map(twice, num_gpus=1).to_arrow().combine_chunks() == doubled
    schema = pa.schema({"x": pa.int64(), "number": pa.int8()})
    pairs = [(x, number) for x in want["x"].to_pylist() for number in range(x % 3)]
    for options in ({}, {"resources": {"disk": 1}}):
        found = dataset.flat_map(copies, schema=schema, **options).to_arrow()
        assert found.schema == schema
        assert list(zip(*found.to_pydict().values(), strict=True)) == pairs


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (3, "map: the function made int of a row; make dictionaries of columns"),
        ({"y": 1}, r"map: a row came back with \(y\); expected were \(x\): give schema="),
        (
            {"x": "text"},
            "map: rows came back with values in 'x' that are not int64.*; give schema=",
        ),
    ],
)
def test_rows_of_another_schema_are_refused(made, words):
    rows = xs.from_pydict({"x": range(40)})
    for mapped in (
        lambda: rows.map(lambda row: made if row["x"] > 30 else row),
        lambda: rows.sort("x").map(lambda _: made),
    ):
        with pytest.raises(SchemaError, match=words):
            mapped().to_arrow()


def test_the_schema_of_rows_is_learnt_from_the_first_ones():
    small = pa.array(range(40), pa.int8())
    rows = xs.from_arrow(pa.table({"x": small, "gone": small}))
    made = rows.filter("x > 1").map(lambda row: {"x": row["x"], "text": str(row["x"]), "half": 0.5})
    assert made.schema == pa.schema({"x": pa.int8(), "text": pa.string(), "half": pa.float64()})
    assert made.to_arrow()["text"].to_pylist() == [str(x) for x in range(2, 40)]
    wider = made.map(lambda row: {"x": 1000 + row["x"], "list": [row["text"]]})
    assert wider.schema == pa.schema({"x": pa.int64(), "list": pa.list_(pa.string())})
    assert rows.flat_map(lambda _: []).schema == rows.schema
    assert rows.limit(0).map(lambda _: {"y": 1}).schema == rows.schema
    numbers = xs.from_pydict({"x": [1]}).flat_map(lambda _: ({"n": n} for n in range(10**12)))
    assert numbers.schema == pa.schema({"n": pa.int64()})
    assert numbers.head(3).to_pydict() == {"n": [0, 1, 2]}
    with pytest.raises(SchemaError, match="nothing but None in 'y'; give schema="):
        rows.map(lambda _: {"y": None})
    with pytest.raises(SchemaError, match=r"values in 'y' that have no type in common.*; give sch"):
        rows.map(lambda row: {"y": "text" if row["x"] else 0})


def test_functions_that_keep_rows_take_the_needs_of_stages(rows):
    dataset = xs.read_parquet(rows)
    kept = dataset.filter(
        lambda row, least: row["x"] % 3 == 0 and row["x"] >= least,
        "x < 50_000",
        num_gpus=1,
        concurrency=2,
        fn_args=(9,),
    )
    assert "1 GPU" in str(kept.explain())
    assert kept.to_arrow().combine_chunks() == (
        dataset.filter("x % 3 = 0 AND x >= 9 AND x < 50_000").to_arrow().combine_chunks()
    )
    both = dataset.filter(lambda row: row["x"] < 9, num_gpus=0.5, x=7, on_error="skip")
    assert both.to_pydict()["x"] == [7]
    with pytest.raises(OptionsError, match="7 GPU"):
        dataset.filter(lambda _: True, num_gpus=7)
    table = xs.from_pydict({"memory": [1, 2]})
    assert table.filter(memory=2).count() == 1


def test_functions_keep_rows_as_they_were(rows):
    dataset = xs.read_parquet(rows)
    assert (
        dataset.filter(lambda row: row["x"] % 3 == 0).to_arrow().combine_chunks()
        == dataset.filter("x % 3 = 0").to_arrow().combine_chunks()
    )
    both = dataset.filter(lambda row: row["x"] % 2 == 0, "x < 100", lambda row: row["x"] > 50)
    assert both.count() == dataset.filter("x < 100 AND x > 50 AND x % 2 = 0").count()
    assert dataset.filter(lambda _: None).count() == 0
    table = pa.table(
        {
            "d": pa.array(["a", None, "b"]).dictionary_encode(),
            "v": pa.array(["a", None, "b"], pa.string_view()),
            "t": pa.array([1, 2, 3], pa.timestamp("us", "Europe/Berlin")),
        }
    )
    kept = xs.from_arrow(table).filter(lambda row: row["d"] == "b").to_arrow()
    assert kept.combine_chunks() == table.slice(2).combine_chunks()
    with pytest.raises(
        SchemaError, match=r"filter: the function .* returned 3; return True to keep"
    ):
        dataset.filter(lambda _: 3).to_arrow()
    with pytest.raises(ZeroDivisionError):
        dataset.filter(lambda _: 1 / 0).to_arrow()


def test_rows_are_numbered_through_all_batches_of_a_task():
    batches = pa.table({"x": range(300)}).to_reader(max_chunksize=100)
    step = KeepRows(lambda row: row["x"] < 250 or 1 / 0, schema=batches.schema)
    with pytest.raises(ZeroDivisionError) as caught:
        step.apply(batches).read_all()
    assert "row number 251" in caught.value.__notes__[0]


def test_functions_of_rows_that_cannot_work_are_refused(rows):
    dataset = xs.read_parquet(rows)
    with pytest.raises(OptionsError, match="function is 3; it must be a function"):
        dataset.map(3)
    with pytest.raises(OptionsError, match="flat_map needs a function, and got 3"):
        dataset.flat_map(3)
    with pytest.raises(OptionsError, match=r"map got a generator, .*; write flat_map"):
        dataset.map(lambda row: (yield row))
    with pytest.raises(
        OptionsError, match="map has no argument 'batch_size'; it has memory, num_c"
    ):
        dataset.map(plus_one, batch_size=3)
    with pytest.raises(SchemaError, match="flat_map: the function returned dict; return a list of"):
        dataset.flat_map(lambda row: row).to_arrow()


def test_rows_and_batches_are_skipped_where_that_is_asked_for(rows, tmp_path):
    def decode(batch):
        if 52_000 in batch["x"].to_pylist():
            raise ValueError("no such codec")
        return batch

    def half_of(row):
        return {"x": row["x"], "half": 100 / (row["x"] % 1000)}

    def copies(row):
        yield {"x": row["x"]}
        if row["x"] == 1001:
            raise KeyError("frame")
        yield {"x": None if row["x"] == 1002 else row["x"]}

    halves = pa.schema({"x": pa.int64(), "half": pa.float64()})
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    dataset = (
        xs.read_parquet(rows)
        .map_batches(decode, batch_size=1000, on_error="skip")
        .map(half_of, schema=halves, on_error="skip", num_gpus=1)
        .filter(lambda row: row["x"] % 1000 < 3 and (row["x"] != 2002 or 1 / 0), on_error="skip")
        .flat_map(copies, schema=schema, on_error="skip")
    )
    with pytest.warns(
        SkippedWarning, match="1,102 rows skipped, since .*; the first was skipped by"
    ):
        result = dataset.write_parquet(tmp_path / "out")
    starts = [n * 1000 for n in range(120) if n // 10 not in (2, 7) and n != 52]
    want = [x for start in starts for x in (start + 1, start + 1, start + 2, start + 2)]
    for one in (1001, 2002, 2002):
        want.remove(one)
    want.remove(1002)
    assert xs.read_parquet(tmp_path / "out").to_arrow()["x"].to_pylist() == want
    assert result.skipped_rows == 1000 + 99 + 1 + 2
    found = [
        (one.function.rpartition(".")[2], one.first_row, one.num_rows) for one in result.skipped
    ]
    assert found[:2] == [("decode", 42_000, 1000), ("half_of", 0, 1)]
    assert result.skipped[0].error == "ValueError: no such codec"
    assert result.skipped[1].error == "ZeroDivisionError: division by zero"
    assert ("half_of", 98_000, 1) in found
    assert ("<lambda>", 2002 - 3, 1) in found
    assert found[-2:] == [("copies", 2, 1), ("copies", 3, 1)]
    assert result.to_dict()["skipped"][0]["num_rows"] == 1000


def test_the_batch_that_is_not_one_of_columns_is_named(rows):
    def ragged(batch):
        bad = 52_000 in batch["x"].to_pylist()
        return {"x": batch["x"], "y": [1] * (batch.num_rows - bad)}

    def wide(batch):
        return (
            batch if 52_000 not in batch["x"].to_pylist() else batch.append_column("z", batch["x"])
        )

    dataset = xs.read_parquet(rows / "05.parquet")
    schema = pa.schema({"x": pa.int64(), "y": pa.int64()})
    with pytest.raises(
        SchemaError, match=r"a dictionary of batch 3 that is not one of columns: .*999"
    ):
        dataset.map_batches(ragged, batch_size=1000, schema=schema).to_arrow()
    with pytest.raises(SchemaError, match=r"batch 3 came back with .*z: int64"):
        dataset.map_batches(wide, batch_size=1000).to_arrow()
    with pytest.warns(
        SkippedWarning, match="1,000 rows .*ragged, rows 2000 to 2999: SchemaError: map"
    ):
        kept = dataset.map_batches(ragged, batch_size=1000, schema=schema, on_error="skip").count()
    assert kept == 9000


def test_the_warning_names_results_of_another_schema(rows):
    """A function that makes other columns than it was said to skips all rows, whatever else fails before."""

    def unlike(batch):
        if 50_000 in batch["x"].to_pylist():
            raise ValueError("no such codec")
        return {"y": batch["x"]}

    dataset = xs.read_parquet(rows / "05.parquet")
    schema = pa.schema({"x": pa.int64()})
    made = dataset.map_batches(unlike, batch_size=1000, schema=schema, on_error="skip")
    with pytest.warns(SkippedWarning) as warned:
        num_made = made.count()
    assert num_made == 0
    (one,) = warned
    assert re.search(
        r"10,000 rows skipped.*rows 0 to 999: ValueError: no such codec; 9,000 rows since the result had another "
        r"schema, the first by .*unlike, rows 1000 to 1999: SchemaError: .*came back with \(y: int64",
        str(one.message),
    )
    assert one.filename == __file__


def test_paths_of_skipped_rows_are_named(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.bin").write_bytes(name.encode() * 10)

    def length(row):
        if row["bytes"].startswith(b"b"):
            raise ValueError("broken")
        return {"length": len(row["bytes"])}

    dataset = xs.read_binary(tmp_path)
    with pytest.warns(
        SkippedWarning, match=r"1 row skipped.*length, row 1 of all, in .*b\.bin: ValueError: b"
    ):
        assert dataset.map(length, on_error="skip").to_pydict() == {"length": [10, 10]}


def test_what_is_no_fault_of_rows_is_not_skipped(rows):
    def greedy(batch):
        if batch.num_rows:
            raise MemoryError("no room")
        return batch

    with pytest.raises(TaskError, match="MemoryError: no room"):
        xs.read_parquet(rows).map_batches(greedy, on_error="skip").to_arrow()


def test_a_constructor_that_fails_is_called_again(rows, tmp_path):
    class Late:
        def __init__(self):
            with (tmp_path / "calls").open("a") as calls:
                calls.write("x")
            if (tmp_path / "calls").stat().st_size < 3:
                raise ConnectionError("not yet")

        def __call__(self, batch):
            return batch

    class Never:
        def __init__(self):
            raise ConnectionError("nobody there")

        def __call__(self, batch):
            return batch

    dataset = xs.read_parquet(rows)
    made = dataset.map_batches(Late, schema=dataset.schema, concurrency=1)
    assert made.count() == 100_000
    assert (tmp_path / "calls").stat().st_size == 3
    with pytest.raises(ConnectionError, match="nobody there") as caught:
        dataset.map_batches(Never, schema=dataset.schema).count()
    assert "Never" in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))


def test_functions_and_objects_get_further_arguments(rows):
    class Added:
        def __init__(self, start):
            self.start = start

        def __call__(self, batch, number, *, sign=1):
            return batch.set_column(0, "x", pc.add(batch["x"], self.start + sign * number))

    def add(batch, number, *, sign=1):
        return batch.set_column(0, "x", pc.add(batch["x"], sign * number))

    def copies(row, count, text="x"):
        return [{"text": text + row["text"]}] * count

    few = xs.read_parquet(rows / "01.parquet")
    made = few.map_batches(add, fn_args=(3,), fn_kwargs={"sign": -1}).map_batches(
        Added, fn_constructor_args=(100,), fn_args=[2]
    )
    assert made.head(2)["x"].to_pylist() == [10_099, 10_100]
    texts = few.limit(1).flat_map(copies, fn_args=(2,), fn_kwargs={"text": "a "}).to_arrow()
    assert texts["text"].to_pylist() == ["a row 0 of 1"] * 2
    one = few.limit(1).map(lambda row, number: {"x": row["x"] + number}, fn_args=(5,))
    assert one.to_pydict() == {"x": [10_005]}
