"""Draws ratios, a line for each shape, on a logarithmic axis, as an SVG that needs no library to draw or to show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

COLORS = {"DuckDB": "#d97706", "Polars": "#2563eb", "Daft": "#16a34a"}
LEFT, RIGHT, TOP, BOTTOM = 150, 20, 50, 30
WIDTH, LINE = 900, 15
#: Values of the axis that are named.
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class Point:
    """A ratio.

    Attributes:
        shape: Names the line.
        rival: Names the color: one of ``COLORS``.
        ratio: Our time in that of the rival.
    """

    shape: str
    rival: str
    ratio: float


def plot(points: Sequence[Point]) -> str:
    """Returns the drawing; left of 1 we are faster."""
    shapes = list(dict.fromkeys(one.shape for one in points))
    height = TOP + LINE * len(shapes) + BOTTOM
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">'
    return "\n".join(
        [
            head,
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            *_axis(points, height),
            *_legend(),
            *_lines(points, shapes),
            "</svg>",
            "",
        ]
    )


def _across(ratio: float, points: Sequence[Point]) -> float:
    """Returns the place of a ratio on the axis."""
    ratios = [1.0, *(one.ratio for one in points)]
    low, high = (math.log(edge) for edge in (min(ratios) / 1.2, max(ratios) * 1.2))
    return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(ratio) - low) / (high - low)


def _axis(points: Sequence[Point], height: int) -> Iterator[str]:
    for tick in TICKS:
        x = _across(tick, points)
        if LEFT <= x <= WIDTH - RIGHT:
            color = "#111" if tick == 1 else "#ddd"
            yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{height - BOTTOM}" stroke="{color}"/>'
            yield _text(x, height - BOTTOM + 14, f"{tick:g}", "middle")


def _legend() -> Iterator[str]:
    yield _text(LEFT, 18, "our time in that of", "start")
    for index, (rival, color) in enumerate(COLORS.items()):
        x = LEFT + 140 + 90 * index
        yield f'<circle cx="{x}" cy="14" r="4" fill="{color}"/>'
        yield _text(x + 10, 18, rival, "start")
    yield _text(LEFT, 38, "(left of 1 we are faster; the axis is logarithmic)", "start")


def _lines(points: Sequence[Point], shapes: Sequence[str]) -> Iterator[str]:
    for index, shape in enumerate(shapes):
        y = TOP + LINE * index + LINE / 2
        yield _text(LEFT - 8, y + 4, shape, "end")
        for one in points:
            if one.shape == shape:
                x = _across(one.ratio, points)
                title = f"<title>{escape(f'{shape}: {one.ratio:.2f} of {one.rival}')}</title>"
                yield f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{COLORS[one.rival]}">{title}</circle>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" text-anchor="{anchor}">{escape(text)}</text>'
    )
