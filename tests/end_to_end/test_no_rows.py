"""Inputs without rows: every operator gives what DuckDB gives, with the schema that it has said."""

from __future__ import annotations

import itertools

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.testing.meeting import poll
from tests.support.generated import generated, query
from tests.support.matrix import (
    OPERATORS,
    PARTITIONS,
    STRATEGIES,
    Tables,
)
from tests.support.oracle import write_files

pytestmark = pytest.mark.shares_engine

#: Which sides have no rows.
EMPTY = {"both": (True, True), "left": (True, False), "right": (False, True)}
IN_TURN = dict(zip(OPERATORS, itertools.cycle(STRATEGIES), strict=False))
#: Those that read both sides.
OF_TWO = [name for name in OPERATORS if name.startswith(("join", "pipeline"))]


@pytest.fixture(scope="module")
def all_tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tables]:
    """Tables of which one or both have no rows, in two files each."""
    left = generated(300, 20, seed=1).drop_columns(["nested"])
    right = query("select k + 3 as k, id as other, text from t", t=generated(60, 20, seed=2))
    made = {}
    for which, are_empty in EMPTY.items():
        folder = tmp_path_factory.mktemp(which)
        sides = [
            table.schema.empty_table() if is_empty else table
            for table, is_empty in zip((left, right), are_empty, strict=True)
        ]
        for name, table in zip(("left", "right"), sides, strict=True):
            write_files(folder / name, table, 2, rows_per_group=50)
        made[which] = Tables(*sides, folder)
    return made


@pytest.mark.parametrize(
    ("which", "name"),
    [*(("both", name) for name in OPERATORS), *itertools.product(("left", "right"), OF_TWO)],
)
def test_every_operator(
    which: str, name: str, all_tables: dict[str, Tables], matrix_engine: LocalEngine
) -> None:
    tables = all_tables[which]
    actual = tables.result(name, IN_TURN[name])
    tables.check(name, actual)
    left, right = (xs.read_parquet(tables.folder / side) for side in ("left", "right"))
    made = OPERATORS[name].run(
        left, right, strategy=STRATEGIES[IN_TURN[name]], num_partitions=PARTITIONS
    )
    assert actual.schema.equals(made.schema)
    del actual
    poll(lambda: matrix_engine.stats()["num_objects"] == 0)
