"""The values that count as a number of things, a number and a flag."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from exoshuffle.arguments import check_flag, is_number, is_whole
from exoshuffle.errors import OptionsError
from exoshuffle.units import parse_bytes


@pytest.mark.parametrize("value", [0, -3, 10**30])
def test_whole_numbers(value: Any) -> None:
    assert is_whole(value)
    assert is_number(value)


@pytest.mark.parametrize("value", [1.0, Fraction(1, 2), float("nan")])
def test_numbers_that_are_not_whole(value: Any) -> None:
    assert not is_whole(value)
    assert is_number(value)


@pytest.mark.parametrize("value", [True, False, None, "1", b"1", [1], 1j, Decimal(1)])
def test_what_is_no_number(value: Any) -> None:
    assert not is_whole(value)
    assert not is_number(value)


def test_flags() -> None:
    check_flag("header", True)
    check_flag("header", False)
    for value in (1, 0, None, "no", []):
        with pytest.raises(OptionsError, match=r"header is .*; write True or False"):
            check_flag("header", value)


@pytest.mark.parametrize("flag", [True, False])
def test_a_flag_is_not_a_size(flag: bool) -> None:
    with pytest.raises(OptionsError, match=f"{flag} is not a size"):
        parse_bytes(flag)
