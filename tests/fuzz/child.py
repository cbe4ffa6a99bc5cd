"""The process that runs the engine: a case for each line that it is sent, an answer of one line to each."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import exoshuffle as xs
from tests.fuzz.cases import Case


def main() -> None:
    """Answers until the parent is gone."""
    answers = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        asked = json.loads(line)
        answer = _answered(Case.draw(asked["seed"]), Path(asked["folder"]), asked["engine"])
        print(json.dumps(answer), file=answers, flush=True)


def _answered(case: Case, folder: Path, engine: str) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        spilled = {"spill_dirs": str(folder)} if engine == "local" else {}
        xs.init(engine, memory_limit=case.memory_limit, num_cpus=case.num_cpus, **spilled)
        started = time.perf_counter()
        _write(case.dataset(folder / "in"), case.sink, folder)
    except Exception as error:  # noqa: BLE001  of which kind is what is asked
        return {"kind": type(error).__name__, "error": str(error)[:500]}
    else:
        return {"kind": None, "seconds": time.perf_counter() - started}
    finally:
        xs.shutdown()


def _write(dataset: xs.Dataset, sink: str, folder: Path) -> None:
    if sink == "parquet":
        dataset.write_parquet(folder / "out")
    elif sink == "ipc":
        dataset.write_ipc(folder / "out")
    else:
        batches = dataset.to_arrow().to_batches() if sink == "arrow" else dataset.iter_batches()
        # A stream, since batches may have dictionaries of their own.
        with pa.ipc.new_stream(str(folder / "out.arrow"), dataset.schema) as writer:
            for batch in batches:
                writer.write(batch)


if __name__ == "__main__":
    main()
