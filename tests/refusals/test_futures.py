"""Wrong calls from Python: the class says who has to act, the message names the value, the limit and the remedy."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import (
    ClosedError,
    CorruptFileError,
    InputError,
    MemoryLimitError,
    OptionsError,
    SchemaError,
    TaskError,
)
from exoshuffle.plan.plan import ShufflePlan
from tests.support.oracle import write_files
from tests.support.tables import distributed


@pytest.fixture
def dataset(engine: LocalEngine, tmp_path: Path) -> xs.Dataset:
    del engine
    return xs.read_parquet(write_files(tmp_path / "in", distributed("uniform", 5000), 2))


def test_wrong_paths(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    with pytest.raises(InputError, match=r"nowhere.* does not exist"):
        xs.read_parquet(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no input paths"):
        xs.read_parquet([])
    with pytest.raises(InputError, match="no data files"):
        xs.read_csv(tmp_path / "spill")


def test_an_unknown_column_lists_the_candidates(dataset: xs.Dataset) -> None:
    with pytest.raises(SchemaError, match=r"no column 'kye'; the columns are 'key', 'text'"):
        dataset.sort("kye")
    with pytest.raises(SchemaError, match="nope"):
        dataset.sort(["key", "nope"])


CALLS: dict[str, tuple[Callable[[xs.Dataset], object], str]] = {
    "no column": (lambda d: d.sort(), "at least one column"),
    "empty list": (lambda d: d.sort([]), "at least one column"),
    "too few directions": (
        lambda d: d.sort(["key", "text"], [True]),
        "descending has 1 value for 2 columns",
    ),
    "too many placements": (
        lambda d: d.sort("key", nulls=["first", "last"]),
        "nulls has 2 values for 1 column in by=",
    ),
    "unknown placement": (lambda d: d.sort("key", nulls="middle"), '"first" or "last"'),
    "unknown strategy": (
        lambda d: d.sort("key", strategy="magic").to_arrow(),
        "known are auto, simple, push",
    ),
    "no partitions": (
        lambda d: d.sort("key", num_partitions=0).to_arrow(),
        "0 partitions; choose between 1 and",
    ),
    "negative partitions": (lambda d: d.sort("key", num_partitions=-1).to_arrow(), "-1 partitions"),
    "records from a table": (
        lambda d: d.write_records("out"),
        "tables cannot be written as records; write parquet, arrow, csv or jsonl",
    ),
    "target of nothing": (lambda d: d.write_parquet("out", target_file_size=0), "at least 1"),
    "target no size": (
        lambda d: d.write_parquet("out", target_file_size="big"),
        "'big' is not a size",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_options(
    name: str, dataset: xs.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, message = CALLS[name]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionsError, match=message):
        call(dataset)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "spill"]


def test_a_limit_that_cannot_work_is_refused_with_one_that_does(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", distributed("uniform", 5000), 2)
    with pytest.raises(MemoryLimitError, match="smallest that works is"):
        xs.init(memory_limit="10MB")
    with pytest.raises(OptionsError, match="not negative"):
        xs.init(memory_limit=-1)
    with pytest.raises(OptionsError, match="unknown engine 'mainframe'; known are local"):
        xs.init("mainframe")
    with pytest.raises(OptionsError, match=r"nospill.*create it"):
        xs.init(spill_dirs=[str(tmp_path / "nospill")])
    assert xs.read_parquet(source).files


def test_unknown_options_are_named_and_the_engine_goes_on(engine: LocalEngine) -> None:
    ref = xs.put(1)
    with pytest.raises(
        OptionsError, match=r"unknown option 'memory' of engine 'local'; known are memory_limit, sp"
    ):
        xs.init(memory="1GB")
    with pytest.raises(OptionsError, match="unknown engine"):
        xs.init("mainframe")
    for wrong in (-1, 1.5, "100 KiB"):
        with pytest.raises(OptionsError, match=f"inline_bytes is {wrong!r}; it must be a whole"):
            xs.init(memory_limit=engine.memory_limit, inline_bytes=wrong)
    with pytest.raises(ClosedError):
        xs.get(ref)
    other = xs.init(memory_limit=engine.memory_limit)
    with pytest.raises(OptionsError, match="unknown option"):
        xs.init(memory="1GB")
    assert xs.futures.current_engine() is other
    assert xs.get(xs.put(2)) == 2


def test_one_partition_of_everything_does_not_fit(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    table = distributed("uniform", 1000).append_column("wide", [[b"x" * 60_000] * 1000])
    source = write_files(tmp_path / "in", table, 2)
    with pytest.raises(
        MemoryLimitError,
        match=r"60.* MB in 1 partition .*; the smallest that works is .* or ask for more",
    ):
        xs.read_parquet(source).sort("key", num_partitions=1).write_parquet(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("consume", [lambda d: d.to_arrow(), lambda d: list(d.iter_batches())])
def test_corrupt_files_are_named_when_read_into_memory(
    consume: Callable[[xs.Dataset], object], engine: LocalEngine, tmp_path: Path
) -> None:
    del engine
    source = write_files(tmp_path / "in", distributed("uniform", 5000), 2)
    file = source / "part-001.parquet"
    content = file.read_bytes()
    file.write_bytes(content[:4] + b"\xaa" * 60 + content[64:])
    with pytest.raises(CorruptFileError, match=r"part-001\.parquet.*not a readable Parquet file"):
        consume(xs.read_parquet(source).sort("text"))


def test_an_error_of_a_users_strategy_keeps_its_cause(dataset: xs.Dataset) -> None:
    def fail(_: int) -> None:
        raise ZeroDivisionError("the user's own")

    class Failing:
        def shuffle(self, tasks: object, splits: object, plan: ShufflePlan) -> object:
            del tasks, splits, plan
            yield xs.remote(fail).remote(1)

    with pytest.raises(
        TaskError, match=r"the user's own\n.*\n  task fail failed in attempt 1"
    ) as caught:
        dataset.sort("key", strategy=Failing()).to_arrow()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_failed_write_leaves_the_engine_usable(dataset: xs.Dataset, tmp_path: Path) -> None:
    broken = write_files(tmp_path / "broken", distributed("uniform", 50_000), 40)
    for file in list(broken.iterdir())[::7]:
        content = file.read_bytes()
        file.write_bytes(content[:4] + b"\xaa" * 60 + content[64:])
    for strategy in ("simple", "push"):
        with pytest.raises(CorruptFileError):
            xs.read_parquet(broken).sort("text", strategy=strategy).write_parquet(tmp_path / "out")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "in", "spill"]
    dataset.sort("key").write_parquet(tmp_path / "out")
    assert pq.read_table(tmp_path / "out").num_rows == 5000


def test_errors_can_be_pickled(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        xs.read_parquet(tmp_path / "nowhere")
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  made in the line itself
    assert str(copy) == str(caught.value)
    failed = TaskError("map", 2, ValueError("no"))
    assert str(pickle.loads(pickle.dumps(failed))) == str(failed)  # noqa: S301  made in the line itself
