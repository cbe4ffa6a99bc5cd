"""db-benchmark (h2oai, now duckdblabs): Exoshuffle within 2 GB, DuckDB within the same, Polars without a limit.

Guarantee: every engine reads the same Parquet files and writes uncompressed Parquet, with the same number of threads.
Each runs in a process of its own, interpreter included. Answers to one question agree (``db_questions``). The original
times queries on tables that are in memory; here the time includes reading and writing, and memory is limited.

Every run is kept when it ends, in ``results/db_benchmark-ROWS.jsonl``, and is not repeated. So the benchmark can be
interrupted, and run one by one (``--keep`` keeps the tables meanwhile):

    python -m benchmarks.db_benchmark --rows 1e8 --question group_q3 --engine exoshuffle
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.agreement import Summary, check_agree, summary
from benchmarks.db_data import group_input, join_input
from benchmarks.db_questions import QUESTIONS
from benchmarks.measure import last_lines, measure
from benchmarks.peers.job import Job
from benchmarks.rounds import RESULTS
from benchmarks.sort_parquet import GB, Contender, python_of, set_cached
from exoshuffle.units import parse_bytes

OURS, SAME_LIMIT, UNLIMITED = "exoshuffle", "duckdb", "polars"
ENGINES = (OURS, SAME_LIMIT, UNLIMITED)
TRIAL_ROWS = 200_000


@dataclass(frozen=True)
class Answer:
    """One run of one engine at one question.

    Attributes:
        question: Its name.
        engine: Its name.
        seconds: From start to exit.
        synced_seconds: Until the answer is on disk; ratios are of this time.
        peak_bytes: Resident memory of the process tree.
        result: The numbers by which answers are compared; None after a failure.
        error: The last words of a run that failed.
    """

    question: str
    engine: str
    seconds: float
    synced_seconds: float
    peak_bytes: int
    result: Summary | None
    error: str = ""


@dataclass(frozen=True)
class Notebook:
    """All answers so far, in a file.

    Attributes:
        path: The file, with a JSON object a line.
    """

    path: Path

    def answers(self) -> list[Answer]:
        """Returns all of them."""
        if not self.path.exists():
            return []
        return [Answer(**json.loads(line)) for line in self.path.read_text().splitlines()]

    def add(self, answer: Answer) -> None:
        """Writes an answer down.

        Raises:
            AssertionError: It differs from that of another engine.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(dataclasses.asdict(answer)) + "\n")
        same = [one for one in self.answers() if one.question == answer.question]
        check_agree({one.engine: one.result for one in same if one.result is not None})


@dataclass(frozen=True)
class Arena:
    """The place where runs are made.

    Attributes:
        root: Folder for data.
        num_rows: N of the original.
        num_threads: CPUs for each engine.
        limit_bytes: Memory limit of Exoshuffle and DuckDB.
    """

    root: Path
    num_rows: int
    num_threads: int
    limit_bytes: int

    def run(self, question: str, engine: str) -> Answer:
        """Runs an engine once, with the input in the page cache."""
        data = self.input(question)
        scratch = self.root / "scratch-db"
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "spill").mkdir(parents=True)
        output = scratch / ("output" if engine == OURS else "output.parquet")
        limit = None if engine == UNLIMITED else self.limit_bytes
        job = Job(
            question,
            str(data.resolve()),
            str(output.resolve()),
            str((scratch / "spill").resolve()),
            self.num_threads,
            limit,
        )
        set_cached(data.rglob("*.parquet"), True)
        program = [python_of(Contender(engine)), "-m", f"benchmarks.peers.db_{engine}"]
        taken = measure([*program, job.to_json()])
        failed = taken.exit_code != 0
        answer = Answer(
            question,
            engine,
            taken.seconds,
            taken.synced_seconds,
            taken.peak_bytes,
            None if failed else summary(QUESTIONS[question].summary, output),
            (last_lines(taken.errors) or f"exit code {taken.exit_code}") if failed else "",
        )
        shutil.rmtree(scratch)
        return answer

    def input(self, question: str) -> Path:
        """Returns the folder of the tables, which the first call generates."""
        generate = group_input if question.startswith("group") else join_input
        return generate(self.num_rows, self.root)


def main() -> None:
    """Asks the questions without an answer yet, and prints the table of all answers."""
    options = _options()
    arena = Arena(options.root, round(options.rows), options.threads, options.memory_limit)
    notebook = Notebook(options.results or RESULTS / f"db_benchmark-{arena.num_rows}.jsonl")
    answered = {(one.question, one.engine) for one in notebook.answers()}
    for task in ("group", "join"):
        for question in options.question or QUESTIONS:
            for engine in options.engine or ENGINES:
                if not question.startswith(task) or (question, engine) in answered:
                    continue
                answer = arena.run(question, engine)
                print(_line(answer), flush=True)
                notebook.add(answer)
        if not options.keep:
            shutil.rmtree(arena.root / f"db-{task}-{arena.num_rows}", ignore_errors=True)
    _report(notebook, options.memory_limit)


def _line(answer: Answer) -> str:
    if answer.error:
        return f"{answer.question}: {answer.engine}: {answer.error}"
    taken = f"{answer.seconds:.1f} s, {answer.synced_seconds:.1f} s to disk"
    return f"{answer.question}: {answer.engine}: {taken}, {answer.peak_bytes / 1e9:.2f} GB"


def _report(notebook: Notebook, limit_bytes: int) -> None:
    answers = {(one.question, one.engine): one for one in notebook.answers()}
    result = Table("", "asked", *(f"{name} s" for name in ENGINES))
    for name in (f"of {SAME_LIMIT}'s", f"of {UNLIMITED}'s", *(f"{name} GB" for name in ENGINES)):
        result.add_column(name)
    for name, question in QUESTIONS.items():
        row = [answers.get((name, engine)) for engine in ENGINES]
        if any(row):
            result.add_row(name, question.text, *_cells(row))
    Console(width=160).print(result)
    for one in answers.values():
        if one.error:
            print(_line(one))
    for rival in (SAME_LIMIT, UNLIMITED):
        shares = [
            share
            for name in QUESTIONS
            if (share := _share(answers.get((name, OURS)), answers.get((name, rival))))
        ]
        if shares:
            print(f"geometric mean of {rival}'s time: {statistics.geometric_mean(shares):.2f}")
    peak = max((one.peak_bytes for one in answers.values() if one.engine == OURS), default=0)
    print(f"{OURS}: {peak / 1e9:.2f} GB at most, of {limit_bytes / 1e9:g}")
    print(f"every run: {notebook.path}")


def _cells(row: list[Answer | None]) -> list[str]:
    """Returns seconds to disk of each engine, our share of the others' seconds, and peaks of memory."""
    seconds = ["" if one is None else f"{one.synced_seconds:.1f}" for one in row]
    seconds = [
        "failed" if one and one.error else text for one, text in zip(row, seconds, strict=True)
    ]
    shares = [_share(row[0], rival) for rival in row[1:]]
    peaks = ["" if one is None else f"{one.peak_bytes / 1e9:.2f}" for one in row]
    return [*seconds, *(f"{share:.2f}" if share else "" for share in shares), *peaks]


def _share(ours: Answer | None, theirs: Answer | None) -> float | None:
    if ours is None or theirs is None or ours.error or theirs.error:
        return None
    return ours.synced_seconds / theirs.synced_seconds


def _options() -> Any:
    parser = argparse.ArgumentParser(description="db-benchmark: questions to three engines.")
    parser.add_argument("--rows", type=float, default=1e7, help="1e7: 0.5 GB, 1e8: 5 GB")
    parser.add_argument(
        "--question", action="append", choices=QUESTIONS, help="only this; may be repeated"
    )
    parser.add_argument("--engine", action="append", choices=ENGINES, help="likewise")
    parser.add_argument("--threads", type=int, default=2, help="CPUs for each engine")
    parser.add_argument(
        "--memory-limit", type=parse_bytes, default=2 * GB, metavar="SIZE", help="such as 2GB"
    )
    parser.add_argument("--root", type=Path, default=Path("bench-data"), help="where data is")
    parser.add_argument("--results", type=Path, help="file of the answers so far")
    parser.add_argument("--keep", action="store_true", help="do not delete the tables afterwards")
    parser.add_argument("--trial", action="store_true", help="a few rows: does it run?")
    options = parser.parse_args()
    if options.trial:
        options.rows = TRIAL_ROWS
    return options


if __name__ == "__main__":
    main()
