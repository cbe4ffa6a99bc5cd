"""Tables of thousands of columns: work grows with their number, not with its square, and queries stay small."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from exoshuffle.arguments import repeated
from exoshuffle.operators.core import order
from exoshuffle.operators.core.order import check_group_keys
from exoshuffle.operators.distinct.distinct import Distinct
from exoshuffle.operators.group_by import aggregate
from exoshuffle.operators.group_by.parsing import parse_aggregates
from exoshuffle.operators.group_by.shuffle import group_by_shuffle
from exoshuffle.operators.join.join import JoinOptions, parse_join
from exoshuffle.operators.sql import groups
from exoshuffle.operators.sql.groups import Operands


class Name(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_names_are_not_compared_each_with_all() -> None:
    names = [Name(f"column {number}") for number in range(500)]
    Name.compared = 0
    assert repeated(names) == []
    assert Name.compared < 5 * len(names)


def test_repeated_names_come_once_and_in_their_order() -> None:
    assert repeated(["c", "a", "b", "a", "c", "a"]) == ["c", "a"]
    assert repeated(iter("aa")) == ["a"]


def test_types_of_keys_are_tried_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[bytes] = []
    build = order.ByKeys.build

    def counted(self: order.ByKeys, options: Any, schema: bytes) -> Any:
        built.append(schema)
        return build(self, options, schema)

    monkeypatch.setattr(order.ByKeys, "build", counted)
    kinds = [pa.int64(), pa.string(), pa.dictionary(pa.int8(), pa.string())]
    schema = pa.schema([(f"c{number}", kinds[number % 3]) for number in range(300)])
    check_group_keys(schema, schema.names)
    assert len(built) == len(kinds)
    assert {len(pa.ipc.read_schema(pa.py_buffer(one))) for one in built} == {1}


def test_a_join_asks_for_the_names_of_a_side_once_or_twice() -> None:
    class Asked:
        """A schema that counts how often it makes the list of its names."""

        def __init__(self, schema: pa.Schema) -> None:
            self.schema = schema
            self.asked = 0

        @property
        def names(self) -> list[str]:
            self.asked += 1
            return list(self.schema.names)

        def __iter__(self) -> Any:
            return iter(self.schema)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.schema, name)

    left = Asked(pa.schema([("id", pa.int64()), *((f"a{i}", pa.int64()) for i in range(100))]))
    right = pa.schema([("id", pa.int64()), *((f"a{i}", pa.int64()) for i in range(100))])
    joined = parse_join(left, right, JoinOptions(on=["id"], suffix="_2"))
    assert [output.field.name for output in joined.outputs][-1] == "a99_2"
    assert left.asked < 5


@pytest.mark.parametrize("functions", [["sum", "min", "var"], ["sum", "min", "list", "median"]])
def test_many_aggregates_are_computed_some_at_a_time(
    functions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(5)
    rows = pa.table(
        {
            "k": [draw.choice(["a", "b", None]) for _ in range(60)],
            **{f"c{i}": [draw.choice([None, 1, 2, 30]) for _ in range(60)] for i in range(4)},
        }
    )
    specs = {f"{name} {i}": (f"c{i}", name) for name in functions for i in range(4)}
    grouping = parse_aggregates(rows.schema, ("k",), specs)
    pieces = [grouping.partial(rows.slice(0, 40)), grouping.partial(rows.slice(40))]
    expected = grouping.final(pa.concat_tables(pieces))
    widths: list[int] = []
    computed = Operands.computed

    def measured(self: Operands, sql: str) -> pa.Table:
        found = computed(self, sql)
        widths.append(found.num_columns)
        return found

    monkeypatch.setattr(Operands, "computed", measured)
    monkeypatch.setattr(aggregate, "MOST_AT_ONCE", 3)
    again = [grouping.partial(rows.slice(0, 40)), grouping.partial(rows.slice(40))]
    assert again == pieces
    assert grouping.final(pa.concat_tables(again)) == expected
    assert max(widths) <= 4  # the number of the first row, beside what is computed


def test_many_keys_are_compared_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Null, NaN and both zeros are equal to themselves, as in one query."""
    choice = random.Random(3)
    numbers = [None, float("nan"), 0.0, -0.0, 1.0]
    columns = {f"c{n}": [choice.choice(numbers) for _ in range(300)] for n in range(5)}
    columns |= {f"t{n}": [choice.choice(["a", None]) for _ in range(300)] for n in range(3)}
    table = pa.table(columns)
    expected = groups.first_rows(table, table.column_names)
    assert 50 < len(expected) < 300
    for most in (1, 2, 3, 7):
        monkeypatch.setattr(groups, "MOST_KEYS", most)
        assert groups.first_rows(table, table.column_names).equals(expected)
    nothing = table.slice(0, 0)
    assert groups.first_rows(nothing, table.column_names).to_pylist() == []


def test_memory_of_groups_grows_with_aggregates() -> None:
    """Measured with groups of a row each: 94 bytes a row for a maximum of 8 bytes, 2,657 for 100 of them."""
    schema = pa.schema([(name, pa.int64()) for name in ("k", *(f"c{n}" for n in range(100)))])

    def row_bytes(count: int, function: str = "max") -> int:
        given = {f"a{n}": (f"c{n}", function) for n in range(count)}
        grouping = parse_aggregates(schema, ("k",), given)
        return group_by_shuffle(grouping).reduce_row_bytes + 2 * 8 * (count + 1)

    assert row_bytes(1) == 300 + 32
    assert row_bytes(100) > 2_657
    assert row_bytes(20, "std") > 1_235


@pytest.mark.parametrize("of_long", [1, 3])
def test_long_rows_that_are_kept_are_parts_of_their_table(of_long: int) -> None:
    """To take them would copy each twice; where most are dropped, those that stay are copied."""
    texts = [f"{number % of_long} " + 10_000 * "x" for number in range(12)]
    table = pa.table({"k": [1, 1, 2, *range(3, 9), 8, 1, 9], "s": texts})
    rows = Distinct(table.schema, ("k", "s") if of_long > 1 else ("k",))
    kept = rows.final(table)
    expected = groups.first_rows(table, rows.keys).to_pylist()
    assert kept.to_pylist() == [table.slice(number, 1).to_pylist()[0] for number in expected]
    is_shared = kept["s"].chunk(0).buffers()[2].address == table["s"].chunk(0).buffers()[2].address
    assert is_shared
    few = pa.concat_tables([table.slice(0, 1)] * 9).combine_chunks()
    alone = rows.final(few)
    assert alone.num_rows == 1
    assert alone["s"].chunk(0).buffers()[2].size < 2 * 10_002
