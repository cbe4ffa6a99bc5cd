"""Cuts text at its commas, but not at those within quotes and brackets: ``"round(x, 2), name"`` has two parts."""

from __future__ import annotations

_QUOTES = "\"'"
_OPENING, _CLOSING = "([{", ")]}"


def split_list(text: str) -> list[str]:
    """Returns the parts of a list, as they are written; one part where there is no comma."""
    parts, current, quote, depth = [], "", "", 0
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character == "," and depth == 0:
            parts.append(current)
            current = ""
            continue
        else:
            depth += (character in _OPENING) - (character in _CLOSING)
        current += character
    return [*parts, current]
