"""An explode makes a row of each value, and one with null of each list without values, whatever the type."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from exoshuffle.operators.steps.explode import Explode

LISTS = [None, [1, 2], [], [None], [3], None, [4, None, 5], []]
TYPES = [
    pa.list_(pa.int64()),
    pa.large_list(pa.string()),
    pa.list_(pa.string_view()),
    pa.list_(pa.dictionary(pa.int8(), pa.string())),
    pa.list_(pa.struct([("a", pa.int64())])),
    pa.list_(pa.list_(pa.int64())),
]


def value_of(number: int | None, kind: pa.DataType) -> object:
    """Returns a value of a type for a number."""
    if number is None:
        return None
    if pa.types.is_integer(kind):
        return number
    if pa.types.is_struct(kind):
        return {"a": number}
    return [number, number] if pa.types.is_list(kind) else f"text {number}"


def exploded(table: pa.Table) -> pa.Table:
    """Returns the rows that the step makes."""
    return Explode("lists").apply(table.to_reader()).read_all()


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_lists_without_values_become_a_null(kind: pa.DataType) -> None:
    """Rows stay in order; a slice has its own rows alone."""
    lists = [
        None if one is None else [value_of(number, kind.value_type) for number in one]
        for one in LISTS
    ]
    table = pa.table({"n": list(range(len(lists))), "lists": pa.array(lists, kind)})
    for first, last in itertools.combinations(range(len(lists) + 1), 2):
        made = exploded(table.slice(first, last - first))
        wanted = [(n, v) for n in range(first, last) for v in lists[n] or [None]]
        assert list(zip(*made.to_pydict().values(), strict=True)) == wanted
        assert made.schema.field("lists").type == kind.value_type


def test_lists_of_nothing_but_null_become_nulls() -> None:
    """A choice between lists of nulls failed: Arrow appends no value of that type."""
    table = pa.table({"lists": pa.array([[None], [], None], pa.list_(pa.null()))})
    assert exploded(table).to_pydict() == {"lists": [None, None, None]}


def test_values_of_a_null_list_are_left_out() -> None:
    """A null may have values under it, which nobody sees."""
    lists = pa.ListArray.from_arrays([0, 2, 3, 3], [1, 2, 3], mask=pa.array([True, False, False]))
    assert exploded(pa.table({"lists": lists})).to_pydict() == {"lists": [None, 3, None]}
    fixed = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2))
    assert exploded(pa.table({"lists": fixed})).to_pydict() == {"lists": [1, 2, None, 3, 4]}
