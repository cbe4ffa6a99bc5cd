"""The message about a group that is too large."""

from __future__ import annotations

import pyarrow as pa

from exoshuffle.operators.division.tasks import counted_keys


def test_keys_that_differ_in_case_alone() -> None:
    rows = pa.table({"a": [1, 1, 2], "A": ["x", "x", None]})
    assert counted_keys(rows, ["a", "A"]) == {"a=1, A='x'": 2, "a=2, A=None": 1}


def test_keys_of_any_length() -> None:
    [(told, count)] = counted_keys(pa.table({"a": ["y" * 10_000]}), ["a"]).items()
    assert (told, count) == ("a='" + "y" * 199 + "…", 1)
