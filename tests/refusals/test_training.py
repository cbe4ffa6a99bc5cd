"""Calls of a loader that mean nothing, or cannot work: one sentence each, when the call is made.

A new refusal of the constructor or a method goes into ``CALLS``, one of a state into ``STATES``.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError, SchemaError

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name in "ab":
        pq.write_table(pa.table({"x": range(50)}), folder / f"{name}.parquet")
    return folder


def loader(files: Path, **options: Any) -> xs.DataLoader:
    return xs.DataLoader(
        xs.read_parquet(files), **{"batch_size": 10, "format": "arrow", "seed": 7} | options
    )


def mixed(files: Path, weights: Any = None, stop: str = "first") -> object:
    return xs.mix([xs.read_parquet(files), xs.read_parquet(files)], weights, stop=stop)


#: Name: (the call, words of its ``OptionsError``).
CALLS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no dataset": (
        lambda f: xs.DataLoader(f, batch_size=1),  # type: ignore[arg-type]
        "DataLoader got PosixPath.*; give a dataset",
    ),
    "worker processes": (
        lambda f: loader(f, num_workers=4),
        "no argument 'num_workers'; the engine",
    ),
    "a function of batches": (
        lambda f: loader(f, collate_fn=dict),
        "'collate_fn'; a batch is a dict",
    ),
    "a world of torch's": (lambda f: loader(f, world_size=2), "'world_size'; write world=$"),
    "pinned memory": (
        lambda f: loader(f, pin_memory=True),
        r"write batch\[\"x\"\]\.pin_memory\(\)",
    ),
    "a sampler": (lambda f: loader(f, sampler=[1]), "'sampler'; write shuffle=, and mix"),
    "no rows in a batch": (
        lambda f: loader(f, batch_size=0),
        "batch_size is 0; it must be a whole number from 1 on: the rows of a step on all ranks",
    ),
    "a batch of text": (lambda f: loader(f, batch_size="10"), "batch_size is '10'; it must be a w"),
    "a batch of truth": (lambda f: loader(f, batch_size=True), "batch_size is True; it must be a"),
    "a rank beyond the world": (
        lambda f: loader(f, rank=4, world=4),
        "rank is 4 and world is 4; ranks are whole numbers from 0 to 3",
    ),
    "a rank below zero": (lambda f: loader(f, rank=-1), "rank is -1 and world is 1; ranks are"),
    "no world": (lambda f: loader(f, world=0), "world is 0; it must be a number of processes"),
    "batches smaller than the world": (
        lambda f: loader(f, world=11),
        "batch_size is 10 and world is 11, so some ranks would get no row; batch_size",
    ),
    "several ranks without a seed": (
        lambda f: loader(f, world=2, seed=None),
        "world is 2 and no seed is given, so each rank would choose another order; give all ranks",
    ),
    "a seed of text": (lambda f: loader(f, seed="x"), "seed is 'x'; choose a whole number"),
    "a shuffle that is a number": (
        lambda f: loader(f, shuffle=64),
        "shuffle is 64; write True, False, or the size of a window such as '64MB'",
    ),
    "a shuffle that is no size": (lambda f: loader(f, shuffle="much"), "'much' is not a size"),
    "a window of nothing": (lambda f: loader(f, shuffle="0B"), "window is '0B'; it must be"),
    "an unknown format": (
        lambda f: loader(f, format="pandas"),
        'format is \'pandas\'; write one of "arrow", "numpy", "torch", "jax"',
    ),
    "drop_last of text": (
        lambda f: loader(f, drop_last="no"),
        "drop_last is 'no'; write True or F",
    ),
    "rows in memory": (
        lambda _: xs.DataLoader(xs.from_arrow(pa.table({"x": [1]})), batch_size=1, format="arrow"),
        "DataLoader got rows that are not read from files.*; write them to files, and read these",
    ),
    "rows of a shuffle": (
        lambda f: xs.DataLoader(xs.read_parquet(f).sort("x"), batch_size=1, format="arrow"),
        "DataLoader got rows that are not read from files",
    ),
    "rows of a function": (
        lambda f: xs.DataLoader(
            xs.read_parquet(f).map_batches(lambda t: t), batch_size=1, format="arrow"
        ),
        r"DataLoader\(shuffle=True\) got rows that a function, explode or unpi.*; call it with each",
    ),
    "ranks of a rank": (
        lambda f: loader(f, rank=1, world=2).split(2),
        "split came to a loader that is rank 1 of 2; make it without rank= and world=",
    ),
    "more ranks than rows in a batch": (
        lambda f: loader(f).split(11),
        "batch_size is 10 and world is 11, so some ranks would get no row",
    ),
    "no ranks": (lambda f: loader(f).split(0), "world is 0; it must be a number of processes"),
    "a door that is a number": (
        lambda f: loader(f, door=7),
        "door is 7; give the path of a folder for the ranks of this machine",
    ),
    "a door that is a file": (
        lambda f: loader(f, door="/dev/null"),
        "door is '/dev/null', which is no folder that only this user may use",
    ),
    "a door for everybody": (
        lambda f: loader(f, door="/tmp"),  # noqa: S108  it is refused
        r"door is '/tmp', which is no folder that only this user may use \(mode 0700\); give one",
    ),
    "epochs of text": (
        lambda f: loader(f).epochs("3"),
        "epochs got '3'; it must be a whole number",
    ),  # type: ignore[arg-type]
    "fewer than no epochs": (lambda f: loader(f).epochs(-1), "epochs got -1; it must be a whole"),
    "a mixture of one dataset": (
        lambda f: xs.mix(xs.read_parquet(f)),  # type: ignore[arg-type]
        "mix takes a list of datasets, and got Dataset",
    ),
    "a mixture of nothing": (lambda _: xs.mix([]), r"mix takes a list of datasets, and got \[\]"),
    "a mixture of files": (lambda f: xs.mix([f]), "mix takes a list of datasets, and got"),  # type: ignore[list-item]
    "weights of text": (
        lambda f: mixed(f, "12"),
        "weights is '12'; give a list of 2 numbers above 0",
    ),
    "too few weights": (
        lambda f: mixed(f, [1]),
        r"weights is \[1\]; give a list of 2 numbers above",
    ),
    "too many weights": (
        lambda f: mixed(f, [1, 1, 1]),
        r"weights is \[1, 1, 1\]; give a list of 2",
    ),
    "a weight below zero": (lambda f: mixed(f, [-1, 2]), r"weights is \[-1, 2\]; give a list of 2"),
    "a weight of zero": (lambda f: mixed(f, [0, 2]), r"weights is \[0, 2\]; give a list of 2"),
    "a weight that is no number": (
        lambda f: mixed(f, [1, float("nan")]),
        r"weights is \[1, nan\]; give a list of 2 numbers above 0, one for each dataset",
    ),
    "a weight without end": (lambda f: mixed(f, [1, float("inf")]), r"weights is \[1, inf\]; give"),
    "a weight of truth": (lambda f: mixed(f, [True, 1]), r"weights is \[True, 1\]; give a list of"),
    "a weight of almost nothing": (
        lambda f: mixed(f, [1, 1e-9]),
        "weights of a mixture have 1e-09 of 1 in all, and one of 1,048,576 is the least; concat",
    ),
    "a mixture that stops nowhere": (
        lambda f: mixed(f, stop="all_exhausted"),
        'stop is \'all_exhausted\'; write "first", "all" or "once"',
    ),
    "a mixture with a filter of all rows": (
        lambda f: xs.DataLoader(
            xs.mix([xs.read_parquet(f), xs.read_parquet(f).filter("x < 0")]),
            batch_size=1,
            format="arrow",
        ),
        "dataset 1 of a mixture has no row; loosen its filters, or leave it out",
    ),
    "a mixture of rows in memory": (
        lambda f: xs.DataLoader(
            xs.mix([xs.read_parquet(f), xs.from_pydict({"x": [1]})]), batch_size=1, format="arrow"
        ),
        "DataLoader got rows that are not read from files",
    ),
    "rows of no step": (
        lambda f: loader(f).rows_of(0, 10),
        "step is 10; steps of an epoch are from 0 to 9",
    ),
    "rows of no epoch": (lambda f: loader(f).rows_of(-1, 0), "epoch is -1; it must be a whole num"),
    "rows of a filter": (
        lambda f: xs.DataLoader(
            xs.read_parquet(f).filter("x > 3"), batch_size=1, format="arrow"
        ).rows_of(0, 0),
        "rows_of needs files that tell their numbers of rows, and no filter",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str, files: Path) -> None:
    call, words = CALLS[name]
    with pytest.raises(OptionsError, match=words):
        call(files)


#: Name: (what is changed in a state, words of the ``OptionsError``).
STATES: dict[str, tuple[dict[str, Any], str]] = {
    "another version": (
        {"version": 2},
        "state has version 2, and this loader has 1; go on with the release that saved it",
    ),
    "another seed": ({"seed": 8}, "state has seed 8, and this loader has 7; make the loader with"),
    "another order": (
        {"shuffle": "64000000B"},
        "state has shuffle '64000000B', and this loader has True; make the loader with that",
    ),
    "another number of files": (
        {"files": 3},
        "state has files 3, and this loader has 2; give the dataset of the same files",
    ),
    "another number of rows": (
        {"rows": 99},
        "state has rows 99, and this loader has 100; give the",
    ),
    "other files": (
        {"data": "0"},
        "state is of other rows: the numbers of files and rows agree; names or sizes of files",
    ),
    "no epoch": ({"epoch": None}, "state has epoch None; give what state_dict"),
    "a row below zero": ({"row": -1}, "state has row -1; give what state_dict"),
    "a row behind the last": ({"row": 101}, "state has row 101 of 100; give what state_dict"),
}


@pytest.mark.parametrize("name", STATES)
def test_states(name: str, files: Path) -> None:
    changes, words = STATES[name]
    made = loader(files)
    with pytest.raises(OptionsError, match=words):
        made.load_state_dict(made.state_dict() | changes)


def test_a_state_that_is_none(files: Path) -> None:
    with pytest.raises(OptionsError, match="state is 7; give what state_dict"):
        loader(files).load_state_dict(7)  # type: ignore[arg-type]


def test_files_of_the_same_sizes_with_other_names_or_filters(files: Path, tmp_path: Path) -> None:
    """The folder may be another one: files are copied elsewhere."""
    for name in "ab":
        (tmp_path / f"{name}.parquet").write_bytes((files / f"{name}.parquet").read_bytes())
    state = loader(files).state_dict()
    loader(tmp_path).load_state_dict(state)
    (tmp_path / "b.parquet").rename(tmp_path / "c.parquet")
    with pytest.raises(OptionsError, match="state is of other rows"):
        loader(tmp_path).load_state_dict(state)
    few, fewer = (
        xs.DataLoader(
            xs.read_parquet(files).filter(f"x < {n}"), batch_size=1, seed=7, format="arrow"
        )
        for n in (9, 8)
    )
    with pytest.raises(OptionsError, match="state is of other rows"):
        fewer.load_state_dict(few.state_dict())


def test_a_seed_is_taken_from_the_state_where_none_was_given(files: Path) -> None:
    first, second = loader(files, seed=None), loader(files, seed=None)
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()


@pytest.mark.parametrize("begin", [iter, lambda made: made.epochs(1)])
def test_a_state_after_the_beginning(begin: Callable[[xs.DataLoader], object], files: Path) -> None:
    made = loader(files)
    state = made.state_dict()
    begin(made)
    with pytest.raises(OptionsError, match="load_state_dict came after the iteration began; load"):
        made.load_state_dict(state)


@pytest.mark.parametrize("rows", [pa.table({"x": pa.array([], pa.int64())})])
def test_files_without_rows(rows: pa.Table, tmp_path: Path) -> None:
    pq.write_table(rows, tmp_path / "none.parquet")
    with pytest.raises(
        OptionsError, match="DataLoader got 1 file without any row; give files with"
    ):
        loader(tmp_path)
    with pytest.raises(OptionsError, match="dataset 0 of a mixture has no row; leave it out"):
        mixed(tmp_path)


def test_a_mixture_of_other_columns(files: Path, tmp_path: Path) -> None:
    for name, other in {
        "a type": pa.table({"x": pa.array([1.0])}),
        "a name": pa.table({"y": [1]}),
        "more columns": pa.table({"x": [1], "y": [1]}),
    }.items():
        pq.write_table(other, tmp_path / f"{name}.parquet")
        with pytest.raises(
            SchemaError, match=r"mix got datasets with other columns: \([xy]: .*, and"
        ):
            xs.mix([xs.read_parquet(files), xs.read_parquet(tmp_path / f"{name}.parquet")])


def test_a_state_of_other_weights(files: Path) -> None:
    def made(*weights: float, stop: str = "once") -> xs.DataLoader:
        return xs.DataLoader(mixed(files, weights, stop), batch_size=10, seed=7, format="arrow")  # type: ignore[arg-type]

    state = made(1, 2).state_dict()
    made(1, 2).load_state_dict(state)
    with pytest.raises(OptionsError, match="agree; names or sizes of files, filters, or weights"):
        made(2, 1).load_state_dict(state)
    with pytest.raises(
        OptionsError, match=r"state has rows 200, and .* 150; .* the same weights and"
    ):
        made(1, 2, stop="first").load_state_dict(state)


def test_worker_processes_of_torch(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = loader(files)
    module = types.ModuleType("torch.utils.data")
    module.get_worker_info = lambda: types.SimpleNamespace(id=3, num_workers=8)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.data", module)
    for call in (lambda: loader(files), lambda: iter(made), lambda: made.epochs(1)):
        with pytest.raises(
            OptionsError, match="this is worker 3 of 8 of torch's DataLoader, and each"
        ):
            call()


def test_the_batch_size_may_come_second_as_in_torch(files: Path) -> None:
    made = xs.DataLoader(xs.read_parquet(files), 64, seed=7, format="arrow")
    assert [batch.num_rows for batch in made] == [64, 36]
    assert repr(made) == (
        "DataLoader(batch_size=64, shuffle=True, seed=7, format='arrow', rank=0, world=1)"
    )
    with pytest.raises(
        TypeError, match=r"DataLoader\(\) got an unexpected keyword argument 'nope'"
    ):
        loader(files, nope=1)


def test_a_mixture_says_what_it_is(files: Path) -> None:
    assert repr(mixed(files)) == "Mix(2 datasets, stop='first')"
    assert repr(mixed(files, [0.5, 2])) == "Mix(2 datasets, weights=[0.5, 2.0], stop='first')"
