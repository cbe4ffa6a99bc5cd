"""Draws a report as one file of HTML with SVG inside, which opens offline: each node over time, against what it can."""

from __future__ import annotations

import html

from exoshuffle.engines.sim.runs.report import Line, Report

_WIDTH, _HEIGHT, _LEFT = 900, 34, 150
_COLOURS = {"CPU": "#4477aa", "disk": "#cc6677", "in": "#117733", "out": "#ddaa33"}
_NAMES = {"CPU": "CPUs", "disk": "disks", "in": "network in", "out": "network out"}
#: Nodes that are drawn; others look like them.
_MOST_NODES = 16
_STYLE = (
    "body{font:14px system-ui,sans-serif;margin:2em;color:#222}pre{background:#f4f4f4;padding:1em}"
    "text{font:11px system-ui,sans-serif;fill:#444}line{stroke:#bbb}.bound{stroke:#222;stroke-dasharray:3 3}"
)


def drawn(report: Report) -> str:
    """Returns the page."""
    nodes = list(dict.fromkeys(line.node for line in report.lines))
    shown = set(nodes[:_MOST_NODES])
    lines = [line for line in report.lines if line.node in shown and any(line.shares)]
    height = _HEIGHT * len(lines) + 60
    body = [_stages(report), *(_row(report, number, line) for number, line in enumerate(lines))]
    more = (
        f"<p>{len(nodes) - len(shown)} more nodes are not drawn.</p>"
        if len(nodes) > len(shown)
        else ""
    )
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<title>{html.escape(report.strategy)}, {report.seconds:,.1f} s</title><style>{_STYLE}</style></head><body>"
        f"<h1>{html.escape(report.strategy)}: {report.seconds:,.1f} s of virtual time</h1>"
        f"<pre>{html.escape(str(report))}</pre>"
        "<p>Each row is a device of a node over time; the dashed line is all that it can.</p>"
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH + _LEFT + 20}' height='{height}'>"
        f"{''.join(body)}</svg>{more}</body></html>\n"
    )


def _x(report: Report, seconds: float) -> float:
    return _LEFT + _WIDTH * seconds / max(report.seconds, 1e-9)


def _stages(report: Report) -> str:
    """Draws when the tasks of each name ran, above all rows."""
    parts = []
    for number, stage in enumerate(report.stages):
        begin, end = _x(report, stage.start), _x(report, stage.end)
        top = 4 + 12 * number
        title = f"{stage.name}: {stage.start:,.1f} to {stage.end:,.1f} s"
        parts.append(
            f"<rect x='{begin:.1f}' y='{top}' width='{max(1.0, end - begin):.1f}' height='10' fill='#999' "
            f"opacity='.5'><title>{html.escape(title)}</title></rect>"
            f"<text x='4' y='{top + 9}'>{html.escape(stage.name)}</text>"
        )
    return "".join(parts)


def _row(report: Report, number: int, line: Line) -> str:
    bottom = 50 + _HEIGHT * (number + 1)
    tall = _HEIGHT - 8
    points = [f"{_x(report, 0):.1f},{bottom}"]
    for piece, share in enumerate(line.shares):
        x = _x(report, min(report.seconds, (piece + 0.5) * report.piece_seconds))
        points.append(f"{x:.1f},{bottom - tall * min(share, 1.0):.1f}")
    last = min(report.seconds, len(line.shares) * report.piece_seconds)
    points.append(f"{_x(report, last):.1f},{bottom}")
    colour = _COLOURS[line.device]
    label = f"{line.node} {_NAMES[line.device]}"
    return (
        f"<text x='4' y='{bottom - 8}'>{html.escape(label)}</text>"
        f"<line x1='{_LEFT}' y1='{bottom}' x2='{_LEFT + _WIDTH}' y2='{bottom}'/>"
        f"<line class='bound' x1='{_LEFT}' y1='{bottom - tall}' x2='{_LEFT + _WIDTH}' y2='{bottom - tall}'/>"
        f"<polygon points='{' '.join(points)}' fill='{colour}' opacity='.75'/>"
    )
