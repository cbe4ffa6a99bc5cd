"""Many shapes of data and queries: Exoshuffle within a memory limit, DuckDB within the same, Polars and Daft without.

Guarantee: every engine reads the same files and writes the same format, with the same number of CPUs. Each run has a
process of its own. No time counts before the rows of the result are those of DuckDB. The results of a shape are kept
when its rounds end, and it is not played again: delete the file to begin anew.

    python -m benchmarks.shapes --size small --rounds 1 --warm-up 0
    python -m benchmarks.shapes --size large --shape tpch_q3 --memory-limit 1GB
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.rounds import RESULTS, Rounds
from benchmarks.shapes.catalogue import shapes
from benchmarks.shapes.report import read, show
from benchmarks.shapes.runs import ENGINES, Game, Settings
from benchmarks.shapes.sizes import SIZES
from exoshuffle.units import format_bytes, parse_bytes


def main() -> None:
    """Plays the shapes that have no results yet, and prints the tables of all."""
    options = _options()
    size = SIZES[options.size]
    settings = Settings(
        options.root,
        size,
        options.threads,
        options.memory_limit or size.limit_bytes,
        options.timeout,
        Rounds(options.rounds, options.warm_up),
    )
    path = options.results or RESULTS / f"shapes-{options.size}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_described(options.size, settings)) + "\n")
    played = {shape for shape, _ in read(path).results}
    known = shapes(size.tpch)
    for name in options.shape or known:
        if name in played:
            continue
        print(f"{name}: {known[name].text}", flush=True)
        results = Game(known[name], settings).play(options.engine or ENGINES)
        with path.open("a") as file:
            file.writelines(result.to_json() + "\n" for result in results)
    show(read(path))
    print(f"every run: {path}")


def _described(name: str, settings: Settings) -> dict[str, Any]:
    """Returns what results are measured with, as a page says it."""
    size, rounds = settings.size, settings.rounds
    return {
        "date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
        "size": f"{name} (TPC-H {size.tpch:g}, db-benchmark {size.db_rows:,} rows, others {size.rows:,} rows)",
        "memory limit": format_bytes(settings.limit_bytes),
        "threads": settings.num_threads,
        "rounds": f"{rounds.num_rounds} after {rounds.num_warm_up}",
        "machine": f"{platform.machine()} with {os.cpu_count()} CPUs",
        "DuckDB": version("duckdb"),
        "Polars": version("polars"),
    }


def _options() -> Any:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.shapes", description="Many shapes: Exoshuffle beside its peers."
    )
    parser.add_argument("--size", choices=SIZES, default="medium", help="how large tables are")
    parser.add_argument(
        "--shape", action="append", choices=shapes(1), metavar="NAME", help="only this; repeatable"
    )
    parser.add_argument("--engine", action="append", choices=ENGINES, help="likewise")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count")
    parser.add_argument("--warm-up", type=int, default=1, help="rounds before them that do not")
    parser.add_argument("--threads", type=int, default=2, help="CPUs for each engine")
    parser.add_argument(
        "--memory-limit", type=parse_bytes, metavar="SIZE", help="default: that of the size"
    )
    parser.add_argument("--timeout", type=float, default=600, help="seconds until a run is stopped")
    parser.add_argument("--root", type=Path, default=Path("bench-data"), help="where data is")
    parser.add_argument("--results", type=Path, help="file of the results so far")
    return parser.parse_args()


if __name__ == "__main__":
    main()
