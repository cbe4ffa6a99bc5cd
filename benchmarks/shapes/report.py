"""Shows what a run has found: as tables in a terminal, and as a page with a plot in a folder.

Guarantee: every shape is there, those that we lose and those that failed included. A ratio is taken within one round,
and the median of these is shown.

    python -m benchmarks.shapes.report benchmarks/results/shapes-medium.jsonl docs
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.rounds import spread
from benchmarks.shapes.catalogue import shapes
from benchmarks.shapes.plot import Point, plot
from benchmarks.shapes.runs import ENGINES, OURS, SAME_LIMIT, UNLIMITED, Result
from benchmarks.shapes.shape import SECTIONS, Shape

#: The target for a shape: our time in that of the faster one of DuckDB and Polars.
TARGET = 1.2
NAMES = {OURS: "Exoshuffle", SAME_LIMIT: "DuckDB", UNLIMITED: "Polars", "daft": "Daft"}
COLUMNS = (
    *(f"{NAMES[one]} s" for one in ENGINES),
    "ratio",
    "CPU ratio",
    *(f"{NAMES[one]} GB" for one in ENGINES),
)


@dataclass(frozen=True)
class Report:
    """All results of a run.

    Attributes:
        settings: The settings of the run, by name.
        results: By shape and engine.
    """

    settings: Mapping[str, Any]
    results: Mapping[tuple[str, str], Result]

    @property
    def shapes(self) -> list[Shape]:
        """Returns the shapes that have results."""
        played = {shape for shape, _ in self.results}
        return [one for one in shapes(1).values() if one.name in played]

    def of(self, shape: str) -> dict[str, Result]:
        """Returns the results of a shape by engine."""
        return {one: self.results[shape, one] for one in ENGINES if (shape, one) in self.results}

    def ratio(self, shape: str, rivals: Sequence[str]) -> float | None:
        """Returns our time in that of the fastest of the rivals, or None."""
        return _ratio({one: result.seconds for one, result in self.of(shape).items()}, rivals)

    def cpu_ratio(self, shape: str, rivals: Sequence[str]) -> float | None:
        """Returns the same of processor time."""
        return _ratio({one: result.cpu_seconds for one, result in self.of(shape).items()}, rivals)

    def cells(self, shape: str) -> list[str]:
        """Returns the row of a shape in the table, under ``COLUMNS``."""
        found = self.of(shape)
        rivals = (SAME_LIMIT, UNLIMITED)
        ratios = (self.ratio(shape, rivals), self.cpu_ratio(shape, rivals))
        return [
            *(_seconds(found.get(one)) for one in ENGINES),
            *("" if one is None else f"{one:.2f}" for one in ratios),
            *(_peak(found.get(one)) for one in ENGINES),
        ]

    def failures(self) -> Iterator[str]:
        """Yields a line for each engine that has no result."""
        for (shape, engine), result in self.results.items():
            if result.error:
                yield f"{shape}: {NAMES[engine]}: {result.error}"

    def summary(self) -> Iterator[str]:
        """Yields lines about all shapes."""
        ratios = [self.ratio(one.name, (SAME_LIMIT, UNLIMITED)) for one in self.shapes]
        known = [one for one in ratios if one is not None]
        if known:
            met = sum(one <= TARGET for one in known)
            yield f"{met} of {len(known)} shapes take at most {TARGET:g} of the time of the faster of DuckDB and Polars"
        for section, title in SECTIONS.items():
            names = [one.name for one in self.shapes if one.section == section]
            for rival in (SAME_LIMIT, UNLIMITED):
                found = [each for name in names if (each := self.ratio(name, (rival,)))]
                if found:
                    mean = statistics.geometric_mean(found)
                    yield f"{title}: geometric mean {mean:.2f} of the time of {NAMES[rival]}, {len(found)} shapes"


def read(path: Path) -> Report:
    """Reads the file of a run: its settings, and then a result a line."""
    first, *lines = path.read_text().splitlines()
    results = [Result.from_json(line) for line in lines]
    return Report(json.loads(first), {(one.shape, one.engine): one for one in results})


def show(report: Report) -> None:
    """Prints the tables."""
    for section, title in SECTIONS.items():
        chosen = [one for one in report.shapes if one.section == section]
        if not chosen:
            continue
        table = Table("shape", *COLUMNS, title=title)
        for shape in chosen:
            table.add_row(shape.name, *report.cells(shape.name))
        Console(width=160).print(table)
    for line in (*report.failures(), *report.summary()):
        print(line)


def write(report: Report, folder: Path) -> None:
    """Writes ``shapes.md`` and ``shapes.svg``."""
    (folder / "shapes.md").write_text("\n".join(_page(report)) + "\n")
    (folder / "shapes.svg").write_text(plot(list(_points(report))))


def _page(report: Report) -> Iterator[str]:
    yield "# Shapes of data and queries"
    yield ""
    yield (
        "Made by `make bench-shapes` and `python -m benchmarks.shapes.report`; "
        "[benchmarks/README.md](../benchmarks/README.md) says what is compared, and how. Seconds are medians until the "
        "result is on disk. The ratio is our time in that of the faster of DuckDB (same memory limit) and Polars (no "
        "limit): below 1 we are faster."
    )
    yield ""
    yield from (f"- {name} {value}" for name, value in report.settings.items())
    yield ""
    yield "![Our time in that of others, shape by shape](shapes.svg)"
    yield ""
    yield from (f"- {line}" for line in report.summary())
    for section, title in SECTIONS.items():
        chosen = [one for one in report.shapes if one.section == section]
        if chosen:
            yield from ("", f"## {title}", "", f"| Shape | {' | '.join(COLUMNS)} |")
            yield f"| --- |{' --: |' * len(COLUMNS)}"
            for shape in chosen:
                yield f"| {shape.text} (`{shape.name}`) | {' | '.join(report.cells(shape.name))} |"
    failures = list(report.failures())
    if failures:
        yield from ("", "## What failed", "", *(f"- {line}" for line in failures))


def _points(report: Report) -> Iterator[Point]:
    for shape in report.shapes:
        for rival in ENGINES[1:]:
            ratio = report.ratio(shape.name, (rival,))
            if ratio is not None:
                yield Point(shape.name, NAMES[rival], ratio)


def _ratio(seconds: Mapping[str, Sequence[float]], rivals: Sequence[str]) -> float | None:
    times = [seconds[one] for one in rivals if seconds.get(one)]
    ours = seconds.get(OURS, ())
    pairs = (
        [own / min(others) for own, *others in zip(ours, *times, strict=True)]
        if times and ours
        else []
    )
    return statistics.median(pairs) if pairs else None


def _seconds(result: Result | None) -> str:
    if result is None:
        return ""
    return "failed" if result.error else spread(result.seconds, 2)


def _peak(result: Result | None) -> str:
    return "" if result is None or not result.peak_bytes else f"{result.peak_bytes / 1e9:.2f}"


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description="Write a run of the shapes as a page and a plot.")
    parser.add_argument("results", type=Path, help="such as benchmarks/results/shapes-medium.jsonl")
    parser.add_argument("folder", type=Path, help="such as docs")
    options = parser.parse_args()
    report = read(options.results)
    show(report)
    write(report, options.folder)


if __name__ == "__main__":
    main()
