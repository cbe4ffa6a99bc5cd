"""Keys of which some have far more rows: does every operator finish, within its memory, with right results?

Three tables have the same rows with other keys. ``half`` has one key in every second row, with 2 GB a group of 1 GB.
``zipf`` has key k in about 1 / (k (k + 1)) of the rows. In ``equal`` all keys are one. A hot key must break neither the
memory limit nor the job.

Guarantee: results are compared with DuckDB's counts of the input. If a function needs a group whole and it does not fit
(``groups``), it must be refused by name instead, with exit code 2.

    python -m benchmarks.skew --gb 2 --memory-limit 1GB
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
from rich.table import Table

from benchmarks.data import parquet_input
from benchmarks.measure import Measurement, last_lines, measure, require_success
from benchmarks.peers.exoshuffle import command
from benchmarks.rounds import Run, publish
from exoshuffle.units import parse_bytes

KINDS = {
    "half": "CASE WHEN row % 2 = 0 THEN 0 ELSE key END",
    "zipf": "least(2.0 ** 64 / (hash(row) + 1.0), 1e15)::BIGINT",
    "equal": "7::BIGINT",
}


@dataclass(frozen=True)
class Operation:
    """An operation on a table.

    Attributes:
        arguments: Arguments of the command, but for paths and limits.
        expected: SQL for ``fingerprint`` of the right result, over the input ``t`` and the table ``u`` to join with.
        fingerprint: SQL over a result ``t``.
    """

    arguments: Sequence[str]
    expected: str = ""
    fingerprint: str = "SELECT count(*), sum(key)::HUGEINT, sum(row)::HUGEINT FROM t"


OPERATIONS = {
    "sort": Operation(("sort", "--by", "key"), "SELECT count(*), sum(key), sum(row) FROM t"),
    "repartition": Operation(
        ("repartition", "--partitions", "32", "--by", "key"),
        "SELECT count(*), sum(key), sum(row) FROM t",
    ),
    "groupby": Operation(
        ("groupby", "--by", "key", "--agg", "n=count(), row=sum(row), least=min(row)"),
        "SELECT count(DISTINCT key), count(*), sum(row) FROM t",
        "SELECT count(*), sum(n)::HUGEINT, sum(row)::HUGEINT FROM t",
    ),
    "distinct": Operation(
        ("distinct", "--on", "key"),
        "SELECT count(*), sum(key), sum(row) FROM (SELECT key, min(row) AS row FROM t GROUP BY key)",
    ),
    "join": Operation(
        ("join", "--on", "key"),
        "SELECT count(*), sum(key), sum(row) FROM t SEMI JOIN u USING (key)",
    ),
    "groups": Operation(("groupby", "--by", "key", "--agg", "texts=list(text)")),
}


def main() -> None:
    """Runs every operation on every table and prints its figures."""
    options = _options()
    limit = parse_bytes(options.memory_limit)
    scratch = options.root / "scratch-skew"
    shutil.rmtree(scratch, ignore_errors=True)
    runs, wrong = [], []
    for kind, key in KINDS.items():
        table = _table(parquet_input(options.gb, options.root), key, scratch / kind)
        others = _others(table, scratch / f"{kind}-others")
        for name, operation in OPERATIONS.items():
            inputs = [table, others] if name == "join" else [table]
            output = scratch / "output"
            measured = _run(operation, inputs, output, options.memory_limit)
            verdict = _verdict(operation, measured, table, others, output)
            if verdict not in ("right", "refused") or measured.peak_bytes > limit:
                wrong.append(f"{name} of {kind}")
            runs.append(Run(f"{kind}: {name}", 0, measured, {"verdict": verdict}))
            shutil.rmtree(output, ignore_errors=True)
        shutil.rmtree(table)
    shutil.rmtree(scratch)
    publish("skew", _summary(runs), vars(options), runs)
    if wrong:
        sys.exit(f"wrong, or above the limit: {', '.join(wrong)}")


def _table(source: Path, key: str, folder: Path) -> Path:
    """Makes a table of the rows of the data set, with other keys."""
    folder.mkdir(parents=True)
    for file in sorted(source.glob("*.parquet")):
        duckdb.execute(
            f"COPY (SELECT {key} AS key, row, text FROM read_parquet('{file}'))"
            f" TO '{folder / file.name}' (COMPRESSION uncompressed)"
        )
    return folder


def _others(table: Path, folder: Path) -> Path:
    """Makes the table to join with: the hot keys and a thousandth of the others, with a word for each."""
    folder.mkdir()
    duckdb.execute(
        "COPY (SELECT DISTINCT key, 'word' AS word"
        f" FROM read_parquet('{table}/*.parquet') WHERE key BETWEEN 0 AND 100 OR key % 1000 = 0)"
        f" TO '{folder}/part.parquet'"
    )
    return folder


def _run(
    operation: Operation, inputs: Sequence[Path], output: Path, memory_limit: str
) -> Measurement:
    name, *arguments = operation.arguments
    limits = ("--memory-limit", memory_limit, "--spill-dir", str(output.parent))
    program = [str(command()), name, *map(str, inputs), str(output), *arguments, *limits]
    measured = measure(program)
    return require_success(program, measured) if operation.expected else measured


def _verdict(
    operation: Operation, measured: Measurement, table: Path, others: Path, output: Path
) -> str:
    if not operation.expected:
        is_refused = measured.exit_code == 2 and "rows of key" in measured.errors
        return "refused" if is_refused else f"not refused: {last_lines(measured.errors)}"
    with duckdb.connect(config={"memory_limit": "4GB"}) as connection:
        for name, folder in (("t", table), ("u", others)):
            connection.execute(f"CREATE VIEW {name} AS FROM read_parquet('{folder}/*.parquet')")
        expected = connection.execute(operation.expected).fetchone()
        connection.execute(f"CREATE OR REPLACE VIEW t AS FROM read_parquet('{output}/*.parquet')")
        found = connection.execute(operation.fingerprint).fetchone()
    return "right" if found == expected else f"{found}, not {expected}"


def _summary(runs: Sequence[Run]) -> Table:
    result = Table("", "seconds to disk", "peak GB", "result")
    for run in runs:
        measured = run.measurement
        result.add_row(
            run.contender,
            f"{measured.synced_seconds:.1f}",
            f"{measured.peak_bytes / 1e9:.2f}",
            run.notes["verdict"],
        )
    return result


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Operators on keys that are not spread evenly.")
    parser.add_argument("--gb", type=float, default=2, help="size of each table")
    parser.add_argument("--memory-limit", default="1GB", help="of every run")
    parser.add_argument("--root", type=Path, default=Path("bench-data"), help="where data is")
    return parser.parse_args()


if __name__ == "__main__":
    main()
