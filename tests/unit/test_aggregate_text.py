"""Aggregates as text."""

from __future__ import annotations

import pytest

from exoshuffle.errors import OptionsError
from exoshuffle.operators.group_by.text import parse_aggregate_text


def test_what_the_help_shows() -> None:
    assert parse_aggregate_text("n=count(), total=sum(x), p90=quantile(x, 0.9)") == {
        "n": "count",
        "total": ("x", "sum"),
        "p90": ("x", "quantile", 0.9),
    }


def test_names_with_spaces_and_no_spaces_at_all() -> None:
    assert parse_aggregate_text('"my n"=count("unit price"),b=top_k(c,3)') == {
        "my n": ("unit price", "count"),
        "b": ("c", "top_k", 3),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sum(x)", "cannot read"),
        ("a=sum(x", "cannot read"),
        ("a=sum(x) b=count()", "cannot read"),
        ("a=sum(x), a=count()", "two aggregates"),
        ("a=quantile(x, half)", "not a number"),
        ("a=count(, 5)", r"names no column; write count\(x, 5\)"),
    ],
)
def test_what_is_not_of_the_form(text: str, message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        parse_aggregate_text(text)
