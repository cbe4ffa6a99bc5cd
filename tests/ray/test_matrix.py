"""Every strategy with every operator on Ray: the rows of the local engine, in its order.

Further variants of these run on Ray in ``test_conformance``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import exoshuffle as xs
from tests.support.matrix import OPERATORS, Tables, cut_small, make_tables
from tests.support.oracle import assert_same

STRATEGIES = ["simple", "push", "push-keeping", "pre_shuffle_merge", "streaming", "own"]


@pytest.fixture(scope="module", autouse=True)
def _small_tasks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        yield


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return make_tables(tmp_path_factory.mktemp("matrix"))


@pytest.fixture(scope="module")
def references(tables: Tables) -> dict[str, pa.Table]:
    """The result of the local engine for each operator, which is that of DuckDB."""
    xs.init(num_cpus=2, memory_limit="2GB")
    made = {name: tables.result(name, "simple") for name in OPERATORS}
    xs.shutdown()
    for name, table in made.items():
        tables.check(name, table)
    return made


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", OPERATORS)
def test_rows_are_those_of_the_local_engine(
    references: dict[str, pa.Table], name: str, strategy: str, tables: Tables
) -> None:
    assert_same(tables.result(name, strategy), references[name])
