"""A seed that nobody gave is fresh, is told, and stays the same for one dataset; one that was given is kept."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exoshuffle.dataset.dataset import Dataset
from exoshuffle.errors import OptionsError

pytestmark = [pytest.mark.usefixtures("matrix_engine"), pytest.mark.shares_engine]

TABLE = pa.table({"id": range(2000), "k": [number % 7 for number in range(2000)]})
OPERATIONS: dict[str, Callable[..., Dataset]] = {
    "shuffled": lambda rows, **seed: rows.random_shuffle(**seed),
    "shuffled behind a step": lambda rows, **seed: rows.filter("id > 5").random_shuffle(**seed),
    "within windows": lambda rows, **seed: rows.random_shuffle(window=300, **seed),
    "some rows": lambda rows, **seed: rows.sample(500, **seed),
    "a share": lambda rows, **seed: rows.sample(fraction=0.5, **seed).sort("id"),
}


def ids(dataset: Dataset) -> list[int]:
    return dataset.to_arrow()["id"].to_pylist()


@pytest.mark.parametrize("name", OPERATIONS)
def test_fresh_and_told_and_kept(name: str, dataset: Dataset) -> None:
    made = OPERATIONS[name]
    one, other = made(dataset), made(dataset)
    (seed,) = one.seeds
    found = ids(one)
    assert ids(one) == found
    assert ids(other) != found
    assert ids(made(dataset, seed=seed)) == found
    assert ids(made(dataset, seed=None)) != found


@pytest.mark.parametrize("name", OPERATIONS)
def test_bills_and_results_tell_it(name: str, dataset: Dataset, tmp_path: Path) -> None:
    rows = OPERATIONS[name](dataset)
    bills = [rows.explain(), rows.explain(results="batches")]
    result = rows.write_parquet(tmp_path / "out")
    assert [*(bill.seeds for bill in bills), result.seeds] == [rows.seeds] * 3
    assert str(bills[0]).splitlines()[-1].split() == ["seed", str(rows.seeds[0])]
    assert pq.read_table(tmp_path / "out")["id"].to_pylist() == ids(rows)


def test_all_seeds_of_a_tree_in_the_order_of_its_operations(dataset: Dataset) -> None:
    both = dataset.sample(fraction=0.5, seed=9).union(dataset.random_shuffle(3))
    assert both.sample(100, seed=2).random_shuffle(9).seeds == (9, 3, 2)
    assert dataset.sort("id").seeds == ()
    fresh = dataset.sample(fraction=0.5).sample(fraction=0.5)
    assert len(fresh.seeds) == 2


def test_without_a_random_operation_there_is_none(dataset: Dataset, tmp_path: Path) -> None:
    assert "seed" not in str(dataset.sort("id").explain())
    assert dataset.sort("id").write_parquet(tmp_path / "out").seeds == ()


def test_partial_results_tell_it(dataset: Dataset) -> None:
    groups = dataset.group_by("k").agg(n="count")
    seeds = [partial.seed for partial in (*groups.stream(), *groups.stream())]
    assert len(set(seeds)) == 2
    assert [partial.seed for partial in groups.stream(seed=5)] == [5] * (len(seeds) // 2)


def test_a_fresh_seed_survives_readers_of_json_that_know_doubles_only(dataset: Dataset) -> None:
    seeds = [dataset.random_shuffle().seeds[0] for _ in range(50)]
    assert [int(float(seed)) for seed in seeds] == seeds
    assert max(seeds) > 2**48


def test_it_does_not_come_from_the_random_numbers_of_the_program(dataset: Dataset) -> None:
    """Programs seed those, and their copies would all get the same order."""
    random.seed(1)
    one = dataset.random_shuffle().seeds
    random.seed(1)
    assert dataset.random_shuffle().seeds != one


def test_what_is_no_seed_is_refused_where_it_is_given(dataset: Dataset) -> None:
    for seed in (True, -1, 2**64, 1.5, "7"):
        for made in OPERATIONS.values():
            with pytest.raises(OptionsError, match=r"seed is .*leave it out for a fresh one"):
                made(dataset, seed=seed)
