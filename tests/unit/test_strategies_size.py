"""A strategy is a program that fits on a few screens: the papers' claim is that shuffles are small, and ours are."""

from __future__ import annotations

from pathlib import Path

from exoshuffle.strategies import strategy
from exoshuffle.strategies.library import strategy_names

MOST_LINES = 250


def test_no_strategy_or_mechanism_is_long() -> None:
    files = Path(strategy.__file__).parent.rglob("*.py")
    lengths = {file.name: len(file.read_text().splitlines()) for file in files}
    assert {f"{name}.py" for name in strategy_names()} <= set(lengths)
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}
