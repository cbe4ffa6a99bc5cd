"""Aggregates as text."""

from __future__ import annotations

import pytest

from exoshuffle.errors import OptionsError
from exoshuffle.operators.group_by.text import parse_aggregate_text


def test_what_the_help_shows() -> None:
    assert parse_aggregate_text("n=count(), total=sum(x), p90=quantile(x, 0.9)") == {
        "n": "count()",
        "total": "sum(x)",
        "p90": "quantile(x, 0.9)",
    }


def test_names() -> None:
    text = """ "my n"=count("unit price"),b=sum(case when c = ',)' then 1 end), max(x, [1,2]) AS m, sum(a*b)"""
    assert parse_aggregate_text(text) == {
        "my n": 'count("unit price")',
        "b": "sum(case when c = ',)' then 1 end)",
        "m": "max(x, [1,2])",
        "sum(a*b)": "sum(a*b)",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read aggregates ''; write for example"),
        ("a=sum(x),,b=count()", "cannot read aggregates 'a=sum"),
        ("a=", "cannot read aggregates 'a='"),
        ("a=sum(x), a=count()", "two aggregates have the name 'a'"),
    ],
)
def test_what_is_not_of_the_form(text: str, message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        parse_aggregate_text(text)
