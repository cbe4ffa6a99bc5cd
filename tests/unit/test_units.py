"""Sizes in and out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.errors import OptionsError
from exoshuffle.units import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("17", 17),
        ("2GB", 2 * 10**9),
        ("2 gb", 2 * 10**9),
        ("2GiB", 2 * 2**30),
        ("1.5k", 1500),
        ("512MB", 512 * 10**6),
        ("1t", 10**12),
        (12345, 12345),
    ],
)
def test_sizes(text: str | int, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "2XB", "-1", "1e9", "two", "1 2", None, [1], b"2GB"])
def test_what_is_not_a_size_is_named(text: Any) -> None:
    with pytest.raises(OptionsError, match="is not a size"):
        parse_bytes(text)


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(OptionsError, match="negative"):
        parse_bytes(-1)


@given(st.integers(0, 10**15))
def test_what_is_printed_can_be_read(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == pytest.approx(count, rel=0.006, abs=0.5)
