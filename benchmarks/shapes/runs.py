"""One shape, played by all engines: the rounds, and what is kept of them.

Guarantee: every run is a process of its own. Before the times of an engine count, its first result is compared with
DuckDB's, and a result that differs takes the engine out. The error of a query that an engine cannot do is kept in its
own words.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import Measurement, last_lines, measure
from benchmarks.peers.job import NOT_INSTALLED, Job
from benchmarks.rounds import Rounds, Run
from benchmarks.shapes.data import data_input
from benchmarks.shapes.engines import duckdb, polars
from benchmarks.shapes.fingerprint import Column, Fingerprint, columns_of, difference, fingerprint
from benchmarks.shapes.shape import Shape
from benchmarks.shapes.sizes import Size
from benchmarks.sort_parquet import Contender, python_of, set_cached

OURS, SAME_LIMIT, UNLIMITED, ON_REQUEST = "exoshuffle", "duckdb", "polars", "daft"
ENGINES = (OURS, SAME_LIMIT, UNLIMITED, ON_REQUEST)
#: The engines that take the memory limit.
LIMITED = (OURS, SAME_LIMIT)
#: Exit code of a run whose result differs from DuckDB's.
DIFFERS = 70


@dataclass(frozen=True)
class Result:
    """The result of one engine for one shape.

    Attributes:
        shape: Name of the shape.
        engine: Name of the engine.
        seconds: Of each round that counts, until the result is on disk.
        cpu_seconds: Of each of these, processor time of the process and all that it waited for.
        peak_bytes: The largest of all rounds, warm-up included.
        error: Why there are no seconds, in a few words.
    """

    shape: str
    engine: str
    seconds: tuple[float, ...] = ()
    cpu_seconds: tuple[float, ...] = ()
    peak_bytes: int = 0
    error: str = ""

    def to_json(self) -> str:
        """Returns the result as one line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(line: str) -> Result:
        """Returns the result of such a line."""
        found: dict[str, Any] = json.loads(line)
        seconds, cpu_seconds = (tuple(found.pop(name)) for name in ("seconds", "cpu_seconds"))
        return Result(**found, seconds=seconds, cpu_seconds=cpu_seconds)


@dataclass(frozen=True)
class Settings:
    """How shapes are played.

    Attributes:
        root: Folder for data.
        size: How large tables are.
        num_threads: CPUs for each engine.
        limit_bytes: Memory limit of Exoshuffle and DuckDB.
        timeout_seconds: After so long a run is stopped.
        rounds: How often each engine runs.
    """

    root: Path
    size: Size
    num_threads: int
    limit_bytes: int
    timeout_seconds: float
    rounds: Rounds


@dataclass
class Game:
    """One shape, and what its engines have made of it so far.

    Attributes:
        shape: The shape.
        settings: How it is played.
        seen: Engines whose first result has been compared.
        columns: Those of DuckDB's result.
        wanted: The numbers of DuckDB's result, without the order of its rows, and with it where it counts.
    """

    shape: Shape
    settings: Settings
    seen: set[str] = field(default_factory=set)
    columns: list[Column] = field(default_factory=list)
    wanted: dict[bool, Fingerprint] = field(default_factory=dict)

    def play(self, engines: Sequence[str]) -> list[Result]:
        """Plays all rounds.

        DuckDB's result is made first, by this process and without a memory limit, to compare all others with.
        """
        able = [one for one in engines if one != UNLIMITED or self.shape.name in polars.ANSWERS]
        duckdb.answer(self.shape, self._job(SAME_LIMIT, None))
        output = self._output(SAME_LIMIT)
        self.columns = columns_of(output)
        self.wanted = {
            kind: fingerprint(output, self.columns, kind) for kind in {False, self.shape.ordered}
        }
        runs = self.settings.rounds.play(able, self._play_one)
        missing = [
            Result(self.shape.name, one, error="cannot say it")
            for one in engines
            if one not in able
        ]
        return [*(self._result(one, runs) for one in able), *missing]

    def _play_one(self, engine: str, number: int) -> Run:
        measured = self._run(engine, self.settings.limit_bytes if engine in LIMITED else None)
        if measured.exit_code == 0 and engine not in self.seen:
            self.seen.add(engine)
            if difference := self._difference(engine):
                words = f"its result is not DuckDB's: {difference}"
                measured = dataclasses.replace(measured, exit_code=DIFFERS, errors=words)
        return Run(engine, number, measured, {})

    def _run(self, engine: str, limit_bytes: int | None) -> Measurement:
        job = self._job(engine, limit_bytes)
        set_cached(self._data().rglob("*.*"), True)
        program = [python_of(Contender(engine)), "-m", f"benchmarks.shapes.engines.{engine}"]
        return measure([*program, job.to_json()], timeout_seconds=self.settings.timeout_seconds)

    def _job(self, engine: str, limit_bytes: int | None) -> Job:
        """Returns the job of a run, whose folders are empty."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        (self._scratch / "spill").mkdir(parents=True)
        return Job(
            self.shape.name,
            str(self._data().resolve()),
            str(self._output(engine).resolve()),
            str((self._scratch / "spill").resolve()),
            self.settings.num_threads,
            limit_bytes,
            scale=self.settings.size.tpch,
            written_as=self.shape.output,
        )

    def _data(self) -> Path:
        return data_input(self.shape.data, self.settings.size, self.settings.root)

    @property
    def _scratch(self) -> Path:
        return self.settings.root / "scratch-shapes"

    def _output(self, engine: str) -> Path:
        """Returns the path of a result: a folder for engines that write several files."""
        ending = "csv" if self.shape.output == "csv" else "parquet"
        is_folder = engine in {OURS, ON_REQUEST}
        return self._scratch / ("output" if is_folder else f"output.{ending}")

    def _difference(self, engine: str) -> str | None:
        # Daft's files have names in no order.
        ordered = self.shape.ordered and engine != ON_REQUEST
        return difference(self._output(engine), self.columns, ordered, self.wanted[ordered])

    def _result(self, engine: str, runs: Sequence[Run]) -> Result:
        own = [run.measurement for run in runs if run.contender == engine]
        counted = [run.measurement for run in runs if run.contender == engine and run.counts]
        failed = next((one for one in own if one.exit_code != 0), None)
        return Result(
            self.shape.name,
            engine,
            () if failed else tuple(one.synced_seconds for one in counted),
            () if failed else tuple(one.cpu_seconds for one in counted),
            max(one.peak_bytes for one in own),
            _words(failed) if failed else "",
        )


def _words(failed: Measurement) -> str:
    """Returns why a run has failed, in a few words."""
    if failed.exit_code == NOT_INSTALLED:
        return "not installed"
    return last_lines(failed.errors, 1)[:200] or f"exit code {failed.exit_code}"
