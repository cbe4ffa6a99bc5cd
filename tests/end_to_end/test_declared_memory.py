"""Memory that functions declare with ``memory=`` is in the bill, wherever they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyarrow import parquet

import exoshuffle as xs
from exoshuffle.engines.local.memory import limits

pytestmark = pytest.mark.shares_engine

LITTLE, MUCH = 1_000_000, 501_000_000
NUM_CPUS = 2
Change = Callable[[xs.Dataset], xs.Dataset]
USES: dict[str, Callable[[xs.Dataset, Change], xs.Dataset]] = {
    "a scan": lambda rows, change: change(rows),
    "before a limit": lambda rows, change: change(rows).limit(10),
    "behind a limit": lambda rows, change: change(rows.limit(10)),
    "before windows": lambda rows, change: change(rows).random_shuffle(1, window="1MB"),
    "behind windows": lambda rows, change: change(rows.random_shuffle(1, window="1MB")),
    "before a sort": lambda rows, change: change(rows).sort("n"),
    "behind a sort": lambda rows, change: change(rows.sort("n")),
    "behind a cross join": lambda rows, change: change(rows.join(rows, how="cross")),
    "before a cross join": lambda rows, change: rows.join(change(rows), how="cross"),
    "behind a join of a small side": lambda rows, change: change(rows.join(rows.limit(10), on="n")),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xs.Dataset]:
    """20 MB: no side of a join that is given to all."""
    folder = tmp_path_factory.mktemp("declared")
    for number in range(4):
        numbers = pa.array(range(number, 2_500_000, 4))
        parquet.write_table(
            pa.table({"n": numbers}), folder / f"{number}.parquet", row_group_size=50_000
        )
    xs.init(memory_limit=limits.limit_for(1_700_000_000), num_cpus=NUM_CPUS, spill_dirs=str(folder))
    yield xs.read_parquet(folder)
    xs.shutdown()


def same(table: pa.Table) -> pa.Table:
    return table


@pytest.mark.parametrize("use", USES)
def test_what_is_declared_is_in_the_bill(use: str, rows: xs.Dataset) -> None:
    def billed(memory: int) -> int:
        made = USES[use](rows, lambda d: d.map_batches(same, schema=d.schema, memory=memory))
        return made.explain().memory_bytes

    grown = billed(MUCH) - billed(LITTLE)
    # The pairs of a cross join take more than little, when its sides have been read.
    assert 0.7 < grown / (NUM_CPUS * (MUCH - LITTLE)) <= 1
