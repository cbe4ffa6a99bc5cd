"""gensort records through Exoshuffle's own commands: generate, sort, check. The one place that spells those commands.

Guarantee: a check counts only if the output is in order, holds as many records as the input, and has its checksum.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Measurement, measure, require_success
from benchmarks.peers.exoshuffle import command

RECORD_BYTES = 100
NUM_FILES = 16


@dataclass(frozen=True)
class RecordsJob:
    """Sorts a folder of records within a limit, spilling beside the output, which replaces an older one."""

    input: Path
    output: Path
    memory_limit: str

    def run(self) -> tuple[Measurement, dict[str, Any]]:
        """Runs the sort; returns the measurement from outside and the program's report."""
        program = [
            str(command()),
            *("sort", str(self.input), str(self.output), "--format", "records"),
            *("--memory-limit", self.memory_limit, "--spill-dir", str(self.output.parent)),
            *("--overwrite", "--json"),
        ]
        measured = require_success(program, measure(program))
        return measured, last_json(measured.output)

    def check(self) -> dict[str, Any]:
        """Returns the output's valsort summary; ends this program if the output is not the sorted input."""
        before, after = valsort(self.input), valsort(self.output)
        for name in ("records", "checksum"):
            if before[name] != after[name]:
                sys.exit(
                    f"{self.output}: {name} is {after[name]}, that of the input {before[name]}"
                )
        if after["unordered"]:
            sys.exit(f"{self.output}: {after['unordered']} records are out of order")
        return after


def records_input(gb: float, root: Path) -> Path:
    """Returns a folder of random records, which the first call generates; gensort leaves all of it or none."""
    folder = root / f"records-{gb:g}gb"
    if not folder.exists():
        num_records = round(gb * 1e9) // RECORD_BYTES
        program = [str(command()), "gensort", str(num_records), str(folder)]
        subprocess.run(
            [*program, "--partitions", str(NUM_FILES)], check=True, stdout=subprocess.DEVNULL
        )
    return folder


def valsort(folder: Path) -> dict[str, Any]:
    """Returns records, checksum, duplicates and unordered of a folder. Rows out of order are no failure here."""
    program = [str(command()), "valsort", str(folder), "--json"]
    result = subprocess.run(program, check=False, capture_output=True, text=True)
    if not result.stdout.strip():
        sys.exit(f"{' '.join(program)}: exit code {result.returncode}: {result.stderr.strip()}")
    return last_json(result.stdout)


def last_json(output: str) -> dict[str, Any]:
    """Returns the JSON object that a command printed last."""
    content: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return content
