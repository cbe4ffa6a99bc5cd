"""Thousands of columns of numbers: their sizes are arithmetic, and their expressions are made once."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from exoshuffle.operators.batches import sizes_of
from exoshuffle.operators.sql import parsing
from exoshuffle.operators.steps.columns import WithColumns

COLUMNS = 300


def wide(rows: int) -> pa.RecordBatch:
    """Returns so many rows of as many numbers as there are columns."""
    return pa.record_batch([pa.array(range(rows))] * COLUMNS, [f"c{i}" for i in range(COLUMNS)])


def test_the_bytes_of_numbers_follow_from_their_rows() -> None:
    """Arrow is not asked, which would look at each column; a slice counts its own rows."""
    batch = wide(1000).slice(100, 400)
    bytes_of = sizes_of(batch.schema)
    assert bytes_of(batch) == pytest.approx(batch.nbytes, rel=0.02)
    rows_alone = cast("Any", SimpleNamespace(num_rows=400))
    assert bytes_of(rows_alone) == bytes_of(batch)


def test_the_bytes_of_texts_are_those_of_arrow() -> None:
    """A row tells nothing about the length of its text."""
    batch = pa.record_batch({"n": [1, 2], "s": ["short", "x" * 10_000]})
    assert sizes_of(batch.schema)(batch) == batch.nbytes
    mapped = pa.record_batch({"d": pa.array(["x" * 10_000]).dictionary_encode()})
    assert sizes_of(mapped.schema)(mapped) == mapped.nbytes > 10_000


def test_the_columns_of_a_schema_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group-by behind a step asks for them many times."""
    made: list[pa.Schema] = []
    make = parsing._columns_of._make

    def counted(schema: pa.Schema) -> Mapping[str, parsing.Expression]:
        made.append(schema)
        return make(schema)

    schema = pa.schema([(f"only here {i}", pa.int64()) for i in range(COLUMNS)])
    monkeypatch.setattr(parsing._columns_of, "_make", counted)
    step = WithColumns((("k", '"only here 0" % 10'),))
    for _ in range(3):
        assert len(step.computed(schema)) == COLUMNS + 1
    assert made == [schema]
