"""Training programs that are killed go on, with other ranks and batches, as if nothing had happened."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import exoshuffle as xs
from exoshuffle.testing.meeting import poll
from tests.support.limits import large_memory_limit

ROWS, EPOCHS = 6000, 2
#: Writes each batch and the state behind it as one line. It waits before a line that nobody may see complete.
PROGRAM = """
import json, sys, time
import exoshuffle as xs

folder, out, state, size, rank, world, cpus, limit, epochs, stop = sys.argv[1:]
xs.init(memory_limit=int(limit), num_cpus=int(cpus))
loader = xs.DataLoader(
    xs.read_parquet(folder), batch_size=int(size), seed=5, rank=int(rank), world=int(world), format="arrow"
)
if state:
    loader.load_state_dict(json.loads(state))
lines = 0
with open(out, "w") as file:
    for epoch in loader.epochs(int(epochs)):
        for batch in epoch:
            if lines == int(stop):
                file.write("[")
                file.flush()
                time.sleep(600)
            lines += 1
            file.write(json.dumps([batch["id"].to_pylist(), loader.state_dict()]) + "\\n")
            file.flush()
"""


def trained(folder: Path, out: Path, state: str, size: int, ranks: int, stop: int) -> list[str]:
    """Lines of all ranks, which are killed in the step behind ``stop`` others."""
    limit = large_memory_limit()
    names = [out / f"{size}-{rank}.json" for rank in range(ranks)]
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", PROGRAM, str(folder), str(name), state, str(size)),
                *(str(rank), str(ranks), str(1 + ranks % 2), str(limit), str(EPOCHS), str(stop)),
            ]
        )
        for rank, name in enumerate(names)
    ]
    for process, name in zip(started, names, strict=True):
        poll(
            lambda process=process, name=name: (
                process.poll() is not None or (name.exists() and name.read_text().endswith("["))
            )
        )
        process.kill()
        assert process.wait() in (0, -9)
    return [name.read_text() for name in names]


def steps_of(texts: list[str]) -> Iterator[tuple[list[int], str]]:
    """The rows of all ranks in each step, and the state behind it."""
    complete = [[line for line in text.splitlines() if line != "["] for text in texts]
    for lines in zip(*complete, strict=True):
        parts, states = zip(*map(json.loads, lines), strict=True)
        assert all(state == states[0] for state in states)
        yield list(itertools.chain(*parts)), json.dumps(states[0])


def test_killed_programs_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(2):
        rows = range(number * ROWS // 2, (number + 1) * ROWS // 2)
        table = pa.table({"id": pa.array(rows, pa.int64()), "text": ["x" * 200] * len(rows)})
        pq.write_table(table, folder / f"{number}.parquet")
    with xs.init(memory_limit=large_memory_limit(), num_cpus=2):
        whole = xs.DataLoader(xs.read_parquet(folder), batch_size=ROWS, seed=5, format="arrow")
        order = [
            row
            for epoch in whole.epochs(EPOCHS)
            for batch in epoch
            for row in batch["id"].to_pylist()
        ]
    assert len(order) == EPOCHS * ROWS
    chance, state, got = random.Random(1), "", []
    for ranks, size in [(2, 500), (1, 777), (1, 1000)]:
        stop = 10**9 if size == 1000 else chance.randrange(1, 5)
        steps = list(steps_of(trained(folder, tmp_path, state, size, ranks, stop)))
        got += [row for rows, _ in steps for row in rows]
        state = steps[-1][1]
    assert got == order


def test_training_that_is_killed_again_and_again_goes_on() -> None:
    """The program does a thousand kills; see there."""
    out = subprocess.run(
        [sys.executable, "-m", "tests.faults.resumes", "--kills", "5"],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert "5 kills in" in out.stdout
