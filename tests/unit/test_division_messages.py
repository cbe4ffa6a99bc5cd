"""The message about a group that is too large."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from exoshuffle.operators.division import tasks
from exoshuffle.operators.division.tasks import DividedTasks, weighed_keys


def test_keys_that_differ_in_case_alone() -> None:
    rows = pa.table({"a": [1, 1, 2], "A": ["x", "x", None]})
    sizes = pa.chunked_array([[5, 1, 2]])
    assert weighed_keys(rows, ["a", "A"], sizes) == {"a=1, A='x'": 6, "a=2, A=None": 2}


def test_keys_of_any_length() -> None:
    rows = pa.table({"a": ["y" * 10_000]})
    [(told, size)] = weighed_keys(rows, ["a"], pa.chunked_array([[7]])).items()
    assert (told, size) == ("a='" + "y" * 199 + "…", 7)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.string_view(), pa.int64()])
def test_a_group_of_one_long_row_is_the_largest(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key with the most rows was named, however short they were."""
    is_long = kind != pa.int64()
    values = ["y" * 100_000, *["x"] * 9] if is_long else range(10)
    rows = pa.table({"k": [1, *[2] * 9], "v": pa.array(values, kind), "none": pa.nulls(10)})
    monkeypatch.setattr(tasks, "get", lambda run: run)
    monkeypatch.setattr(tasks, "as_reader", lambda table: table.to_reader())
    source = SimpleNamespace(
        rows=lambda _, run: run, config=SimpleNamespace(order=SimpleNamespace(columns=("k",)))
    )
    divided = SimpleNamespace(inputs=(source,))
    key, share = DividedTasks.largest_group(divided, [rows.slice(0, 4), rows.slice(4)])  # type: ignore[arg-type]
    assert key == ("k=1" if is_long else "k=2")
    assert share > (0.99 if is_long else 0.89)
