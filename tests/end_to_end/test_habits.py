"""What users of pandas, Polars, pyarrow and Ray write by habit: it works, or is refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import exoshuffle as xs
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import InputError, OptionsError, OutputError, SchemaError
from exoshuffle.futures import Ref, TaskOptions
from exoshuffle.operators.core.keys import SortKey

TABLE = pa.table({"k": [3, 1, 2, 1], "x": [0.5, 1.5, 2.5, 3.5], "s": ["a", "b", "c", "d"]})

Call = Callable[[xs.Dataset], object]
Untyped: Any = xs


# --- what works --------------------------------------------------------------------------------------------------

TAKEN: dict[str, tuple[Call, list[str]]] = {
    "select a list": (lambda d: d.select(["x", "k"]), ["x", "k"]),
    "select a tuple": (lambda d: d.select(("x", "k")), ["x", "k"]),
    "select a list and more": (lambda d: d.select(["x"], "k", z="k + 1"), ["x", "k", "z"]),
    "select keys of a dictionary": (lambda d: d.select({"s": 1, "k": 2}.keys()), ["s", "k"]),
    "drop a list": (lambda d: d.drop(["k", "s"]), ["x"]),
    "drop a list and more": (lambda d: d.drop(["k"], "s"), ["x"]),
    "drop nothing": (lambda d: d.drop([]), ["k", "x", "s"]),
    "add no columns": (lambda d: d.with_columns(), ["k", "x", "s"]),
    "rename nothing": (lambda d: d.rename({}), ["k", "x", "s"]),
    "sort a tuple": (lambda d: d.sort(("k", "x"), descending=(True, False)), ["k", "x", "s"]),
    "distinct of a list": (lambda d: d.distinct(["k"]), ["k", "x", "s"]),
    "union of nothing": (lambda d: d.union(), ["k", "x", "s"]),
    "join on a tuple": (lambda d: d.join(d, on=("k", "x")), ["k", "x", "s", "s_right"]),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken(name: str, dataset: xs.Dataset) -> None:
    call, columns = TAKEN[name]
    made = call(dataset)
    assert isinstance(made, xs.Dataset)
    assert made.schema.names == columns


def test_selected_and_dropped_lists_have_their_values(
    dataset: xs.Dataset, engine: LocalEngine
) -> None:
    del engine
    assert dataset.select(["x", "k"]).to_arrow().equals(TABLE.select(["x", "k"]))
    assert dataset.drop(["k", "x"]).to_arrow().equals(TABLE.drop_columns(["k", "x"]))


def test_memory_of_tasks_and_paths_of_engines_as_text_and_paths(
    engine: LocalEngine, tmp_path: Path
) -> None:
    def one() -> int:
        return 1

    assert xs.get(xs.remote(one, memory="1MB", executor="thread").remote()) == 1
    assert xs.remote(memory="1MiB")(one) is not None
    spill = tmp_path / "one"
    spill.mkdir()
    for given in (spill, [spill], str(spill)):
        started = xs.init(memory_limit=engine.memory_limit, spill_dirs=given)
        assert list(started.spill_dirs) == [str(spill)]


# --- what is refused ---------------------------------------------------------------------------------------------

OPTIONS: dict[str, tuple[Call, str]] = {
    "select an expression": (lambda d: d.select(pc.field("k")), "select names <pyarrow.*>; it mu"),
    "select a number": (lambda d: d.select(1), "select names 1; it must be the name of a column"),
    "select a dictionary": (lambda d: d.select({"z": "k"}), "select names {'z': 'k'}; it must be"),
    "select nothing named": (lambda d: d.select(None), "select names None"),
    "select a number as SQL": (lambda d: d.select(z=1), "an expression is 1; write SQL as text"),
    "drop a number": (lambda d: d.drop(1), "drop names 1"),
    "drop a set": (lambda d: d.drop({"k", "x"}), "drop names {'.', '.'}; it must be"),
    "sort by a set": (lambda d: d.sort({"k", "x"}), "by names {'.', '.'}; it must be the name"),
    "sort by a dictionary": (lambda d: d.sort({"k": True}), "by names {'k': True}; it must be"),
    "join on a dictionary": (lambda d: d.join(d, on={"k": "x"}), "on names {'k': 'x'}; it must be"),
    "rename by a name": (lambda d: d.rename("k"), "rename got 'k'; give a dictionary of old names"),
    "rename by a list": (
        lambda d: d.rename(["a", "b", "c"]),
        r"rename got \['a', 'b', 'c'\]; give",
    ),
    "rename by a function": (lambda d: d.rename(str.upper), "rename got <.*>; give a dictionary"),
    "rename to a number": (lambda d: d.rename({"k": 1}), "rename has the new name 1; it must be t"),
    "a number as suffix": (lambda d: d.join(d, on="k", suffix=1), "suffix is 1; it must be text"),
    "suffixes of pandas": (
        lambda d: d.join(d, "k", suffix=("_x", "_y")),
        r"suffix is \('_x', '_y'",
    ),
    "union of a list": (
        lambda d: d.union([d, d]),
        r"before a list of datasets, union\(\*datasets\)",
    ),
    "filter by pyarrow": (
        lambda d: d.filter(pc.field("k") > 1),
        "an expression is <pyarrow.*>; wr",
    ),
    "filter by a function": (
        lambda d: d.filter(lambda row: row),
        "an expression is <function.*>; w",
    ),
    "filter by a list": (lambda d: d.filter(["k > 1"]), r"an expression is \['k > 1'\]; write SQL"),
    "filter by nothing": (lambda d: d.filter(None), "an expression is None"),
    "filter by a value": (lambda d: d.filter(True), "an expression is True"),
    "columns of numbers": (lambda d: d.with_columns(z=1), "an expression is 1; write SQL as text"),
    "columns of nothing": (lambda d: d.with_columns(z=None), "an expression is None"),
    "columns of lists": (lambda d: d.with_columns(z=[1]), r"an expression is \[1\]"),
    "a limit of text": (lambda d: d.limit("10"), "limit is '10'; it must be a whole number"),
    "a limit beyond all": (lambda d: d.limit(10**30), r"limit is 10+; it must be at most 2\*\*63"),
    "a limit without end": (lambda d: d.limit(float("inf")), "limit is inf; it must be a whole"),
    "a sample of text": (lambda d: d.sample("3"), "n is '3'; it must be a whole number"),
    "a sample of all and more": (lambda d: d.sample(fraction=2), "fraction is 2; it must be above"),
    "a seed of text": (lambda d: d.random_shuffle(seed="7"), "seed is '7'; choose a whole number"),
    "a seed below zero": (lambda d: d.random_shuffle(seed=-1), "seed is -1; choose a whole number"),
    "a seed of a stream": (
        lambda d: d.group_by("k").count().stream(seed=[1]),  # type: ignore[arg-type]
        r"seed is \[1\]; choose a whole number",
    ),
    "no partitions": (lambda d: d.repartition(0), "0 partitions; choose between 1 and"),
    "partitions by halves": (
        lambda d: d.repartition(2.5),
        "num_partitions is 2.5; it must be a wh",
    ),
    "keys that are names": (
        lambda d: d.sort_keys(["k"]),
        r"keys is \['k'\]; give a list of SortKey",
    ),
    "keys that are one": (
        lambda d: d.sort_keys("k"),
        "keys is 'k'; give a list of SortKey objects",
    ),
    "no keys": (lambda d: d.sort_keys([]), r"keys is \[\]; give a list of SortKey objects, one at"),
    "no list of keys": (lambda d: d.sort_keys(None), "keys is None"),
    "no function of groups": (
        lambda d: d.group_by("k").map_groups("x"),
        "map_groups needs a function, and got 'x'",
    ),
    "a table as schema": (
        lambda d: d.map_batches(lambda batch: batch, schema=TABLE),
        "schema is pyarrow.Table k: int64 .*…; give a pyarrow.Schema",
    ),
    "formats": (lambda _: WriteOptions(["parquet"]), r"unknown format \['parquet'\]"),  # type: ignore[arg-type]
    "a dataset of a table": (
        lambda _: xs.Dataset(TABLE),
        "a dataset is made by read_parquet and its siblings, not of pyarrow.Table",
    ),
    "a delimiter of numbers": (
        lambda _: Untyped.read_csv("x", delimiter=1),
        "delimiter is 1; give",
    ),
    "the header of pandas": (lambda _: Untyped.read_csv("x", header=0), "header is 0; write True"),
    "no header of pandas": (
        lambda _: Untyped.read_csv("x", header=None),
        "header is None; write T",
    ),
    "a schema by number": (
        lambda _: Untyped.read_csv("x", schema={1: "int64"}),
        "schema names 1; it must be the name of a column",
    ),
    "a record size of text": (
        lambda _: Untyped.read_records("x", record_size="100"),
        "record_size is '100'; it must be a number of bytes from 1 on",
    ),
    "no record size": (
        lambda _: Untyped.read_records("x", record_size=None),
        "record_size is None",
    ),
    "a key of halves": (
        lambda _: Untyped.read_records("x", key_size=1.5),
        "key_size is 1.5; it mus",
    ),
    "a key of nothing": (lambda _: xs.read_records("x", key_size=0), "key_size is 0; it must be a"),
    "no function": (lambda _: Untyped.remote(1), "remote needs a function or a class, and got 1"),
    "CPUs of text": (lambda _: xs.remote(print, num_cpus="2"), "num_cpus is '2'; it must be a num"),
    "memory that is no size": (lambda _: xs.remote(print, memory="much"), "'much' is not a size"),
    "memory in a list": (
        lambda _: xs.remote(print, memory=[1]),
        r"memory is \[1\]; it must be a n",
    ),
    "retries of text": (lambda _: xs.remote(print, max_retries="2"), "max_retries is '2'; it must"),
    "retries by halves": (
        lambda _: xs.remote(print, max_retries=1.5),
        "max_retries is 1.5; it must",
    ),
    "restarts of text": (
        lambda _: xs.remote(dict, max_restarts="2"),
        "max_restarts is '2'; it must",
    ),
    "resources in a list": (
        lambda _: xs.remote(print, resources=["disk"]),
        r"resources is \['disk'\]; give a dictionary",
    ),
    "resources of text": (
        lambda _: TaskOptions(resources={"disk": "1"}),  # type: ignore[dict-item]
        r"resources\['disk'\] is '1'; it must be a number",
    ),
    "an executor in a list": (lambda _: xs.remote(print, executor=["thread"]), "unknown executor"),
    "a map that is none": (
        lambda _: Untyped.shuffle([1], map=1, reduce=print, num_partitions=2),
        "map is 1; it must be a function",
    ),
    "a reduce that is none": (
        lambda _: Untyped.shuffle([1], map=print, reduce="sum", num_partitions=2),
        "reduce is 'sum'; it must be a function",
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str, dataset: xs.Dataset) -> None:
    call, message = OPTIONS[name]
    with pytest.raises(OptionsError, match=message) as caught:
        call(dataset)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


SCHEMAS: dict[str, tuple[Call, str]] = {
    "an empty condition": (
        lambda d: d.filter(""),
        "cannot read expression '': it is empty; write SQL",
    ),
    "a blank expression": (
        lambda d: d.with_columns(z=" \n"),
        "cannot read expression ' .n': it is empty",
    ),
    "groups of what is not there": (lambda d: d.group_by("nope"), "there is no column 'nope'"),
    "a function without columns": (
        lambda d: d.map_batches(lambda _: {}),
        "map_batches would leave no column, and so no rows; return at least one",
    ),
    "a function with columns twice": (
        lambda d: d.map_batches(lambda b: pa.Table.from_arrays([b["k"], b["k"]], ["a", "a"])),
        "map_batches would give two columns the name 'a'; names must differ",
    ),
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas(name: str, dataset: xs.Dataset) -> None:
    call, message = SCHEMAS[name]
    with pytest.raises(SchemaError, match=message):
        call(dataset)


def test_a_format_is_no_options(dataset: xs.Dataset, engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    with pytest.raises(OptionsError, match="options is 'csv'; give WriteOptions, or call write_p"):
        dataset.write(tmp_path / "out", "csv")  # type: ignore[arg-type]
    with pytest.raises(OptionsError, match="options is 'csv'; give WriteOptions"):
        dataset.explain(options="csv")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_records_are_not_sorted_largest_first_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "in.bin").write_bytes(b"x" * 300)
    records = xs.read_records(tmp_path / "in.bin")
    with pytest.raises(OptionsError, match="are sorted smallest first; leave out descending="):
        records.sort(descending=True)


@pytest.mark.parametrize(
    ("path", "message"), [("", "path is empty; name a file"), ("a\0b", "has a character 0")]
)
def test_paths_that_name_nothing(
    path: str, message: str, dataset: xs.Dataset, engine: LocalEngine
) -> None:
    del engine
    with pytest.raises(InputError, match=message):
        xs.read_parquet([path])
    # An empty path is the working directory, which overwriting would replace.
    with pytest.raises(OutputError, match=message):
        dataset.write_parquet(path, overwrite=True)


def test_open_files_are_no_paths(dataset: xs.Dataset) -> None:
    with (
        open(dataset.files[0], "rb") as file,
        pytest.raises(InputError, match=r"path is <_io\.Buff"),
    ):
        Untyped.read_parquet(file)
    with pytest.raises(InputError, match=r"path is pyarrow\.Table k: int64 .*…; it must be text"):
        Untyped.read_parquet(TABLE)


REFERENCES: dict[str, tuple[Callable[[Ref], object], str]] = {
    "get a value": (lambda _: Untyped.get(1), "get takes a list of references, and got 1$"),
    "get values": (lambda ref: Untyped.get([ref, None]), r"get takes references, .* and got None$"),
    "get text": (lambda _: Untyped.get("x"), "get takes references, .*, and got 'x'"),
    "wait for one": (Untyped.wait, "wait takes a list of references, and got Ref"),
    "wait for values": (lambda _: Untyped.wait([1]), "wait takes references, .*, and got 1$"),
    "wait for text": (
        lambda ref: Untyped.wait([ref], num_ready="1"),
        "num_ready is '1' for 1 refe",
    ),
    "cancel a value": (lambda _: Untyped.cancel(1), "cancel takes references, .*, and got 1$"),
    "kill a reference": (Untyped.kill, r"kill takes an actor, .* cancel\(\)$"),
    "locate a list": (lambda ref: Untyped.locate([ref]), r"locate takes references, .* got \[Ref"),
    "sizes of one": (Untyped.slice_bytes, "slice_bytes takes a list of reference"),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_references(name: str, engine: LocalEngine) -> None:
    del engine
    call, message = REFERENCES[name]
    with pytest.raises(OptionsError, match=message):
        call(xs.put(1))


ENGINES: dict[str, tuple[dict[str, Any], str]] = {
    "a number": ({"engine": 1}, "engine is 1; give 'local' or 'ray', or an engine instance"),
    "a list": ({"engine": ["local"]}, r"engine is \['local'\]; give 'local' or 'ray'"),
    "CPUs of text": ({"num_cpus": "2"}, "num_cpus is '2'; it must be a whole number"),
    "CPUs by halves": ({"num_cpus": 1.5}, "num_cpus is 1.5; it must be a whole number"),
    "a number as directory": ({"spill_dirs": 1}, "spill_dirs is 1; give a path, or a list of path"),
    "numbers as directories": ({"spill_dirs": [1]}, r"spill_dirs is \[1\]; give a path, or a list"),
    "stalls of text": ({"stall_seconds": "60"}, "stall_seconds is '60'; it must be above 0"),
}


@pytest.mark.parametrize("name", ENGINES)
def test_engines(name: str) -> None:
    options, message = ENGINES[name]
    with pytest.raises(OptionsError, match=message):
        xs.init(**options)


def test_a_wrong_engine_leaves_the_one_before(engine: LocalEngine) -> None:
    for wrong in (1, None):
        with pytest.raises(OptionsError, match="give 'local' or 'ray'"):
            Untyped.init(wrong)
    assert xs.futures.current_engine() is engine


def test_keys_as_objects_still_sort(dataset: xs.Dataset, engine: LocalEngine) -> None:
    del engine
    made = dataset.sort_keys(iter([SortKey("k", descending=True), SortKey("x")]), num_partitions=2)
    assert made.to_arrow()["s"].to_pylist() == ["a", "c", "b", "d"]
