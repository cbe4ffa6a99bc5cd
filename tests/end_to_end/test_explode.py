"""``explode`` of every kind of list: a row for each value, and one with null for an empty list or null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine

NUMBERS: list[Any] = [[1, 2], [], None, [3]]
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "list": (pa.list_(pa.int64()), NUMBERS),
    "large list": (pa.large_list(pa.int64()), NUMBERS),
    "pairs": (pa.list_(pa.int64(), 2), [[1, 2], None, [3, None], [4, 5]]),
    "view": (pa.list_view(pa.int64()), NUMBERS),
    "large view of views": (
        pa.large_list_view(pa.string_view()),
        [["a", "b" * 20], [], None, ["c"]],
    ),
    "view of lists": (pa.list_view(pa.list_(pa.int8())), [[[1], None], [], None, [[], [2]]]),
}


@pytest.mark.parametrize(("first", "count"), [(0, 4), (1, 3), (3, 1), (0, 0)])
@pytest.mark.parametrize("name", KINDS)
def test_each_value_makes_a_row(name: str, first: int, count: int, engine: LocalEngine) -> None:
    del engine
    kind, values = KINDS[name]
    table = pa.table({"n": range(4), "v": pa.array(values, kind)}).slice(first, count)
    found = xs.from_arrow(table).explode("v").to_arrow()
    assert found.schema.field("v").type == kind.value_type
    rows = zip(*table.to_pydict().values(), strict=True)
    wanted = [(number, value) for number, each in rows for value in each or [None]]
    assert list(zip(*found.to_pydict().values(), strict=True)) == wanted


def test_views_that_do_not_lie_in_a_row(engine: LocalEngine) -> None:
    """pyarrow 26 casts such views to lists of other values."""
    del engine
    starts, sizes = pa.array([4, 0, 2], pa.int32()), pa.array([2, 3, 0], pa.int32())
    views = pa.ListViewArray.from_arrays(starts, sizes, pa.array(range(6)))
    found = xs.from_arrow(pa.table({"n": range(3), "v": views})).explode("v").to_pydict()
    assert found == {"n": [0, 0, 1, 1, 1, 2], "v": [4, 5, 0, 1, 2, None]}
