"""``python -m tests.chaos`` runs jobs to which things happen; prints their outcomes, and how many rows were lost."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb

from exoshuffle.units import parse_bytes
from tests.chaos.faults import KINDS, Faults
from tests.support.disks import CannotMountError, may_mount, mount, unmount
from tests.support.peak import Peak

NUM_ROWS, NUM_FILES = 1_600_000, 8
#: Patience for a job of some seconds. One that takes this long never ends.
PATIENCE_SECONDS = 300
JOBS = ("sort", "push", "shuffle", "distinct", "function", "tasks")
LIMITS = {"function": "512MB", "tasks": "512MB"}
#: Jobs that have worker processes.
KILLED_JOBS = tuple(LIMITS)
LIMIT = "300MB"
FULL = "20m"
#: Outcomes that must not be: the program fails then, and says so in capitals.
FAILURES = ("WRONG ROWS", "LIMIT EXCEEDED", "HANG", "NO NAMED ERROR", "ENDED BY KILLS")


def main() -> int:
    """Runs jobs for a time.

    Returns 1 if rows were lost or changed in silence, a limit was exceeded, or a job did not end.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="no further job after so long")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts, end, seed = Counter[str](), time.monotonic() + arguments.seconds, arguments.seed
    with tempfile.TemporaryDirectory(prefix="exoshuffle-chaos-") as name:
        wanted = _make_input(Path(name) / "original")
        while time.monotonic() < end:
            counts += _run(seed, Path(name), wanted)
            seed += 1
    for what in sorted({*counts, *FAILURES}):
        _say(f"{what}: {counts[what]}")
    return int(any(counts[failure] for failure in FAILURES))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _make_input(folder: Path) -> dict[str, Any]:
    """Writes the input, and returns what is in it."""
    folder.mkdir()
    step = NUM_ROWS // NUM_FILES
    with duckdb.connect() as connection:
        for start in range(0, NUM_ROWS, step):
            rows = f"select i id, hash(i) k, md5(i::varchar) pad from range({start}, {start + step}) t(i)"  # noqa: S608
            connection.execute(f"copy ({rows}) to '{folder}/{start:08}.parquet' (format parquet)")
        found = connection.execute(
            f"select sum(id), bit_xor(hash(id, pad)) from read_parquet('{folder}/*.parquet')"  # noqa: S608
        ).fetchone()
    return {"error": None, "rows": NUM_ROWS, "sums": list(map(int, found or ()))}


def _run(seed: int, root: Path, wanted: dict[str, Any]) -> Counter[str]:
    """Runs one job with one kind of fault."""
    rng = random.Random(seed)
    job, fault = rng.choice(JOBS), rng.choice(list(KINDS))
    if fault in ("kill", "storm"):
        job = rng.choice(KILLED_JOBS)
    folder = root / str(seed)
    shutil.copytree(root / "original", folder / "in")
    (folder / "spill").mkdir()
    is_mounted = fault == "full" and _may_mount()
    if is_mounted:
        mount(folder / "spill", FULL)
    try:
        answer, peak, faults = _watched(job, fault, folder, seed)
    finally:
        if is_mounted:
            unmount(folder / "spill")
        shutil.rmtree(folder)
    verdict = _verdict(answer, wanted, peak, parse_bytes(LIMITS.get(job, LIMIT)))
    if fault in ("kill", "storm") and verdict.startswith("named error"):
        verdict = "ENDED BY KILLS"
    if verdict.isupper():
        _say(f"{verdict}: seed {seed}, {job}, {fault}: {answer}, peak {peak:,}")
    counted = Counter({"jobs": 1, f"jobs, {fault}": 1, verdict: 1})
    return counted + Counter({f"faults, {fault}": faults})


def _may_mount() -> bool:
    try:
        return may_mount()
    except CannotMountError:
        return False


def _watched(job: str, fault: str, folder: Path, seed: int) -> tuple[dict[str, Any], int, int]:
    """Returns the report of the job, its peak of memory, and how often something happened to it."""
    command = [sys.executable, "-m", "tests.chaos.job", job, LIMITS.get(job, LIMIT), str(folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        faults = Faults(fault, process.pid, folder, seed)
        faults.start()
        with Peak(process.pid) as peak:
            try:
                out, err = process.communicate(timeout=PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = "", "hang"
        faults.end()
    if out:
        answer: dict[str, Any] = json.loads(out)
        return answer, peak.bytes, faults.count
    return (
        {"error": "hang" if err == "hang" else "died", "text": err[-500:]},
        peak.bytes,
        faults.count,
    )


def _verdict(answer: dict[str, Any], wanted: dict[str, Any], peak: int, limit: int) -> str:
    if answer["error"] == "hang":
        return "HANG"
    if answer["error"] == "died":
        return "NO NAMED ERROR"
    if answer["error"] is not None:
        return f"named error, {answer['error']}"
    if answer != wanted:
        return "WRONG ROWS"
    return "LIMIT EXCEEDED" if peak > limit else "same rows"


if __name__ == "__main__":
    sys.exit(main())
