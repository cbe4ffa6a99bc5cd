"""Runs cases in a child, one after the other, and judges each: rows, memory and time."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from polars.exceptions import PanicException

from exoshuffle.units import parse_bytes
from tests.fuzz import command, oracle
from tests.fuzz.cases import Case
from tests.fuzz.compare import difference
from tests.fuzz.nursery import PATIENCE_SECONDS, Child, Nursery

#: A case is worth a look if it takes longer than this many times the oracle and a constant, in seconds of CPU.
SLOW_FACTOR, SLOW_SECONDS = 10, 5.0
#: A refusal that gives its reason is an answer.
REFUSALS = {"MemoryLimitError", "LargeGroupError"}
#: So are errors with these words, about types that only come along, or that nothing tells.
ANSWERS = (
    "a column has a type whose rows cannot be picked",
    "map_batches: for a table without rows",
    'strategy="whole" runs an operator without a shuffle',
)
#: Verdicts that need no look.
FINE = {"same", "refused", "no oracle"}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case.

    Attributes:
        case: The case.
        verdict: One of ``FINE``, or ``different``, ``error``, ``over`` the limit, ``slow`` or ``hang``.
        detail: More about it.
        seconds: CPU time that the engine took.
    """

    case: Case
    verdict: str
    detail: str = ""
    seconds: float = 0.0


class Parent:
    """Has a child at hand for cases; a new one after each that hung or died, and now and then."""

    def __init__(self, folder: Path, engine: str | None = None) -> None:
        self.folder, self.engine = folder, engine
        self._children: dict[str, Child] = {}
        self._nursery = Nursery()

    def run(self, seed: int) -> Outcome:
        """Runs the case of a seed; deletes its files afterwards, unless it is worth a look."""
        case, folder = Case.draw(seed), self.folder / str(seed)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            outcome = self._run(case, folder)
        finally:
            if any(child.is_lost for child in self._children.values()):
                self._end_children()
        if outcome.verdict in FINE:
            shutil.rmtree(folder)
        return outcome

    def close(self) -> None:
        """Ends the children and their nursery."""
        self._end_children()
        self._nursery.close()

    def _end_children(self) -> None:
        for child in self._children.values():
            child.close()
        self._children.clear()

    def _run(self, case: Case, folder: Path) -> Outcome:
        try:
            rows = case.write(folder / "in")
            started = time.process_time()
            wanted = case.operation.wanted(rows, rows)
        except Exception as error:  # noqa: BLE001  of the writer or the oracle, which are not ours
            return Outcome(case, "no oracle", f"{type(error).__name__}: {error}"[:300])
        oracle_seconds = time.process_time() - started
        peer_seconds, agrees = _second_opinion(case, rows, wanted)
        if not agrees:
            return Outcome(case, "no oracle", "Polars says something else than DuckDB")
        oracle_seconds = min(oracle_seconds, peer_seconds)
        engine = self.engine or case.engine
        if case.is_command and engine == "local":
            answer = command.run(case, folder, PATIENCE_SECONDS)
        else:
            answer = self._child(engine, case).ask(case, folder)
        return _judged(case, answer, wanted, folder, oracle_seconds)

    def _child(self, engine: str, case: Case) -> Child:
        child = self._children.get(engine)
        if child is not None and not child.is_good_for(case):
            child.close()
            child = None
        if child is None:
            child = self._children[engine] = self._nursery.child(engine)
        return child


def _second_opinion(case: Case, rows: pa.Table, wanted: pa.Table) -> tuple[float, bool]:
    """Returns how long Polars takes for the same, and whether it gives the same rows; endless where it cannot."""
    if case.operation.peer is None:
        return float("inf"), True
    started = time.process_time()
    try:
        found = case.operation.peer(rows)
    except (Exception, PanicException):  # noqa: BLE001  it has not all types
        return float("inf"), True
    seconds = time.process_time() - started
    return seconds, found == wanted["id"].to_pylist()


def _judged(
    case: Case, answer: dict[str, Any], wanted: pa.Table, folder: Path, oracle_seconds: float
) -> Outcome:
    kind, peak = answer["kind"], answer["peak"] - answer.get("kept", 0)
    if case.memory_limit is not None and peak > parse_bytes(case.memory_limit):
        detail = f"peaked at {peak:,} bytes within {case.memory_limit}; {answer.get('error', '')}"
        return Outcome(case, "over", detail)
    if kind in REFUSALS or any(words in answer.get("error", "") for words in ANSWERS):
        return Outcome(case, "refused", answer["error"])
    if kind is not None:
        return Outcome(case, "hang" if kind == "hang" else "error", f"{kind}: {answer['error']}")
    try:
        found = case.sink.read(folder, wanted)
        if case.sink.kind == "folders" and case.operation.is_ordered:
            found, wanted = (oracle.in_order(rows, '"few" nulls first') for rows in (found, wanted))
        wrong = difference(found, wanted, case.operation)
    except Exception as error:  # noqa: BLE001  pyarrow's, of what was written
        wrong = f"unreadable: {type(error).__name__}: {error}"[:300]
    if wrong is not None:
        return Outcome(case, "different", wrong, answer["cpu"])
    if answer["cpu"] > SLOW_FACTOR * oracle_seconds + SLOW_SECONDS:
        detail = f"{answer['cpu']:.1f} s of CPU, the oracle {oracle_seconds:.1f}"
        return Outcome(case, "slow", detail, answer["cpu"])
    return Outcome(case, "same", "", answer["cpu"])
