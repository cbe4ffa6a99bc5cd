"""Arrow's kernels, called without ``pyarrow.compute``, are those that it documents."""

from __future__ import annotations

import pyarrow as pa
import pyarrow._acero
import pyarrow._compute
import pyarrow.acero
import pyarrow.compute as pc
import pytest

from exoshuffle.operators.kernels import call, cast, cast_table, first_of, grouped, places_of

NUMBERS = pa.chunked_array([[1, None], [], [300]], pa.int64())


def test_the_private_module_has_what_the_public_one_hands_out() -> None:
    assert pyarrow._compute.call_function is pc.call_function
    assert pyarrow._compute.CastOptions is pc.CastOptions
    for name in (
        "ArraySortOptions",
        "CumulativeOptions",
        "DictionaryEncodeOptions",
        "SelectKOptions",
    ):
        assert getattr(pyarrow._compute, name) is getattr(pc, name)
    for name in ("AggregateNodeOptions", "Declaration", "TableSourceNodeOptions"):
        assert getattr(pyarrow._acero, name) is getattr(pyarrow.acero, name)


@pytest.mark.parametrize("name", ["add", "multiply", "equal"])
def test_a_kernel_is_called_by_its_name(name: str) -> None:
    assert call(name, NUMBERS, pa.scalar(3)).equals(getattr(pc, name)(NUMBERS, pa.scalar(3)))


def test_first_values_in_an_order() -> None:
    numbers = pa.chunked_array([[4, 1], [3, 2]])
    assert sorted(first_of(numbers, 2, "ascending").to_pylist()) == [1, 3]
    assert sorted(first_of(numbers, 3, "descending").to_pylist()) == [0, 2, 3]


def test_groups_are_those_of_a_table() -> None:
    table = pa.table({"k": ["b", "a", None, "b"], "x": [1, 2, 3, 4]})
    wanted = [("x", "sum"), ("x", "min")]
    expected = pa.TableGroupBy(table, ["k"], use_threads=False).aggregate(wanted)
    assert grouped(table, ["k"], wanted).equals(expected)


def test_casts_keep_values_or_fail() -> None:
    assert cast(NUMBERS, pa.int64()) is NUMBERS
    assert cast(NUMBERS, pa.int16()).equals(pc.cast(NUMBERS, pa.int16()))
    with pytest.raises(pa.ArrowInvalid):
        cast(NUMBERS, pa.int8())
    with pytest.raises(pa.ArrowNotImplementedError):
        cast(NUMBERS, pa.list_(pa.int64()))


def test_tables_are_cast_column_by_column() -> None:
    schema = pa.schema([("x", pa.float64()), ("y", pa.int64())])
    made = cast_table(pa.table({"x": NUMBERS, "y": NUMBERS}), schema)
    assert made.schema.equals(schema)
    assert made["x"].to_pylist() == [1.0, None, 300.0]


def test_places_among_others() -> None:
    among = pa.chunked_array([["b", None], ["a", "b"]])
    values = pa.chunked_array([["a", None], ["x", "b"]])
    assert places_of(values, among).to_pylist() == [2, None, None, 0]
