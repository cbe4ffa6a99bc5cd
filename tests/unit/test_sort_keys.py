"""How users say what to sort by."""

from __future__ import annotations

from typing import Any

import pytest

from exoshuffle.errors import OptionsError
from exoshuffle.operators.core.keys import SortKey, check_keys, parse_by, parse_keys, parse_names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id", [SortKey("id")]),
        ("ts desc", [SortKey("ts", True)]),
        ("ts DESC NULLS FIRST, id", [SortKey("ts", True, True), SortKey("id")]),
        ("a\tdesc\n nulls first,\nb", [SortKey("a", True, True), SortKey("b")]),
        ("a asc nulls last,b nulls first", [SortKey("a"), SortKey("b", False, True)]),
        ('"my, key" desc', [SortKey("my, key", True)]),
        ("lower(name) desc, round(x, 2)", [SortKey("lower(name)", True), SortKey("round(x, 2)")]),
        ("a * b DESC NULLS FIRST", [SortKey("a * b", True, True)]),
        ("coalesce(s, 'x, y desc') nulls last", [SortKey("coalesce(s, 'x, y desc')")]),
        ("\"a b\" || 'c' desc", [SortKey("\"a b\" || 'c'", True)]),
    ],
)
def test_text(text: str, expected: list[SortKey]) -> None:
    assert list(parse_by(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shop", ["shop"]),
        (" shop ,unit price", ["shop", "unit price"]),
        ('"a, b", c', ["a, b", "c"]),
        (" ", []),
    ],
)
def test_names(text: str, expected: list[str]) -> None:
    assert parse_names(text) == expected


@pytest.mark.parametrize("text", [",", "a,", "a,,b"])
def test_names_between_commas(text: str) -> None:
    with pytest.raises(OptionsError, match="names a column without a name; write"):
        parse_names(text)


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


@pytest.mark.parametrize("text", ["k desc, a, k", '"k", k nulls first'])
def test_a_key_twice(text: str) -> None:
    with pytest.raises(OptionsError, match="sort key 'k' is named twice, in different ways;"):
        parse_by(text)


@pytest.mark.parametrize(
    "arguments", [(["k", "a", "k"], [True, False, False]), (["k", "k"], False, ["first", "last"])]
)
def test_an_argument_twice(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(OptionsError, match="sort key 'k' is named twice, in different ways;"):
        parse_keys(*arguments)


def test_objects_twice() -> None:
    with pytest.raises(OptionsError, match="sort key 'k' is named twice, in different ways;"):
        check_keys([SortKey("k"), SortKey("k", descending=True)])


def test_a_key_named_again_changes_nothing() -> None:
    keys = (SortKey("k", True), SortKey("a"))
    assert parse_by('k desc, a, "k" desc, a') == keys
    assert parse_keys(["k", "a", "k"], [True, False, True]) == keys
    assert check_keys([*keys, SortKey("k", True)]) == keys


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
