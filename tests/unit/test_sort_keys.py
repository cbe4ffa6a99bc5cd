"""How users say what to sort by."""

from __future__ import annotations

import pytest

from exoshuffle.errors import OptionsError
from exoshuffle.operators.keys import SortKey, parse_by, parse_keys


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id", [SortKey("id")]),
        ("ts desc", [SortKey("ts", True)]),
        ("ts DESC NULLS FIRST, id", [SortKey("ts", True, True), SortKey("id")]),
        ("a asc nulls last,b nulls first", [SortKey("a"), SortKey("b", False, True)]),
        ('"my, key" desc', [SortKey("my, key", True)]),
    ],
)
def test_text(text: str, expected: list[SortKey]) -> None:
    assert list(parse_by(text)) == expected


@pytest.mark.parametrize(
    "text", ["", "a,", "a sideways", "a desc nulls", "a nulls middle", "a b c"]
)
def test_text_that_cannot_be_read(text: str) -> None:
    with pytest.raises(OptionsError, match="cannot read sort key"):
        parse_by(text)


def test_names_with_spaces_are_told_to_be_quoted() -> None:
    with pytest.raises(OptionsError, match=r"'first name'; .*double quotes: '\"first name\" desc'"):
        parse_by("first name")
    assert parse_by('"first name" desc') == (SortKey("first name", True),)


@pytest.mark.parametrize("text", ["k, k", "k desc, a, k", '"k", k nulls first'])
def test_a_key_twice(text: str) -> None:
    with pytest.raises(OptionsError, match="sort key 'k' is named twice"):
        parse_by(text)


def test_arguments() -> None:
    assert parse_keys("a") == (SortKey("a"),)
    assert parse_keys(["a", "b"], [True, False], ["first", "last"]) == (
        SortKey("a", True, True),
        SortKey("b"),
    )


@pytest.mark.parametrize(
    "arguments",
    [([],), (["a", "b"], [True]), (["a"], False, ["first", "last"]), ("a", False, "middle")],
)
def test_arguments_that_contradict(arguments: tuple[object, ...]) -> None:
    with pytest.raises(OptionsError):
        parse_keys(*arguments)  # type: ignore[arg-type]
