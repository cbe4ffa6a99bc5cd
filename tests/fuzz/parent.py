"""Runs cases in a child, one after the other, and says what came of each: rows, memory and time."""

from __future__ import annotations

import contextlib
import json
import select
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from exoshuffle.units import parse_bytes
from tests.fuzz.cases import Case, difference

if TYPE_CHECKING:
    from typing_extensions import Self

#: A case takes some tenths of a second. One that takes this long never ends.
PATIENCE_SECONDS = 120
#: Slower than this many times the oracle and a constant is worth a look.
SLOW_FACTOR, SLOW_SECONDS = 10, 10.0
SAMPLE_SECONDS = 0.01
#: A refusal that says why is an answer.
REFUSALS = {"MemoryLimitError", "LargeGroupError"}


@dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Attributes:
        case: Which.
        verdict: ``same``, ``refused``, ``different``, ``error``, ``over`` the limit, ``slow`` or ``hang``.
        detail: What about it.
        seconds: What the engine took.
    """

    case: Case
    verdict: str
    detail: str = ""
    seconds: float = 0.0


class Parent:
    """Has a child at hand for cases; a new one after each that hung or died, and now and then."""

    def __init__(self, folder: Path, engine: str = "local", cases_per_child: int = 50) -> None:
        self.folder, self.engine, self.cases_per_child = folder, engine, cases_per_child
        self._child: subprocess.Popen[str] | None = None
        self._asked = 0

    def run(self, seed: int) -> Outcome:
        """Runs the case of a seed; its files are gone afterwards, unless it is worth a look."""
        case, folder = Case.draw(seed), self.folder / str(seed)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            rows = case.write(folder / "in")
            started = time.perf_counter()
            wanted = case.operation.wanted(rows, rows)
        except Exception as error:  # noqa: BLE001  of the writer or the oracle, which are not ours
            return Outcome(case, "no oracle", f"{type(error).__name__}: {error}"[:300])
        oracle = time.perf_counter() - started
        with Peak(self._running()) as peak:
            answer = self._ask(seed, folder)
        outcome = _judged(case, answer, wanted, folder, (oracle, peak.bytes))
        if outcome.verdict in ("same", "refused", "no oracle"):
            shutil.rmtree(folder)
        if outcome.verdict in ("hang", "error", "over"):
            self.close()
        return outcome

    def close(self) -> None:
        """Ends the child."""
        if self._child is not None:
            for process in psutil.Process(self._child.pid).children(recursive=True):
                process.kill()
            self._child.kill()
            self._child.wait()
            for stream in (self._child.stdin, self._child.stdout):
                if stream is not None:
                    stream.close()
            self._child = None

    def _running(self) -> subprocess.Popen[str]:
        if self._child is not None and self._asked >= self.cases_per_child:
            self.close()
        if self._child is None:
            command = [sys.executable, "-m", "tests.fuzz.child"]
            pipe = subprocess.PIPE
            self._child = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
            )
            self._asked = 0
        self._asked += 1
        return self._child

    def _ask(self, seed: int, folder: Path) -> dict[str, Any]:
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        line = json.dumps({"seed": seed, "folder": str(folder), "engine": self.engine})
        try:
            child.stdin.write(line + "\n")
            child.stdin.flush()
        except BrokenPipeError:
            return {"kind": "died", "error": f"exit code {child.wait()}"}
        if not select.select([child.stdout], [], [], PATIENCE_SECONDS)[0]:
            return {"kind": "hang", "error": f"no answer within {PATIENCE_SECONDS} s"}
        answered = child.stdout.readline()
        if not answered:
            return {"kind": "died", "error": f"exit code {child.wait()}"}
        answer: dict[str, Any] = json.loads(answered)
        return answer


class Peak:
    """The most that a process and its descendants have resident meanwhile; shared pages once."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = psutil.Process(process.pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            with contextlib.suppress(psutil.NoSuchProcess):
                members = [self._process, *self._process.children(recursive=True)]
                self.bytes = max(self.bytes, sum(map(_resident_bytes, members)))


def _resident_bytes(process: psutil.Process) -> int:
    """What it shares with others counts as its share; nothing once it has ended, waited for or not."""
    with contextlib.suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0


def _judged(
    case: Case, answer: dict[str, Any], wanted: pa.Table, folder: Path, measured: tuple[float, int]
) -> Outcome:
    kind, (oracle, peak) = answer["kind"], measured
    if kind in REFUSALS:
        return Outcome(case, "refused", answer["error"])
    if kind is not None:
        return Outcome(case, "hang" if kind == "hang" else "error", f"{kind}: {answer['error']}")
    seconds = answer["seconds"]
    try:
        found = difference(_result(folder), wanted, case.operation)
    except Exception as error:  # noqa: BLE001  pyarrow's, of what was written
        found = f"unreadable: {error}"[:300]
    if found is not None:
        return Outcome(case, "different", found, seconds)
    if case.memory_limit is not None and peak > parse_bytes(case.memory_limit):
        return Outcome(
            case, "over", f"peaked at {peak:,} bytes within {case.memory_limit}", seconds
        )
    if seconds > SLOW_FACTOR * oracle + SLOW_SECONDS:
        return Outcome(case, "slow", f"{seconds:.1f} s, the oracle {oracle:.1f}", seconds)
    return Outcome(case, "same", "", seconds)


def _result(folder: Path) -> pa.Table:
    if (folder / "out").is_dir():
        files = sorted(
            each for each in (folder / "out").iterdir() if each.suffix in (".parquet", ".arrow")
        )
        return pa.concat_tables([_read(file) for file in files])
    return pa.ipc.open_stream((folder / "out.arrow").read_bytes()).read_all()


def _read(file: Path) -> pa.Table:
    return (
        pq.ParquetFile(file).read()
        if file.suffix == ".parquet"
        else pa.ipc.open_file(str(file)).read_all()
    )
