"""Spans of time as people write them: ``"10s"``, ``"1h30m"``, ``"1.5d"``. A day has 24 hours."""

from __future__ import annotations

import re
from fractions import Fraction

#: Seconds of each unit.
SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86_400),
    "w": Fraction(604_800),
}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d|w)")


def parse_duration(text: str) -> Fraction | None:
    """Returns the seconds of a span of time that is not negative; None for other text."""
    if not text or _PART.sub("", text):
        return None
    parts = (Fraction(number) * SECONDS[unit] for number, unit in _PART.findall(text))
    return sum(parts, Fraction(0))
